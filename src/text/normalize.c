/* The chain of normalisers: each step edits the output of the one before; what it leaves alone is not copied. */
#include "text/normalize.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <string.h>

static fw_status push_span(fw_norm_layer *l, size_t start, size_t original, bool same) {
    if (l->span_n == l->span_cap) {
        size_t cap = l->span_cap ? 2 * l->span_cap : 16;
        FW_TRY(FW_GROW_ARRAY(l->span, cap));
        l->span_cap = cap;
    }
    l->span[l->span_n++] = (fw_norm_span){start, original, same};
    return FW_OK;
}

static fw_status copy_until(fw_norm_layer *l, size_t end) {
    if (end == l->copied) return FW_OK;
    FW_TRY(push_span(l, l->copy.len_bytes, l->copied, true));
    FW_TRY(fw_strbuf_append(&l->copy, l->input + l->copied, end - l->copied));
    if (l->copied < l->head_bytes) l->head_copied += (end < l->head_bytes ? end : l->head_bytes) - l->copied;
    l->copied = end;
    return FW_OK;
}

fw_status fw_norm_edit_owned(fw_norm_layer *l, size_t start, size_t end, const char *with, size_t with_bytes,
                             size_t owner) {
    FW_TRY(copy_until(l, start));
    FW_TRY(push_span(l, l->copy.len_bytes, start, false));
    FW_TRY(fw_strbuf_append(&l->copy, with, with_bytes));
    if (owner < l->head_bytes) l->head_copied += with_bytes;
    l->copied = end;
    return FW_OK;
}

fw_status fw_norm_edit(fw_norm_layer *l, size_t start, size_t end, const char *with, size_t with_bytes) {
    return fw_norm_edit_owned(l, start, end, with, with_bytes, start);
}

static fw_status run_step(fw_normal *n, const fw_norm_step *step, fw_regex_scratch *regex) {
    fw_norm_layer *l = &n->layer[n->layer_n];
    l->input = n->text;
    l->input_bytes = n->bytes;
    l->copied = l->span_n = l->hint = l->head_copied = 0;
    l->head_bytes = n->head_bytes;
    fw_strbuf_clear(&l->copy);
    FW_TRY(step->kind <= FW_NORM_NFKD ? fw_norm_unicode(n, l, step->kind) : fw_norm_run_step(n, l, step, regex));
    if (l->span_n == 0) return FW_OK; /* no edit */
    FW_TRY(copy_until(l, l->input_bytes));
    n->text = fw_strbuf_text(&l->copy);
    n->bytes = l->copy.len_bytes;
    n->head_bytes = l->head_copied;
    n->layer_n++;
    return FW_OK;
}

fw_status fw_normalize(fw_normal *n, const fw_normalizer *normalizer, fw_regex_scratch *regex, const char *text,
                       size_t text_bytes) {
    n->text = text;
    n->bytes = text_bytes;
    n->layer_n = 0;
    uint32_t code;
    n->head_bytes = normalizer->wants_head && text_bytes > 0 ? fw_utf8_next(&code, text) : 0;
    for (int i = 0; i < normalizer->step_n; i++) FW_TRY(run_step(n, &normalizer->step[i], regex));
    return FW_OK;
}

static size_t original_in(fw_norm_layer *l, size_t at) {
    if (at < l->span[l->hint].start) l->hint = 0;
    while (l->hint + 1 < l->span_n && l->span[l->hint + 1].start <= at) l->hint++;
    const fw_norm_span *span = &l->span[l->hint];
    return span->same ? span->original + (at - span->start) : span->original;
}

size_t fw_normal_original(fw_normal *n, size_t at) {
    for (int i = n->layer_n; i-- > 0;) at = original_in(&n->layer[i], at);
    return at;
}

void fw_normal_fini(fw_normal *n) {
    for (int i = 0; i < FW_NORM_STEP_MAX; i++) {
        fw_strbuf_fini(&n->layer[i].copy);
        fw_free(n->layer[i].span);
    }
    fw_free(n->code);
    fw_strbuf_fini(&n->scratch);
    fw_strbuf_fini(&n->shape);
    *n = (fw_normal){0};
}

void fw_normalizer_fini(fw_normalizer *normalizer) {
    for (int i = 0; i < normalizer->step_n; i++) {
        fw_regex_destroy(normalizer->step[i].regex);
        fw_free(normalizer->step[i].find);
        fw_free(normalizer->step[i].with);
    }
    normalizer->step_n = 0;
}
