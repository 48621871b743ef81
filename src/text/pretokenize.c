#include "text/pretokenize.h"

#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

static fw_status run_step(const fw_pretokenizer *pre, int step, const fw_piece *piece);

/* Matches and the text between them come in; pieces by the step's behaviour go on to the next step. At most
 * one piece is held back, until it is known whether its neighbour joins it. */
typedef struct splitter {
    const fw_pretokenizer *pre;
    int step;
    fw_split_behavior behavior;
    const fw_piece *piece;
    size_t held_start, held_end;
    bool has_held, held_match;
} splitter;

static fw_status emit(const splitter *s, size_t start, size_t end) {
    if (start == end) return FW_OK;
    const fw_piece *whole = s->piece;
    fw_piece part = {whole->text + start, whole->shape + start, end - start, whole->start, false};
    if (start == 0)
        part.prefixed = whole->prefixed;
    else
        part.start += start - (whole->prefixed ? 1 : 0);
    return run_step(s->pre, s->step + 1, &part);
}

static fw_status flush(splitter *s) {
    if (!s->has_held) return FW_OK;
    s->has_held = false;
    return emit(s, s->held_start, s->held_end);
}

static fw_status take(splitter *s, size_t start, size_t end, bool match) {
    bool joins = false;
    switch (s->behavior) {
    case FW_SPLIT_ISOLATED: return emit(s, start, end);
    case FW_SPLIT_REMOVED: return match ? FW_OK : emit(s, start, end);
    case FW_SPLIT_CONTIGUOUS: joins = match == s->held_match; break;
    case FW_SPLIT_MERGED_WITH_PREVIOUS: joins = match && !s->held_match; break;
    case FW_SPLIT_MERGED_WITH_NEXT: joins = !match && s->held_match; break;
    }
    if (s->has_held && joins) {
        s->held_end = end;
    } else {
        FW_TRY(flush(s));
        s->held_start = start;
        s->held_end = end;
        s->has_held = true;
    }
    s->held_match = match;
    return FW_OK;
}

static fw_status find_string(const fw_pre_step *step, const fw_piece *piece, size_t from, bool *found, size_t *start,
                             size_t *end) {
    const char *at = memmem(piece->text + from, piece->bytes - from, step->string, step->string_bytes);
    *found = at != NULL;
    if (at == NULL) return FW_OK;
    *start = (size_t)(at - piece->text);
    *end = *start + step->string_bytes;
    return FW_OK;
}

static fw_status find_digit(const fw_piece *piece, size_t from, bool *found, size_t *start, size_t *end) {
    *found = false;
    for (size_t i = from; i < piece->bytes;) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, piece->text + i);
        if (fw_unicode_is_numeric(code)) {
            *found = true;
            *start = i;
            *end = i + bytes;
            return FW_OK;
        }
        i += bytes;
    }
    return FW_OK;
}

static fw_status split(const fw_pretokenizer *pre, int index, const fw_piece *piece) {
    const fw_pre_step *step = &pre->step[index];
    splitter s = {.pre = pre, .step = index, .behavior = step->behavior, .piece = piece};
    size_t done = 0, from = 0;
    bool after_match = false;
    while (from <= piece->bytes) {
        bool found;
        size_t start = 0, end = 0;
        if (step->kind == FW_PRE_SPLIT_STRING)
            FW_TRY(find_string(step, piece, from, &found, &start, &end));
        else if (step->kind == FW_PRE_DIGITS)
            FW_TRY(find_digit(piece, from, &found, &start, &end));
        else
            FW_TRY(fw_regex_find(step->regex, pre->scratch, piece->shape, piece->bytes, from, &found, &start, &end));
        if (!found) break;
        if (start == end) { /* an empty match: go on by one character; not taken right after another match */
            bool taken = !(after_match && start == done);
            if (taken) {
                if (start > done) FW_TRY(take(&s, done, start, step->invert));
                FW_TRY(take(&s, start, end, !step->invert));
                done = end;
                after_match = true;
            }
            uint32_t code;
            from = end < piece->bytes ? end + fw_utf8_next(&code, piece->text + end) : end + 1;
            continue;
        }
        if (start > done) FW_TRY(take(&s, done, start, step->invert));
        FW_TRY(take(&s, start, end, !step->invert));
        done = from = end;
        after_match = true;
    }
    if (done < piece->bytes) FW_TRY(take(&s, done, piece->bytes, step->invert));
    return flush(&s);
}

static fw_status prefix_space(const fw_pretokenizer *pre, int index, const fw_piece *piece) {
    if (piece->text[0] == ' ') return run_step(pre, index + 1, piece);
    char *copy;
    FW_TRY(FW_NEW_ARRAY(copy, 2 * (piece->bytes + 1)));
    fw_piece longer = {copy, copy + piece->bytes + 1, piece->bytes + 1, piece->start, true};
    copy[0] = copy[longer.bytes] = ' ';
    memcpy(copy + 1, piece->text, piece->bytes);
    memcpy(copy + longer.bytes + 1, piece->shape, piece->bytes);
    fw_status status = run_step(pre, index + 1, &longer);
    fw_free(copy);
    return status;
}

static fw_status run_step(const fw_pretokenizer *pre, int step, const fw_piece *piece) {
    if (step == pre->step_n) return pre->word_fn(pre->context, piece);
    return pre->step[step].kind == FW_PRE_PREFIX_SPACE ? prefix_space(pre, step, piece) : split(pre, step, piece);
}

fw_status fw_pretokenize(const fw_pretokenizer *pre, const fw_piece *piece) {
    return piece->bytes == 0 ? FW_OK : run_step(pre, 0, piece);
}
