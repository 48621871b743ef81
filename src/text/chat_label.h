/* Which bytes of a rendered conversation are learnt: the rule of text/chat.h. For the files of this room. */
#ifndef FW_TEXT_CHAT_LABEL_H
#define FW_TEXT_CHAT_LABEL_H

#include "text/chat.h"

#include <ctype.h>

/* A control token in the rendered text. */
typedef struct fw_chat_control {
    size_t start, end;
    int32_t id;
} fw_chat_control;

static inline bool fw_chat_is_blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (!isspace((unsigned char)text[i])) return false;
    return true;
}

/* Set `trained` and `weight` of every segment; segments are cut where it changes. control: in order. end_of_turn: the id that ends
 * a turn, or -1. Errors: FW_ERR_NOMEM. */
fw_status fw_chat_label(fw_chat_rendering *rendering, const fw_chat_template *chat, const fw_conversation *conversation,
                        unsigned flags, const fw_chat_control *control, size_t control_n, int32_t end_of_turn);

#endif
