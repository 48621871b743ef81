#include "cli/commands.h"
#include "cli/terminal.h"

fw_status fw_cli_version(void) { return fw_terminal_printf("finewire %s\n", FW_VERSION); }
