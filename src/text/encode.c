/* Text -> ids: added tokens out of the raw text, normalising, added tokens out of the normalised text,
 * words, then BPE for each word (with a cache: most words come again and again). */
#include "base/alloc.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/word_cache.h"

#include <string.h>

enum { SCRATCH_KEEP_BYTES = 1 << 22 };

struct fw_encoder {
    const fw_tokenizer *tokenizer;
    fw_regex_scratch *regex;
    fw_normal normal;
    fw_pre_scratch pre;
    fw_strbuf shape, spelling;
    fw_bpe_scratch bpe;
    fw_cached_word *cache;
    /* of the call that is running */
    fw_ids *ids;
    fw_offsets *offsets;
    size_t base;               /* where the stretch starts in the caller's text */
    const fw_stretch *trusted; /* where control tokens count; NULL: as the flags say */
    size_t trusted_n;
};

fw_status fw_encoder_create(fw_encoder **out, const fw_tokenizer *tokenizer) {
    *out = NULL;
    fw_encoder *e = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(e), done);
    e->tokenizer = tokenizer;
    FW_TRY_OR(fw_regex_scratch_create(&e->regex), done);
    FW_TRY_OR(FW_NEW_ARRAY(e->cache, FW_WORD_CACHE_N), done);
    *out = e;
    e = NULL;
done:
    fw_encoder_destroy(e);
    return status;
}

void fw_encoder_destroy(fw_encoder *e) {
    if (e == NULL) return;
    fw_regex_scratch_destroy(e->regex);
    fw_normal_fini(&e->normal);
    fw_pre_scratch_fini(&e->pre);
    fw_strbuf_fini(&e->shape);
    fw_strbuf_fini(&e->spelling);
    fw_bpe_scratch_fini(&e->bpe);
    fw_free(e->cache);
    fw_free(e);
}

const fw_tokenizer *fw_encoder_tokenizer(const fw_encoder *e) { return e->tokenizer; }

static fw_status push_offset(fw_offsets *offsets, size_t offset) {
    if (offsets->n == offsets->cap) {
        size_t cap = offsets->cap ? 2 * offsets->cap : 64;
        FW_TRY(FW_GROW_ARRAY(offsets->offset, cap));
        offsets->cap = cap;
    }
    offsets->offset[offsets->n++] = offset;
    return FW_OK;
}

/* An id whose first byte is byte `at` of the word. */
static fw_status put_id(fw_encoder *e, const fw_piece *word, int32_t id, size_t at) {
    FW_TRY(fw_ids_push(e->ids, id));
    if (e->offsets == NULL) return FW_OK;
    size_t place = word->origin ? word->origin[at] : word->start + at;
    return push_offset(e->offsets, e->base + fw_normal_original(&e->normal, place));
}

/* With ignore_merges a word that is in the vocabulary is one token, however it would be merged. Control
 * tokens are in the vocabulary too, and must not come from text this way. */
static fw_status whole_word(fw_encoder *e, const fw_piece *word, int32_t *id) {
    const fw_tokenizer *t = e->tokenizer;
    const char *spelling = word->text;
    size_t spelling_bytes = word->bytes;
    *id = -1;
    if (word->bytes > FW_TOKEN_MAX_BYTES) return FW_OK;
    if (t->takes_bytes) {
        fw_strbuf_clear(&e->spelling);
        FW_TRY(fw_strbuf_reserve(&e->spelling, 2 * word->bytes));
        for (size_t i = 0; i < word->bytes; i++)
            e->spelling.len_bytes +=
                fw_utf8_put(e->spelling.data + e->spelling.len_bytes, fw_vocab_byte_char((unsigned char)word->text[i]));
        spelling = e->spelling.data;
        spelling_bytes = e->spelling.len_bytes;
    } else if (memchr(spelling, 0, spelling_bytes) != NULL) {
        return FW_OK; /* no token has a zero byte */
    }
    int32_t found = fw_vocab_find(&t->vocab, spelling, spelling_bytes);
    if (found >= 0 && (t->vocab.flags[found] & FW_TOKEN_MODEL) && !(t->vocab.flags[found] & FW_TOKEN_SPECIAL))
        *id = found;
    return FW_OK;
}

static void keep_word(fw_encoder *e, const fw_word_key *key, size_t word_bytes, const fw_bpe_symbol *symbol, size_t n) {
    fw_cached_word *slot = &e->cache[fw_word_slot(key, word_bytes)];
    size_t at = 0;
    slot->key = *key;
    slot->word_bytes = (uint16_t)word_bytes;
    slot->id_n = (uint8_t)n;
    slot->exact = true;
    for (size_t i = 0; i < n; i++) {
        slot->id[i] = symbol[i].id;
        slot->exact &= symbol[i].start == at;
        at += e->tokenizer->vocab.byte_n[symbol[i].id];
    }
}

