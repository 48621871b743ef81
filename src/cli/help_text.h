/* Help made from the table of options: for the terminal and as Markdown. All append to *text; errors: FW_ERR_NOMEM. */
#ifndef FW_CLI_HELP_TEXT_H
#define FW_CLI_HELP_TEXT_H

#include "base/strbuf.h"
#include "config/options.h"

fw_status fw_help_overview(fw_strbuf *text);
fw_status fw_help_command(fw_strbuf *text, fw_command command);
fw_status fw_help_markdown(fw_strbuf *text);

/* Append a sentence, broken between words so that no line is longer than all_columns; lines but the first are indented by
 * left_columns, where the first stands already. Ends with a newline. */
fw_status fw_help_wrap(fw_strbuf *text, const char *sentence, size_t left_columns, size_t all_columns);

#endif
