#include "support/train_main.h"

#include "cli/commands.h"
#include "cli/terminal.h"

#include <stdlib.h>

static fw_status train(int argc, char **argv, const fw_train_hooks *hooks) {
    fw_options options;
    fw_status status;
    bool reports = true;
    FW_TRY_OR(fw_options_init(&options, FW_COMMAND_TRAIN), done);
    FW_TRY_OR(fw_options_parse(&options, argc, argv), done);
    FW_TRY_OR(fw_options_check(&options), done);
    status = fw_train_run(&options, hooks, &reports);
    if (status != FW_OK && !reports) fw_terminal_error_was_shown();
done:
    fw_options_fini(&options);
    return status;
}

int fw_test_train_main(int argc, char **argv, const fw_train_hooks *hooks) {
    fw_terminal_start();
    if (getenv("RANK") == NULL) return fw_cli_main(argc, argv);
    return fw_terminal_report(train(argc - 2, argv + 2, hooks));
}