static fw_status merge_word(fw_encoder *e, const fw_piece *word, const fw_word_key *key) {
    fw_bpe_scratch *bpe = &e->bpe;
    fw_bpe_symbol whole = {.id = -1}, *symbol = &whole;
    size_t n = 1;
    if (e->tokenizer->ignore_merges) FW_TRY(whole_word(e, word, &whole.id));
    if (whole.id < 0) {
        FW_TRY(fw_bpe_run(bpe, e->tokenizer, word->text, word->bytes, &n));
        symbol = bpe->symbol;
    }
    for (size_t i = 0; i < n; i++) FW_TRY(put_id(e, word, symbol[i].id, symbol[i].start));
    if (key != NULL && n <= FW_WORD_MAX_IDS) keep_word(e, key, word->bytes, symbol, n);
    if (bpe->symbol_cap * sizeof *bpe->symbol > SCRATCH_KEEP_BYTES) fw_bpe_scratch_fini(bpe);
    return FW_OK;
}

static fw_status encode_word(fw_encoder *e, const fw_piece *word) {
    if (word->bytes > FW_WORD_MAX_BYTES) return merge_word(e, word, NULL);
    fw_word_key key = fw_word_make_key(word->text, word->bytes);
    const fw_cached_word *slot = &e->cache[fw_word_slot(&key, word->bytes)];
    if (!fw_word_same(slot, &key, word->bytes) || (e->offsets && !slot->exact)) return merge_word(e, word, &key);
    if (e->offsets == NULL) {
        if (e->ids->cap - e->ids->n < FW_WORD_MAX_IDS) return fw_ids_append(e->ids, slot->id, slot->id_n);
        memcpy(e->ids->id + e->ids->n, slot->id, sizeof slot->id); /* all of them: a length known when compiled */
        e->ids->n += slot->id_n;
        return FW_OK;
    }
    size_t at = 0;
    for (int i = 0; i < slot->id_n; i++) {
        FW_TRY(put_id(e, word, slot->id[i], at));
        at += e->tokenizer->vocab.byte_n[slot->id[i]];
    }
    return FW_OK;
}

/* The next place after `from` where U+2581 follows another character; the end of the word when there is none. */
static size_t next_cut(const fw_piece *word, size_t from) {
    const size_t mark_bytes = sizeof FW_METASPACE - 1;
    for (size_t at = from;; at += mark_bytes) {
        const char *mark = memmem(word->text + at, word->bytes - at, FW_METASPACE, mark_bytes);
        if (mark == NULL) return word->bytes;
        at = (size_t)(mark - word->text);
        bool after_mark = at >= from + mark_bytes && memcmp(mark - mark_bytes, FW_METASPACE, mark_bytes) == 0;
        if (at > from && !after_mark) return at;
    }
}

static fw_status take_word(void *context, const fw_piece *word) {
    fw_encoder *e = context;
    if (!e->tokenizer->cuts_at_spaces) return encode_word(e, word);
    int32_t id = -1;
    if (e->tokenizer->ignore_merges) FW_TRY(whole_word(e, word, &id));
    if (id >= 0) return encode_word(e, word);
    for (size_t start = 0, end; start < word->bytes; start = end) {
        end = next_cut(word, start);
        fw_piece part = {.text = word->text + start,
                         .bytes = end - start,
                         .start = word->start + start,
                         .origin = word->origin ? word->origin + start : NULL};
        FW_TRY(encode_word(e, &part));
    }
    return FW_OK;
}

static fw_status encode_plain(fw_encoder *e, const char *text, size_t text_bytes, size_t start) {
    const fw_pre_steps *steps = &e->tokenizer->pre;
    fw_piece piece = {.text = text, .shape = text, .bytes = text_bytes, .start = start};
    if (e->base == 0 && start < e->normal.head_bytes) piece.head_bytes = e->normal.head_bytes - start;
    if (steps->has_regex) FW_TRY(fw_unicode_shape(&piece.shape, &e->shape, text, text_bytes));
    fw_pretokenizer pre = {steps, &e->pre, e->regex, e->offsets != NULL, take_word, e};
    return fw_pretokenize(&pre, &piece);
}

