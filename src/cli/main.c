/* finewire: the entry. Commands are in cli/cmd_NAME.c, found by cli/dispatch.c. */
#include "cli/commands.h"
#include "cli/terminal.h"

int main(int argc, char **argv) {
    fw_terminal_start();
    return fw_cli_main(argc, argv);
}
