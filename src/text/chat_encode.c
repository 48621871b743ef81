/* A rendered conversation -> ids and marks. The text is encoded as a whole; a control token counts only where the
 * template, or a role that is a known word, wrote all of it. */
#include "base/alloc.h"
#include "text/chat.h"
#include "text/chat_label.h"
#include "text/chat_left_out.h"
#include "text/tokenizer_parts.h"

#include <string.h>

void fw_trained_fini(fw_trained *trained) {
    fw_free(trained->mark);
    fw_free(trained->weight);
    *trained = (fw_trained){0};
}

fw_status fw_trained_reserve(fw_trained *trained, size_t n) {
    if (n <= trained->cap) return FW_OK;
    const size_t cap = n + trained->cap / 2;
    FW_TRY(FW_GROW_ARRAY(trained->mark, cap));
    FW_TRY(FW_GROW_ARRAY(trained->weight, cap));
    trained->cap = cap;
    return FW_OK;
}

/* Roles that may be a part of a control token, as in '<|' + role + '|>'. Any other word could make one that no template
 * meant: a role "endoftext". */
static bool is_known_role(const char *text, size_t bytes) {
    static const char *const roles[] = {"system", "developer", "user",     "assistant",
                                        "model",  "tool",      "function", "ipython"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strlen(roles[i]) == bytes && memcmp(roles[i], text, bytes) == 0) return true;
    return false;
}

static bool is_trusted(const fw_chat_rendering *r, const fw_chat_segment *s) {
    return s->field == FW_CHAT_TEMPLATE || (s->field == FW_CHAT_ROLE && is_known_role(r->text + s->offset, s->bytes));
}

/* The stretches of the text whose control tokens count. */
static fw_status find_trusted(fw_chat_rendering *r, bool all, fw_stretch **list, size_t *n) {
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, *list, r->segment_n + 1));
    *n = 0;
    if (all) (*list)[(*n)++] = (fw_stretch){0, r->text_bytes};
    for (size_t i = 0; i < r->segment_n && !all; i++) {
        const fw_chat_segment *s = &r->segment[i];
        if (!is_trusted(r, s)) continue;
        if (*n > 0 && (*list)[*n - 1].end == s->offset)
            (*list)[*n - 1].end += s->bytes;
        else
            (*list)[(*n)++] = (fw_stretch){s->offset, s->offset + s->bytes};
    }
    return FW_OK;
}

/* Where the control tokens among the new ids stand. */
static fw_status find_controls(fw_chat_rendering *r, const fw_tokenizer *t, const fw_ids *ids,
                               const fw_offsets *offsets, size_t id_n, size_t offset_n, fw_chat_control **list,
                               size_t *n) {
    *n = 0;
    for (size_t i = id_n; i < ids->n; i++) *n += fw_tokenizer_is_special(t, ids->id[i]);
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, *list, *n));
    *n = 0;
    for (size_t i = 0; i + id_n < ids->n; i++) {
        int32_t id = ids->id[id_n + i];
        if (!fw_tokenizer_is_special(t, id)) continue;
        size_t start = offsets->offset[offset_n + i];
        (*list)[(*n)++] = (fw_chat_control){start, start + strlen(fw_tokenizer_token(t, id)), id};
    }
    return FW_OK;
}

static fw_status put_marks(fw_trained *trained, const fw_chat_rendering *r, const fw_offsets *offsets,
                           size_t offset_n) {
    size_t n = offsets->n - offset_n, segment = 0;
    FW_TRY(fw_trained_reserve(trained, trained->n + n));
    for (size_t i = 0; i < n; i++, trained->n++) {
        size_t offset = offsets->offset[offset_n + i];
        while (segment + 1 < r->segment_n && offset >= r->segment[segment + 1].offset) segment++;
        trained->mark[trained->n] = r->segment_n > 0 && r->segment[segment].trained;
        trained->weight[trained->n] = trained->mark[trained->n] ? r->segment[segment].weight : FW_LOSS_WEIGHT_ONE;
    }
    return FW_OK;
}

fw_status fw_chat_encode(fw_encoder *encoder, const fw_chat_template *chat, const fw_conversation *c, unsigned flags,
                         fw_chat_rendering *r, fw_ids *ids, fw_offsets *offsets, fw_trained *trained) {
    const fw_tokenizer *t = fw_encoder_tokenizer(encoder);
    const size_t id_n = ids->n, offset_n = offsets->n, mark_n = trained->n;
    fw_stretch *trusted;
    fw_chat_control *control;
    size_t trusted_n = 0, control_n = 0;
    fw_status status;
    FW_TRY(fw_chat_render(r, chat, c, flags));
    FW_TRY(find_trusted(r, chat->special_in_content, &trusted, &trusted_n));
    FW_TRY_OR(fw_tokenizer_encode_trusted(encoder, ids, offsets, r->text, r->text_bytes, trusted, trusted_n), done);
    FW_TRY_OR(find_controls(r, t, ids, offsets, id_n, offset_n, &control, &control_n), done);
    FW_TRY_OR(fw_chat_label(r, chat, c, flags, control, control_n, fw_chat_end_of_turn_id(t, chat)), done);
    FW_TRY_OR(fw_chat_check_answers(r, json_array_size(c->messages)), done);
    FW_TRY_OR(put_marks(trained, r, offsets, offset_n), done);
done:
    if (status != FW_OK) {
        ids->n = id_n;
        offsets->n = offset_n;
        trained->n = mark_n;
    }
    return status;
}

/* A control token in a text of the template's: the first, the last, or the first that is `wanted` (an id, or -1: any). */
static int32_t control_in(const fw_tokenizer *t, const char *text, bool last, int32_t wanted) {
    const fw_added_set *const sets[] = {&t->added_raw, &t->added_normalized};
    int32_t found = -1;
    size_t found_at = 0;
    for (int i = 0; i < 2 && text != NULL; i++) {
        fw_added_walk walk = {.set = sets[i], .text = text, .text_bytes = strlen(text), .find_special = true};
        for (;;) {
            size_t start, end;
            int32_t id;
            fw_added_next(&walk, &start, &end, &id);
            if (id < 0) break;
            if (!fw_tokenizer_is_special(t, id) || (wanted >= 0 && id != wanted)) continue;
            if (found >= 0 && (last ? end <= found_at : end >= found_at)) continue;
            found = id;
            found_at = end;
        }
    }
    return found;
}

int32_t fw_chat_end_of_turn_id(const fw_tokenizer *t, const fw_chat_template *chat) {
    int32_t eos = fw_tokenizer_eos_id(t), end = eos >= 0 ? control_in(t, chat->ending, false, eos) : -1;
    if (end < 0) end = control_in(t, chat->ending, true, -1);
    return end >= 0 ? end : control_in(t, chat->after, false, -1);
}
