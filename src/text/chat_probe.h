/* What a template writes around an answer, found by letting it write one: fills prompt, opening, ending and after of
 * the template anew. What a template refuses to write stays empty. For the files of this room. Errors: FW_ERR_NOMEM. */
#ifndef FW_TEXT_CHAT_PROBE_H
#define FW_TEXT_CHAT_PROBE_H

#include "text/chat.h"

fw_status fw_chat_probe(fw_chat_template *chat);
void fw_chat_probe_clear(fw_chat_template *chat);

#endif
