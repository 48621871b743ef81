/* Text -> ids: added tokens out of the raw text, normalising, added tokens out of the normalised text,
 * words, then BPE for each word (with a cache: most words come again and again). */
#include "base/alloc.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

/* One cache line: short words with few ids. The cache is direct-mapped, so its size is fixed. */
enum { CACHE_N = 1 << 14, CACHE_WORD_BYTES = 24, CACHE_IDS = 7 };
enum { SCRATCH_KEEP_BYTES = 1 << 22 };

typedef struct cached_word {
    uint64_t hash;
    uint8_t word_bytes, id_n; /* word_bytes 0: free */
    bool exact;               /* the ids stand for the bytes of the word one after the other: none unknown */
    char word[CACHE_WORD_BYTES];
    int32_t id[CACHE_IDS];
} cached_word;

struct fw_encoder {
    const fw_tokenizer *tokenizer;
    fw_regex_scratch *regex;
    fw_normal normal;
    fw_strbuf shape, spelling;
    fw_bpe_scratch bpe;
    cached_word *cache;
    /* of the call that is running */
    fw_ids *ids;
    fw_offsets *offsets;
    size_t base, hint; /* where the stretch starts in the caller's text; see fw_normal_original */
};

fw_status fw_encoder_create(fw_encoder **out, const fw_tokenizer *tokenizer) {
    *out = NULL;
    fw_encoder *e = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(e), done);
    e->tokenizer = tokenizer;
    FW_TRY_OR(fw_regex_scratch_create(&e->regex), done);
    FW_TRY_OR(FW_NEW_ARRAY(e->cache, CACHE_N), done);
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
    if (word->prefixed && at > 0) at--;
    return push_offset(e->offsets, e->base + fw_normal_original(&e->normal, word->start + at, &e->hint));
}

/* With ignore_merges a word that is in the vocabulary is one token, however it would be merged. Control
 * tokens are in the vocabulary too, and must not come from text this way. */
static fw_status whole_word(fw_encoder *e, const fw_piece *word, int32_t *id) {
    const fw_vocab *vocab = &e->tokenizer->vocab;
    *id = -1;
    fw_strbuf_clear(&e->spelling);
    FW_TRY(fw_strbuf_reserve(&e->spelling, 2 * word->bytes));
    for (size_t i = 0; i < word->bytes; i++)
        e->spelling.len_bytes +=
            fw_utf8_put(e->spelling.data + e->spelling.len_bytes, fw_vocab_byte_char((unsigned char)word->text[i]));
    int32_t found = fw_vocab_find(vocab, e->spelling.data, e->spelling.len_bytes);
    if (found >= 0 && (vocab->flags[found] & FW_TOKEN_MODEL) && !(vocab->flags[found] & FW_TOKEN_SPECIAL)) *id = found;
    return FW_OK;
}

static fw_status merge_word(fw_encoder *e, const fw_piece *word) {
    if (e->tokenizer->ignore_merges && word->bytes <= FW_TOKEN_MAX_BYTES / 2) {
        int32_t id;
        FW_TRY(whole_word(e, word, &id));
        if (id >= 0) return put_id(e, word, id, 0);
    }
    size_t n;
    FW_TRY(fw_bpe_run(&e->bpe, e->tokenizer, word->text, word->bytes, &n));
    for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = e->bpe.symbol[i].next)
        FW_TRY(put_id(e, word, e->bpe.symbol[i].id, e->bpe.symbol[i].start));
    if (e->bpe.symbol_cap * sizeof *e->bpe.symbol > SCRATCH_KEEP_BYTES) fw_bpe_scratch_fini(&e->bpe);
    return FW_OK;
}

static fw_status put_cached(fw_encoder *e, const fw_piece *word, const cached_word *slot) {
    if (e->offsets == NULL) return fw_ids_append(e->ids, slot->id, slot->id_n);
    size_t at = 0;
    for (int i = 0; i < slot->id_n; i++) {
        FW_TRY(put_id(e, word, slot->id[i], at));
        at += e->tokenizer->vocab.byte_n[slot->id[i]];
    }
    return FW_OK;
}

