/* The commands: one file each, cmd_NAME.c, with one function fw_cli_NAME. */
#ifndef FW_CLI_COMMANDS_H
#define FW_CLI_COMMANDS_H

#include "config/options.h"

/* A command that takes options (config/commands.def). They are read and checked (fw_options_check) before it is
 * called; the caller reports the error and turns the status into the exit code. */
typedef fw_status (*fw_cli_command)(const fw_options *options);

/* Find the command, read its options, run it, report: everything main does. argv[0] is the program. Returns the
 * exit code. */
int fw_cli_main(int argc, char **argv);

/* finewire help [COMMAND | --markdown]. arguments after "help". */
fw_status fw_cli_help(int argc, char *const *argv);
/* Help of one command, or of all when command is FW_COMMAND_N. */
fw_status fw_cli_help_command(fw_command command);
fw_status fw_cli_version(void);

#endif
