/* finewire help, finewire COMMAND --help, and the hidden finewire help --markdown, which makes docs/options.md. */
#include "cli/commands.h"
#include "cli/help_text.h"
#include "cli/terminal.h"

#include <string.h>

/* Print the text when making it went well; releases it. */
static fw_status print_text(fw_strbuf *text, fw_status made) {
    fw_status status = made;
    if (status == FW_OK) status = fw_terminal_write(fw_strbuf_text(text), text->len_bytes);
    fw_strbuf_fini(text);
    return status;
}

fw_status fw_cli_help_overview(void) {
    fw_strbuf text = {0};
    return print_text(&text, fw_help_overview(&text));
}

fw_status fw_cli_help_command(fw_command command) {
    fw_strbuf text = {0};
    return print_text(&text, fw_help_command(&text, command));
}

fw_status fw_cli_help(int argc, char *const *argv) {
    if (argc == 0) return fw_cli_help_overview();
    fw_command command;
    int word_n = 1;
    const bool markdown = strcmp(argv[0], "--markdown") == 0;
    if (!markdown) FW_TRY(fw_cli_find_command(&command, &word_n, argc, argv));
    if (argc > word_n)
        return fw_fail(FW_ERR_OPTION, "finewire help takes one command, and \"%.100s\" is a second one", argv[word_n]);
    if (markdown) {
        fw_strbuf text = {0};
        return print_text(&text, fw_help_markdown(&text));
    }
    return fw_cli_help_command(command);
}
