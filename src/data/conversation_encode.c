#include "data/conversation_encode.h"

#include "base/alloc.h"

#include <string.h>

static fw_status encode_text(fw_conversation_tokens *out, fw_encoder *encoder, const fw_conversation *c) {
    const fw_tokenizer *tokenizer = fw_encoder_tokenizer(encoder);
    fw_offsets offsets = {0};
    fw_status status;
    FW_TRY_OR(fw_tokenizer_encode_offsets(encoder, &out->ids, &offsets, c->text, c->text_bytes, FW_ENCODE_ADD_SPECIAL),
              done);
    int32_t eos = fw_tokenizer_eos_id(tokenizer);
    if (eos >= 0) FW_TRY_OR(fw_ids_push(&out->ids, eos), done);
    FW_TRY_OR(FW_GROW_ARRAY(out->trained.mark, out->ids.n + 1), done);
    out->trained.cap = out->ids.n + 1;
    for (size_t i = 0; i < out->ids.n; i++)
        out->trained.mark[i] = i >= offsets.n || offsets.offset[i] >= c->prompt_bytes;
    out->trained.n = out->ids.n;
done:
    fw_offsets_fini(&offsets);
    return status;
}

/* Roles and contents. What the templates known here do not write is refused, not left out. */
static fw_status encode_messages(fw_conversation_tokens *out, fw_encoder *encoder, const fw_chat_template *chat,
                                 const fw_conversation *c) {
    fw_chat_message *message;
    bool plain = c->tools == NULL && c->documents == NULL && c->kwargs == NULL && c->prompt_n == 0 && !c->has_marks;
    for (size_t i = 0; i < c->message_n; i++)
        plain = plain && json_object_get(c->message[i].json, "tool_calls") == NULL &&
                json_object_get(c->message[i].json, "reasoning_content") == NULL;
    if (!plain)
        return fw_fail(FW_ERR_INPUT,
                       "tools, documents, reasoning in a field of its own, loss marks and prompts are not "
                       "supported with this chat template");
    FW_TRY(FW_NEW_ARRAY(message, c->message_n));
    for (size_t i = 0; i < c->message_n; i++)
        message[i] = (fw_chat_message){c->message[i].role, c->message[i].content, c->message[i].content_bytes};
    fw_status status =
        fw_chat_encode(encoder, chat, message, c->message_n, 0, &out->ids, &out->trained, &out->reasoning_dropped_n);
    fw_free(message);
    return status;
}

fw_status fw_conversation_encode(fw_conversation_tokens *out, fw_encoder *encoder, const fw_chat_template *chat,
                                 const fw_conversation *c, const fw_label_options *options) {
    fw_ids_clear(&out->ids);
    out->trained.n = 0;
    out->reasoning_dropped_n = 0;
    FW_TRY(c->is_text ? encode_text(out, encoder, c) : encode_messages(out, encoder, chat, c));
    if (options->all_tokens) memset(out->trained.mark, 1, out->trained.n);
    return FW_OK;
}

void fw_conversation_tokens_fini(fw_conversation_tokens *tokens) {
    fw_ids_fini(&tokens->ids);
    fw_trained_fini(&tokens->trained);
    *tokens = (fw_conversation_tokens){0};
}
