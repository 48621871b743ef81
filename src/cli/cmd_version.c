#include "cli/commands.h"
#include "cli/terminal.h"

fw_status fw_cli_version(int argc, char *const *argv) {
    if (argc > 0) return fw_fail(FW_ERR_OPTION, "finewire version takes nothing more; leave out \"%.100s\"", argv[0]);
    return fw_terminal_printf("finewire %s\n", FW_VERSION);
}
