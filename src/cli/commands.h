/* The commands: one file each, cmd_NAME.c, with one function fw_cli_NAME. */
#ifndef FW_CLI_COMMANDS_H
#define FW_CLI_COMMANDS_H

#include "config/options.h"

/* A command that takes options (config/commands.def). They are read and checked (fw_options_check) before it
 * is called; its caller reports the error and turns the status into the exit code. */
typedef fw_status (*fw_cli_command)(const fw_options *options);

/* Everything main does: find the command, read its options, run it, report. Returns the exit code. */
int fw_cli_main(int argc, char **argv);
fw_status fw_cli_train(const fw_options *options);
fw_status fw_cli_eval(const fw_options *options);
fw_status fw_cli_generate(const fw_options *options);
fw_status fw_cli_merge(const fw_options *options);
fw_status fw_cli_import(const fw_options *options);
fw_status fw_cli_topo(const fw_options *options);
fw_status fw_cli_doctor(const fw_options *options);
fw_status fw_cli_ckpt_ls(const fw_options *options);     /* cmd_ckpt_ls.c */
fw_status fw_cli_ckpt_verify(const fw_options *options); /* cmd_ckpt.c, as the next three */
fw_status fw_cli_ckpt_export(const fw_options *options);
fw_status fw_cli_ckpt_reshard(const fw_options *options);
fw_status fw_cli_ckpt_rm(const fw_options *options);
fw_status fw_cli_ckpt_diff(const fw_options *options); /* cmd_ckpt_diff.c */
fw_status fw_cli_bench(const fw_options *options);
fw_status fw_cli_bench_step(const fw_options *options);
fw_status fw_cli_data_show(const fw_options *options);
fw_status fw_cli_data_stats(const fw_options *options);
fw_status fw_cli_data_check(const fw_options *options);
fw_status fw_cli_plan(const fw_options *options);

/* The exit code of this process when its command does not fail: for commands whose result is one (doctor). */
void fw_cli_set_exit_code(int code);

/* The arguments of this process as main got them, NULL-terminated: what a rank of the same job is started with. */
char *const *fw_cli_arguments(void);

/* The command that the words begin with; *word_n: how many of them are its name ("bench", or "bench step").
 * Errors: FW_ERR_OPTION, naming the nearest command. */
fw_status fw_cli_find_command(fw_command *out, int *word_n, int argc, char *const *argv);

/* finewire help [COMMAND | --markdown]: the arguments after "help". */
fw_status fw_cli_help(int argc, char *const *argv);
fw_status fw_cli_help_overview(void);
fw_status fw_cli_help_command(fw_command command);
/* finewire version: nothing may come after it. */
fw_status fw_cli_version(int argc, char *const *argv);

#endif
