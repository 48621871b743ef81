/* Pre-tokenizers that write a piece anew: a space or its stand-in before it, U+2581 for spaces, characters for bytes. */
#include "base/alloc.h"
#include "text/pretokenize.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab.h"

#include <string.h>

typedef struct writer {
    struct fw_pre_rewrite *to;
    const fw_piece *from;
    bool want_origin;
    size_t head_bytes; /* of what is written */
} writer;

/* Append bytes that came from byte `at` of the piece. */
static fw_status put(writer *w, const char *bytes, size_t n_bytes, size_t at) {
    size_t first = w->to->text.len_bytes;
    if (at < w->from->head_bytes) w->head_bytes += n_bytes;
    FW_TRY(fw_strbuf_append(&w->to->text, bytes, n_bytes));
    if (!w->want_origin) return FW_OK;
    if (w->to->origin_cap < first + n_bytes) {
        size_t cap = 2 * (first + n_bytes) + 64;
        FW_TRY(FW_GROW_ARRAY(w->to->origin, cap));
        w->to->origin_cap = cap;
    }
    uint32_t origin = w->from->origin ? w->from->origin[at] : (uint32_t)(w->from->start + at);
    for (size_t i = 0; i < n_bytes; i++) w->to->origin[first + i] = origin;
    return FW_OK;
}

static fw_status put_bytes(writer *w, size_t first, size_t end) {
    const size_t head = w->from->head_bytes;
    if (w->want_origin) {
        for (size_t i = first; i < end; i++) FW_TRY(put(w, w->from->text + i, 1, i));
        return FW_OK;
    }
    if (first < head) w->head_bytes += (end < head ? end : head) - first;
    return fw_strbuf_append(&w->to->text, w->from->text + first, end - first);
}

static bool begins_with(const fw_piece *piece, const char *string, size_t string_bytes) {
    return piece->bytes >= string_bytes && memcmp(piece->text, string, string_bytes) == 0;
}

static fw_status metaspace(writer *w, const fw_pre_step *step) {
    const fw_piece *piece = w->from;
    bool wanted = step->prepend == FW_PREPEND_ALWAYS || (step->prepend == FW_PREPEND_FIRST && piece->head_bytes > 0);
    if (wanted && piece->text[0] != ' ' && !begins_with(piece, step->string, step->string_bytes))
        FW_TRY(put(w, step->string, step->string_bytes, 0));
    for (size_t i = 0; i < piece->bytes;) {
        const char *space = memchr(piece->text + i, ' ', piece->bytes - i);
        size_t end = space ? (size_t)(space - piece->text) : piece->bytes;
        FW_TRY(put_bytes(w, i, end));
        if (space) FW_TRY(put(w, step->string, step->string_bytes, end));
        i = end + 1;
    }
    return FW_OK;
}

static fw_status byte_level(writer *w) {
    for (size_t i = 0; i < w->from->bytes; i++) {
        char character[4];
        size_t bytes = fw_utf8_put(character, fw_vocab_byte_char((unsigned char)w->from->text[i]));
        FW_TRY(put(w, character, bytes, i));
    }
    return FW_OK;
}

fw_status fw_pre_rewrite(const fw_pretokenizer *pre, int index, const fw_piece *piece, fw_piece *out) {
    const fw_pre_step *step = &pre->steps->step[index];
    *out = *piece;
    if (step->kind == FW_PRE_PREFIX_SPACE && piece->text[0] == ' ') return FW_OK;
    writer w = {.to = &pre->scratch->level[index], .from = piece, .want_origin = pre->want_origin};
    fw_strbuf_clear(&w.to->text);
    if (step->kind == FW_PRE_METASPACE) {
        FW_TRY(metaspace(&w, step));
    } else if (step->kind == FW_PRE_BYTE_LEVEL) {
        FW_TRY(byte_level(&w));
    } else {
        FW_TRY(put(&w, " ", 1, 0));
        FW_TRY(put_bytes(&w, 0, piece->bytes));
    }
    out->text = out->shape = fw_strbuf_text(&w.to->text);
    out->bytes = w.to->text.len_bytes;
    out->head_bytes = w.head_bytes;
    out->origin = w.want_origin ? w.to->origin : NULL;
    if (!pre->steps->has_regex) return FW_OK;
    return fw_unicode_shape(&out->shape, &w.to->shape, out->text, out->bytes);
}

void fw_pre_scratch_fini(fw_pre_scratch *scratch) {
    for (int i = 0; i < FW_PRE_STEP_MAX; i++) {
        fw_strbuf_fini(&scratch->level[i].text);
        fw_strbuf_fini(&scratch->level[i].shape);
        fw_free(scratch->level[i].origin);
    }
    *scratch = (fw_pre_scratch){0};
}
