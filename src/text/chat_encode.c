/* A rendered conversation -> ids and marks. Control tokens of the template cut the text; what lies between
 * two of them is encoded as one run, since a word may span template and content, with control tokens that
 * content spells left as text. */
#include "base/alloc.h"
#include "text/chat.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

static const char turn_start[] = "<|im_start|>", turn_end[] = "<|im_end|>";

typedef struct chat_encoder {
    fw_encoder *encoder;
    fw_chat_rendering rendering;
    fw_offsets offsets;
    fw_ids *ids;
    fw_trained *trained; /* NULL: no marks wanted */
    size_t segment;      /* of the last looked up offset: offsets only rise */
    size_t run_start;    /* text before this is encoded */
} chat_encoder;

void fw_trained_fini(fw_trained *trained) {
    fw_free(trained->mark);
    *trained = (fw_trained){0};
}

static fw_status put_mark(chat_encoder *c, size_t offset) {
    if (c->trained == NULL) return FW_OK;
    fw_trained *t = c->trained;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        FW_TRY(FW_GROW_ARRAY(t->mark, cap));
        t->cap = cap;
    }
    const fw_chat_segment *segment = c->rendering.segment;
    while (offset >= segment[c->segment].offset + segment[c->segment].bytes) c->segment++;
    t->mark[t->n++] = segment[c->segment].trained;
    return FW_OK;
}

/* The text from the last control token up to `end`. */
static fw_status encode_run(chat_encoder *c, size_t end) {
    c->offsets.n = 0;
    FW_TRY(fw_tokenizer_encode_offsets(c->encoder, c->ids, &c->offsets, c->rendering.text.data + c->run_start,
                                       end - c->run_start, FW_ENCODE_LITERAL));
    for (size_t i = 0; i < c->offsets.n; i++) FW_TRY(put_mark(c, c->run_start + c->offsets.offset[i]));
    return FW_OK;
}

/* Encode up to and with the control tokens that this segment of the template holds. */
static fw_status encode_controls(chat_encoder *c, const fw_tokenizer *t, const fw_chat_segment *segment) {
    const char *text = c->rendering.text.data + segment->offset;
    for (size_t at = 0; at < segment->bytes;) {
        const char *found[2] = {memmem(text + at, segment->bytes - at, turn_start, sizeof turn_start - 1),
                                memmem(text + at, segment->bytes - at, turn_end, sizeof turn_end - 1)};
        int which = found[0] == NULL || (found[1] != NULL && found[1] < found[0]);
        if (found[which] == NULL) return FW_OK;
        const char *spelling = which ? turn_end : turn_start;
        size_t offset = (size_t)(found[which] - c->rendering.text.data);
        FW_TRY(encode_run(c, offset));
        FW_TRY(fw_ids_push(c->ids, fw_vocab_find(&t->vocab, spelling, strlen(spelling))));
        FW_TRY(put_mark(c, offset));
        c->run_start = offset + strlen(spelling);
        at = c->run_start - segment->offset;
    }
    return FW_OK;
}

static int32_t control_id(const fw_tokenizer *t, const char *spelling) {
    int32_t id = fw_tokenizer_id(t, spelling);
    return fw_tokenizer_is_special(t, id) ? id : -1;
}

/* Is the token found just where it is spelt? (Not with lstrip, rstrip or single_word.) */
static fw_status check_control(const fw_tokenizer *t, const char *spelling) {
    int32_t wanted = control_id(t, spelling);
    if (wanted < 0)
        return fw_fail(FW_ERR_INPUT, "the tokenizer has no control token \"%s\", which the chat template writes",
                       spelling);
    static const char around[] = {' ', 'x'};
    for (int i = 0; i < 2; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "%c%s%c", around[i], spelling, around[i]);
        const fw_added_set *sets[] = {&t->added_raw, &t->added_normalized};
        bool clean = false;
        for (int s = 0; s < 2 && !clean; s++) {
            fw_added_walk walk = {sets[s], text, (size_t)n, true, 0, 0, 0};
            size_t start, end;
            int32_t id;
            fw_added_next(&walk, &start, &end, &id);
            clean = id == wanted && end == 1 && walk.taken == (size_t)n - 1;
        }
        if (!clean)
            return fw_fail(
                FW_ERR_INPUT,
                "the tokenizer's control token \"%s\" has lstrip, rstrip or single_word; chats need it plain",
                spelling);
    }
    return FW_OK;
}

fw_status fw_chat_encode(fw_encoder *encoder, const fw_chat_template *chat, const fw_chat_message *messages,
                         size_t message_n, unsigned flags, fw_ids *ids, fw_trained *trained,
                         size_t *reasoning_dropped_n) {
    const fw_tokenizer *t = fw_encoder_tokenizer(encoder);
    FW_TRY(check_control(t, turn_start));
    FW_TRY(check_control(t, turn_end));
    chat_encoder c = {.encoder = encoder, .ids = ids, .trained = trained};
    size_t id_n = ids->n, mark_n = trained ? trained->n : 0;
    fw_status status;
    FW_TRY_OR(fw_chat_render(&c.rendering, chat, messages, message_n, flags), done);
    for (size_t i = 0; i < c.rendering.segment_n; i++)
        if (c.rendering.segment[i].kind == FW_CHAT_TEMPLATE)
            FW_TRY_OR(encode_controls(&c, t, &c.rendering.segment[i]), done);
    FW_TRY_OR(encode_run(&c, c.rendering.text.len_bytes), done);
    if (reasoning_dropped_n != NULL) *reasoning_dropped_n = c.rendering.reasoning_dropped_n;
done:
    if (status != FW_OK) {
        ids->n = id_n;
        if (trained) trained->n = mark_n;
    }
    fw_offsets_fini(&c.offsets);
    fw_chat_rendering_fini(&c.rendering);
    return status;
}

int32_t fw_chat_end_of_turn_id(const fw_tokenizer *tokenizer, const fw_chat_template *chat) {
    (void)chat; /* all known templates end turns alike */
    return control_id(tokenizer, turn_end);
}