/* Does one of the trusted stretches hold bytes [start, end) of the caller's text? */
static bool is_trusted(void *context, size_t start, size_t end) {
    const fw_encoder *e = context;
    size_t low = 0, high = e->trusted_n;
    while (low < high) { /* the first stretch that ends behind start */
        size_t middle = (low + high) / 2;
        if (e->trusted[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < e->trusted_n && e->trusted[low].start <= start && end <= e->trusted[low].end;
}

/* The same for bytes of the normalised text. */
static bool is_trusted_normal(void *context, size_t start, size_t end) {
    fw_encoder *e = context;
    size_t first = e->base + fw_normal_original(&e->normal, start),
           last = e->base + fw_normal_original(&e->normal, end - 1);
    return is_trusted(e, first, last + 1);
}

/* A stretch between raw added tokens. */
static fw_status encode_stretch(fw_encoder *e, const char *text, size_t text_bytes, bool find_special) {
    FW_TRY(fw_normalize(&e->normal, &e->tokenizer->norm, e->regex, text, text_bytes));
    fw_added_walk walk = {.set = &e->tokenizer->added_normalized,
                          .text = e->normal.text,
                          .text_bytes = e->normal.bytes,
                          .find_special = find_special,
                          .is_trusted = e->trusted ? is_trusted_normal : NULL,
                          .context = e};
    for (;;) {
        size_t start, end;
        int32_t id;
        fw_added_next(&walk, &start, &end, &id);
        FW_TRY(encode_plain(e, e->normal.text + start, end - start, start));
        if (id < 0) return FW_OK;
        FW_TRY(fw_ids_push(e->ids, id));
        if (e->offsets) FW_TRY(push_offset(e->offsets, e->base + fw_normal_original(&e->normal, end)));
    }
}

static fw_status encode(fw_encoder *e, const char *text, size_t text_bytes, unsigned flags) {
    bool find_special = (flags & FW_ENCODE_SPECIAL) != 0;
    fw_added_walk walk = {.set = &e->tokenizer->added_raw,
                          .text = text,
                          .text_bytes = text_bytes,
                          .find_special = find_special,
                          .is_trusted = e->trusted ? is_trusted : NULL,
                          .context = e};
    for (;;) {
        size_t start, end;
        int32_t id;
        fw_added_next(&walk, &start, &end, &id);
        e->base = start;
        if (end > start) FW_TRY(encode_stretch(e, text + start, end - start, find_special));
        if (id < 0) return FW_OK;
        FW_TRY(fw_ids_push(e->ids, id));
        if (e->offsets) FW_TRY(push_offset(e->offsets, end));
    }
}

static fw_status put_around(fw_encoder *e, const fw_ids *around, size_t offset) {
    FW_TRY(fw_ids_append(e->ids, around->id, around->n));
    for (size_t i = 0; e->offsets && i < around->n; i++) FW_TRY(push_offset(e->offsets, offset));
    return FW_OK;
}

fw_status fw_tokenizer_encode_offsets(fw_encoder *e, fw_ids *ids, fw_offsets *offsets, const char *text,
                                      size_t text_bytes, unsigned flags) {
    size_t invalid = fw_utf8_find_invalid(text, text_bytes);
    if (invalid < text_bytes)
        return fw_fail(FW_ERR_INPUT, "the text is not valid UTF-8 at byte %zu (0x%02x)", invalid,
                       (unsigned char)text[invalid]);
    if (text_bytes > INT32_MAX / 4)
        return fw_fail(FW_ERR_INPUT, "a text of %zu bytes is too long; at most %d can be encoded at once", text_bytes,
                       INT32_MAX / 4);
    e->ids = ids;
    e->offsets = offsets;
    size_t id_n = ids->n, offset_n = offsets ? offsets->n : 0;
    fw_status status;
    if (flags & FW_ENCODE_ADD_SPECIAL) FW_TRY_OR(put_around(e, &e->tokenizer->before, 0), done);
    FW_TRY_OR(encode(e, text, text_bytes, flags), done);
    if (flags & FW_ENCODE_ADD_SPECIAL) FW_TRY_OR(put_around(e, &e->tokenizer->after, text_bytes), done);
done:
    if (status != FW_OK) {
        ids->n = id_n;
        if (offsets) offsets->n = offset_n;
    }
    return status;
}

fw_status fw_tokenizer_encode_trusted(fw_encoder *e, fw_ids *ids, fw_offsets *offsets, const char *text,
                                      size_t text_bytes, const fw_stretch *trusted, size_t trusted_n) {
    e->trusted = trusted;
    e->trusted_n = trusted_n;
    fw_status status = fw_tokenizer_encode_offsets(e, ids, offsets, text, text_bytes, FW_ENCODE_SPECIAL);
    e->trusted = NULL;
    return status;
}

fw_status fw_tokenizer_encode(fw_encoder *e, fw_ids *ids, const char *text, size_t text_bytes, unsigned flags) {
    return fw_tokenizer_encode_offsets(e, ids, NULL, text, text_bytes, flags);
}
