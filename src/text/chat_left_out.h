/* What a template left out of a conversation, by the origins of what it wrote. For the files of this room. */
#ifndef FW_TEXT_CHAT_LEFT_OUT_H
#define FW_TEXT_CHAT_LEFT_OUT_H

#include "text/chat_label.h"

/* Fills left_out_n and is_emptied anew from the text and its segments. Errors: FW_ERR_NOMEM. */
fw_status fw_chat_find_left_out(fw_chat_rendering *rendering, const fw_conversation *conversation);

/* Once it is known what is learnt: an answer of tool calls that were left out would be learnt as an empty one. Sets
 * is_answer_lost. Errors: FW_ERR_INPUT. */
fw_status fw_chat_check_answers(fw_chat_rendering *rendering, size_t message_n);

#endif
