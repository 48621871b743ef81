/* Help made from the table of options: for the terminal and as Markdown. All append to *text; errors: FW_ERR_NOMEM. */
#ifndef FW_CLI_HELP_TEXT_H
#define FW_CLI_HELP_TEXT_H

#include "base/strbuf.h"
#include "config/options.h"

fw_status fw_help_overview(fw_strbuf *text);
fw_status fw_help_command(fw_strbuf *text, fw_command command);
fw_status fw_help_markdown(fw_strbuf *text);

#endif
