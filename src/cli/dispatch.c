/* From arguments to a command: the table of commands, and what happens around each of them. */
#include "cli/commands.h"
#include "cli/terminal.h"
#include "config/nearest.h"

#include <string.h>

/* Commands that take options, in the order of config/commands.def: fw_cli_NAME of cli/cmd_NAME.c. */
static const fw_cli_command runners[FW_COMMAND_N] = {
    [FW_COMMAND_TRAIN] = fw_cli_train,
    [FW_COMMAND_EVAL] = fw_cli_eval,
    [FW_COMMAND_GENERATE] = fw_cli_generate,
    [FW_COMMAND_IMPORT] = fw_cli_import,
};

static fw_status run_with_options(fw_command command, int argc, char *const *argv) {
    fw_options options;
    fw_status status;
    FW_TRY_OR(fw_options_init(&options, command), done);
    FW_TRY_OR(fw_options_parse(&options, argc, argv), done);
    if (options.help_asked) {
        status = fw_cli_help_command(command);
        goto done;
    }
    FW_TRY_OR(fw_options_check(&options), done);
    if (runners[command] == NULL)
        status = fw_fail(FW_ERR_INTERNAL, "no function runs finewire %s", fw_command_get(command).name);
    else
        FW_TRY_OR(runners[command](&options), done);
done:
    fw_options_fini(&options);
    return status;
}

fw_status fw_cli_find_command(fw_command *out, const char *name) {
    fw_nearest nearest;
    fw_nearest_start(&nearest, name);
    for (int c = 0; c < FW_COMMAND_N; c++) {
        const char *known = fw_command_get((fw_command)c).name;
        if (strcmp(known, name) == 0) {
            *out = (fw_command)c;
            return FW_OK;
        }
        fw_nearest_offer(&nearest, known);
    }
    fw_nearest_offer(&nearest, "help");
    fw_nearest_offer(&nearest, "version");
    if (nearest.best != NULL)
        return fw_fail(FW_ERR_OPTION, "\"%.100s\" is not a command of finewire; did you mean %s?", name, nearest.best);
    return fw_fail(FW_ERR_OPTION, "\"%.100s\" is not a command of finewire; finewire help lists them", name);
}

static fw_status run(int argc, char **argv) {
    if (argc < 2) {
        FW_TRY(fw_cli_help_overview());
        return fw_fail(FW_ERR_OPTION, "no command given");
    }
    const char *name = argv[1];
    argc -= 2;
    argv += 2;
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return fw_cli_help(argc, argv);
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) return fw_cli_version(argc, argv);
    if (name[0] == '-')
        return fw_fail(FW_ERR_OPTION, "the command comes first: finewire COMMAND %.100s; finewire help lists them",
                       name);
    fw_command command;
    FW_TRY(fw_cli_find_command(&command, name));
    return run_with_options(command, argc, argv);
}

static char *const *arguments;

char *const *fw_cli_arguments(void) { return arguments; }

int fw_cli_main(int argc, char **argv) {
    arguments = argv;
    return fw_terminal_report(run(argc, argv));
}
