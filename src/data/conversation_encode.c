#include "data/conversation_encode.h"

#include "base/alloc.h"

#include <string.h>

static bool begins_with_token(const fw_tokenizer *t, int32_t id, const fw_conversation *c) {
    const char *token = id >= 0 ? fw_tokenizer_token(t, id) : NULL;
    size_t n = token != NULL ? strlen(token) : 0;
    return n > 0 && n <= c->text_bytes && memcmp(c->text, token, n) == 0;
}

/* A plain text: all of it but the prompt, and the end of text, which is put behind it. Where its control tokens count, it
 * may have its own beginning and end already: none is put beside it. */
static fw_status encode_text(fw_conversation_tokens *out, fw_encoder *encoder, const fw_conversation *c, bool special) {
    const fw_tokenizer *t = fw_encoder_tokenizer(encoder);
    const int32_t eos = fw_tokenizer_eos_id(t);
    unsigned flags = special ? FW_ENCODE_SPECIAL | FW_ENCODE_ADD_SPECIAL : FW_ENCODE_ADD_SPECIAL;
    if (special && begins_with_token(t, fw_tokenizer_bos_id(t), c)) flags = FW_ENCODE_SPECIAL;
    FW_TRY(fw_tokenizer_encode_offsets(encoder, &out->ids, &out->offsets, c->text, c->text_bytes, flags));
    const bool has_end = special && out->ids.n > 0 && out->ids.id[out->ids.n - 1] == eos;
    if (eos >= 0 && !has_end) FW_TRY(fw_ids_push(&out->ids, eos));
    out->spells_control = !special && fw_tokenizer_spells_special(t, c->text, c->text_bytes);
    FW_TRY(fw_trained_reserve(&out->trained, out->ids.n));
    for (size_t i = 0; i < out->ids.n; i++) {
        out->trained.mark[i] = i >= out->offsets.n || out->offsets.offset[i] >= c->prompt_bytes;
        out->trained.weight[i] = FW_LOSS_WEIGHT_ONE;
    }
    out->trained.n = out->ids.n;
    return FW_OK;
}

fw_status fw_conversation_encode(fw_conversation_tokens *out, fw_encoder *encoder, const fw_chat_template *chat,
                                 const fw_conversation *c, const fw_label_options *options) {
    fw_ids_clear(&out->ids);
    out->trained.n = out->offsets.n = out->rendering.segment_n = 0;
    out->mark_ignored_n = 0;
    memset(out->left_out_n, 0, sizeof out->left_out_n);
    out->spells_control = false;
    if (c->is_text) {
        FW_TRY(encode_text(out, encoder, c, chat != NULL && chat->special_in_content));
        if (options->all_tokens && out->trained.n > 0) memset(out->trained.mark, 1, out->trained.n);
    } else if (chat == NULL || chat->plain == NULL) {
        return fw_fail(FW_ERR_INPUT,
                       "the model has no chat template, which conversations need; rows of text, or of prompt "
                       "and completion as strings, are learnt without one");
    } else {
        unsigned flags = options->all_tokens ? FW_CHAT_ALL_TOKENS : options->last_turn ? FW_CHAT_LAST_TURN : 0;
        FW_TRY(fw_chat_encode(encoder, chat, c, flags, &out->rendering, &out->ids, &out->offsets, &out->trained));
        memcpy(out->left_out_n, out->rendering.left_out_n, sizeof out->left_out_n);
        out->mark_ignored_n = out->rendering.mark_ignored_n;
    }
    return FW_OK;
}

void fw_conversation_tokens_fini(fw_conversation_tokens *tokens) {
    fw_ids_fini(&tokens->ids);
    fw_trained_fini(&tokens->trained);
    fw_offsets_fini(&tokens->offsets);
    fw_chat_rendering_fini(&tokens->rendering);
    *tokens = (fw_conversation_tokens){0};
}
