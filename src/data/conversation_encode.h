/* One conversation -> the tokens of it and which of them are learnt: where this room hands over to room text. */
#ifndef FW_DATA_CONVERSATION_ENCODE_H
#define FW_DATA_CONVERSATION_ENCODE_H

#include "text/chat.h"
#include "text/conversation.h"

/* What is learnt, where the file does not say. */
typedef struct fw_label_options {
    int all_tokens; /* every token, not only what the template marks (assistant_only_loss false) */
    int last_turn;  /* of the assistant's turns the last only (mask_history) */
} fw_label_options;

/* Reused from one conversation to the next. Zero-initialise; release with fw_conversation_tokens_fini. */
typedef struct fw_conversation_tokens {
    fw_ids ids;
    fw_trained trained; /* one a token */
    fw_offsets offsets; /* one a token: where it begins in the text; less by the end of text of a plain text */
    /* The text of a conversation of messages, cut by where it comes from; a plain text has no segments. */
    fw_chat_rendering rendering;
    int64_t left_out_n[FW_CHAT_LEFT_N]; /* what the template writes nothing of */
    size_t mark_ignored_n; /* messages marked to be learnt that the template's {% generation %} leaves out */
    bool spells_control;   /* a plain text with the spelling of a control token, which stays text */
} fw_conversation_tokens;

/* Replaces what *out holds. Errors (FW_ERR_INPUT) do not name the file and line: the caller does. */
fw_status fw_conversation_encode(fw_conversation_tokens *out, fw_encoder *encoder, const fw_chat_template *chat,
                                 const fw_conversation *conversation, const fw_label_options *options);
void fw_conversation_tokens_fini(fw_conversation_tokens *tokens);

#endif
