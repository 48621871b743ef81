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
    fw_piece part = {.text = whole->text + start,
                     .shape = whole->shape + start,
                     .bytes = end - start,
                     .start = whole->start + start,
                     .origin = whole->origin ? whole->origin + start : NULL,
                     .head_bytes = whole->head_bytes > start ? whole->head_bytes - start : 0};
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

/* Matches of one step in one piece. */
typedef struct finder {
    const fw_pre_step *step;
    const fw_char_classes *classes;
    const fw_piece *piece;
    size_t from;
    fw_regex_walk walk;
} finder;

static void find_string(finder *f, bool *found, size_t *start, size_t *end) {
    const char *text = f->piece->text;
    const char *at = memmem(text + f->from, f->piece->bytes - f->from, f->step->string, f->step->string_bytes);
    *found = at != NULL;
    if (at == NULL) return;
    *start = (size_t)(at - text);
    *end = f->from = *start + f->step->string_bytes;
}

static void find_scan(finder *f, bool *found, size_t *start, size_t *end) {
    const char *text = f->piece->text;
    *found = false;
    while (f->from < f->piece->bytes) {
        uint32_t code;
        *start = f->from;
        *end = f->step->scan(f->classes, text, f->piece->bytes, *start);
        *found = *end > *start;
        f->from = *found ? *end : *start + fw_utf8_next(&code, text + *start);
        if (*found) return;
    }
}

static bool is_match(fw_pre_kind kind, uint32_t code) {
    switch (kind) {
    case FW_PRE_DIGITS: return fw_unicode_is_numeric(code);
    case FW_PRE_PUNCTUATION: return fw_unicode_is_punctuation(code);
    default: return fw_unicode_is_space(code);
    }
}

static void find_character(finder *f, bool *found, size_t *start, size_t *end) {
    *found = false;
    while (f->from < f->piece->bytes && !*found) {
        uint32_t code;
        *start = f->from;
        f->from += fw_utf8_next(&code, f->piece->text + f->from);
        *found = is_match(f->step->kind, code);
    }
    *end = f->from;
}

static void find_word(finder *f, bool *found, size_t *start, size_t *end) {
    enum { SPACE, WORD, OTHER } kind = SPACE, next;
    *found = false;
    for (size_t bytes; f->from < f->piece->bytes; f->from += bytes) {
        uint32_t code;
        bytes = fw_utf8_next(&code, f->piece->text + f->from);
        next = fw_unicode_is_word(code) ? WORD : fw_unicode_is_space(code) ? SPACE : OTHER;
        if (kind == SPACE) *start = f->from;
        if (kind != SPACE && next != kind) break;
        kind = next;
    }
    *found = kind != SPACE;
    *end = f->from;
}

static fw_status find(finder *f, bool *found, size_t *start, size_t *end) {
    switch (f->step->kind) {
    case FW_PRE_SPLIT_REGEX: return fw_regex_next(&f->walk, found, start, end);
    case FW_PRE_SPLIT_SCAN: find_scan(f, found, start, end); return FW_OK;
    case FW_PRE_SPLIT_STRING: find_string(f, found, start, end); return FW_OK;
    case FW_PRE_WORDS: find_word(f, found, start, end); return FW_OK;
    default: find_character(f, found, start, end); return FW_OK;
    }
}

static fw_status split(const fw_pretokenizer *pre, int index, const fw_piece *piece) {
    const fw_pre_step *step = &pre->steps->step[index];
    const bool as_shape = step->regex != NULL && fw_regex_asks_unicode(step->regex);
    splitter s = {.pre = pre, .step = index, .behavior = step->behavior, .piece = piece};
    finder f = {step,
                pre->steps->classes,
                piece,
                0,
                {.regex = step->regex,
                 .scratch = pre->regex,
                 .text = as_shape ? piece->shape : piece->text,
                 .text_bytes = piece->bytes}};
    size_t done = 0;
    for (;;) {
        bool found;
        size_t start = 0, end = 0;
        FW_TRY(find(&f, &found, &start, &end));
        if (!found) break;
        if (start > done) FW_TRY(take(&s, done, start, step->invert));
        FW_TRY(take(&s, start, end, !step->invert));
        done = end;
    }
    if (done < piece->bytes) FW_TRY(take(&s, done, piece->bytes, step->invert));
    return flush(&s);
}

/* The same for what most models do: each match is a piece of its own, and so is the text between matches. */
static fw_status split_isolated(const fw_pretokenizer *pre, int index, const fw_piece *piece) {
    const fw_scan_fn scan = pre->steps->step[index].scan;
    const splitter s = {.pre = pre, .step = index, .piece = piece};
    size_t done = 0;
    for (size_t at = 0; at < piece->bytes;) {
        size_t end = scan(pre->steps->classes, piece->text, piece->bytes, at);
        if (end == at) {
            uint32_t code;
            at += fw_utf8_next(&code, piece->text + at);
            continue;
        }
        FW_TRY(emit(&s, done, at));
        FW_TRY(emit(&s, at, end));
        done = at = end;
    }
    return emit(&s, done, piece->bytes);
}

static fw_status run_step(const fw_pretokenizer *pre, int index, const fw_piece *piece) {
    if (index == pre->steps->step_n) return pre->word_fn(pre->context, piece);
    const fw_pre_step *step = &pre->steps->step[index];
    if (step->kind == FW_PRE_SPLIT_SCAN && step->behavior == FW_SPLIT_ISOLATED)
        return split_isolated(pre, index, piece);
    if (step->kind < FW_PRE_PREFIX_SPACE) return split(pre, index, piece);
    fw_piece written;
    FW_TRY(fw_pre_rewrite(pre, index, piece, &written));
    return run_step(pre, index + 1, &written);
}

fw_status fw_pretokenize(const fw_pretokenizer *pre, const fw_piece *piece) {
    return piece->bytes == 0 ? FW_OK : run_step(pre, 0, piece);
}

void fw_pre_steps_fini(fw_pre_steps *steps) {
    for (int i = 0; i < steps->step_n; i++) {
        fw_regex_destroy(steps->step[i].regex);
        fw_free(steps->step[i].string);
    }
    fw_char_classes_destroy(steps->classes);
    *steps = (fw_pre_steps){0};
}