static fw_status encode_word(void *context, const fw_piece *word) {
    fw_encoder *e = context;
    if (word->bytes > CACHE_WORD_BYTES) return merge_word(e, word);
    uint64_t hash = fw_vocab_hash(word->text, word->bytes);
    cached_word *slot = &e->cache[hash % CACHE_N];
    if (slot->word_bytes == word->bytes && slot->hash == hash && memcmp(slot->word, word->text, word->bytes) == 0 &&
        (slot->exact || e->offsets == NULL))
        return put_cached(e, word, slot);
    size_t before = e->ids->n;
    FW_TRY(merge_word(e, word));
    size_t id_n = e->ids->n - before;
    if (id_n > CACHE_IDS) return FW_OK;
    slot->exact = true;
    for (size_t i = 0; i < word->bytes; i++)
        slot->exact &= e->tokenizer->vocab.byte_id[(unsigned char)word->text[i]] >= 0;
    slot->hash = hash;
    slot->word_bytes = (uint8_t)word->bytes;
    slot->id_n = (uint8_t)id_n;
    memcpy(slot->word, word->text, word->bytes);
    if (id_n) memcpy(slot->id, e->ids->id + before, id_n * sizeof *slot->id);
    return FW_OK;
}

/* *shape = the text for regexes: itself, or a copy with stand-ins for newer code points (text/unicode.h). */
static fw_status make_shape(fw_encoder *e, const char *text, size_t text_bytes, const char **shape) {
    *shape = text;
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, text + i);
        if (code >= 0x558 && fw_unicode_may_be_newer(code)) {
            uint32_t stand_in = fw_unicode_stand_in(code);
            if (stand_in != code) {
                if (*shape == text) {
                    fw_strbuf_clear(&e->shape);
                    FW_TRY(fw_strbuf_append(&e->shape, text, text_bytes));
                    *shape = e->shape.data;
                }
                fw_utf8_put(e->shape.data + i, stand_in);
            }
        }
        i += bytes;
    }
    return FW_OK;
}

static fw_status encode_plain(fw_encoder *e, const char *text, size_t text_bytes, size_t start) {
    fw_piece piece = {text, text, text_bytes, start, false};
    FW_TRY(make_shape(e, text, text_bytes, &piece.shape));
    fw_pretokenizer pre = {e->tokenizer->step, e->tokenizer->step_n, e->regex, encode_word, e};
    return fw_pretokenize(&pre, &piece);
}

/* A stretch between raw added tokens. */
static fw_status encode_stretch(fw_encoder *e, const char *text, size_t text_bytes, bool find_special) {
    FW_TRY(fw_normalize(&e->normal, e->tokenizer->norm, text, text_bytes));
    e->hint = 0;
    fw_added_walk walk = {&e->tokenizer->added_normalized, e->normal.text, e->normal.bytes, find_special, 0, 0, 0};
    for (;;) {
        size_t start, end;
        int32_t id;
        fw_added_next(&walk, &start, &end, &id);
        FW_TRY(encode_plain(e, e->normal.text + start, end - start, start));
        if (id < 0) return FW_OK;
        FW_TRY(fw_ids_push(e->ids, id));
        if (e->offsets) FW_TRY(push_offset(e->offsets, e->base + fw_normal_original(&e->normal, end, &e->hint)));
    }
}

static fw_status encode(fw_encoder *e, const char *text, size_t text_bytes, unsigned flags) {
    bool find_special = (flags & FW_ENCODE_SPECIAL) != 0;
    fw_added_walk walk = {&e->tokenizer->added_raw, text, text_bytes, find_special, 0, 0, 0};
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

fw_status fw_tokenizer_encode(fw_encoder *e, fw_ids *ids, const char *text, size_t text_bytes, unsigned flags) {
    return fw_tokenizer_encode_offsets(e, ids, NULL, text, text_bytes, flags);
}
