/* A word before any merge: its bytes or its characters as tokens. */
#include "base/alloc.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <string.h>

/* Characters that are tokens of their own whatever stands beside them, and bytes; every byte has a token. */
static size_t atom_symbols(fw_bpe_symbol *symbol, const fw_tokenizer *t, const char *word, size_t word_bytes) {
    const int32_t *byte_id = t->vocab.byte_id;
    size_t n = 0;
    for (size_t i = 0, bytes = 1; i < word_bytes; i += bytes) {
        bool ascii = (unsigned char)word[i] < 0x80;
        int32_t atom = ascii ? byte_id[(unsigned char)word[i]] : fw_bpe_atom(t->atoms, word, word_bytes, i, &bytes);
        if (ascii) bytes = 1;
        if (atom >= 0) symbol[n++] = (fw_bpe_symbol){.id = atom, .start = (uint32_t)i};
        for (size_t k = 0; atom < 0 && k < bytes; k++)
            symbol[n++] = (fw_bpe_symbol){.id = byte_id[(unsigned char)word[i + k]], .start = (uint32_t)(i + k)};
    }
    return n;
}

/* Bytes without a token become unk, one for each byte or for each run. */
static size_t byte_symbols(fw_bpe_symbol *symbol, const fw_tokenizer *t, const char *word, size_t word_bytes) {
    size_t n = 0;
    bool after_unk = false;
    for (size_t i = 0; i < word_bytes; i++) {
        int32_t id = t->vocab.byte_id[(unsigned char)word[i]];
        bool is_unk = id < 0;
        if (is_unk) {
            if (t->unk_id < 0 || (t->fuse_unk && after_unk)) continue;
            id = t->unk_id;
        }
        after_unk = is_unk;
        symbol[n++] = (fw_bpe_symbol){.id = id, .start = (uint32_t)i};
    }
    return n;
}

static int32_t find_model_token(const fw_tokenizer *t, const char *spelling, size_t spelling_bytes) {
    if (memchr(spelling, 0, spelling_bytes) != NULL) return -1;
    int32_t id = fw_vocab_find(&t->vocab, spelling, spelling_bytes);
    return id >= 0 && (t->vocab.flags[id] & FW_TOKEN_MODEL) ? id : -1;
}

/* A character with prefix and suffix, while symbols are made of it. */
typedef struct character {
    const char *spelling;
    size_t spelling_bytes, bytes, start;
} character;

static fw_status spell(fw_bpe_scratch *s, const fw_tokenizer *t, const char *word, size_t word_bytes, character *c) {
    bool first = c->start == 0, last = c->start + c->bytes == word_bytes;
    c->spelling = word + c->start;
    c->spelling_bytes = c->bytes;
    if ((first || t->prefix[0] == 0) && (!last || t->suffix[0] == 0)) return FW_OK;
    fw_strbuf_clear(&s->spelling);
    if (!first) FW_TRY(fw_strbuf_puts(&s->spelling, t->prefix));
    FW_TRY(fw_strbuf_append(&s->spelling, c->spelling, c->bytes));
    if (last) FW_TRY(fw_strbuf_puts(&s->spelling, t->suffix));
    c->spelling = s->spelling.data;
    c->spelling_bytes = s->spelling.len_bytes;
    return FW_OK;
}

static bool falls_back(const fw_tokenizer *t, const character *c) {
    bool all = t->byte_fallback;
    for (size_t i = 0; all && i < c->spelling_bytes; i++) all = t->fallback_id[(unsigned char)c->spelling[i]] >= 0;
    return all;
}

/* An unknown is held back until a known character comes, and so goes behind the bytes that another character fell back
 * to in between: this is the reference's order. */
static fw_status character_symbols(fw_bpe_scratch *s, const fw_tokenizer *t, const char *word, size_t word_bytes,
                                   size_t *symbol_n) {
    fw_bpe_symbol *symbol = s->symbol, unk = {.id = t->unk_id};
    bool has_unk = false;
    size_t n = 0;
    for (character c = {.start = 0}; c.start < word_bytes; c.start += c.bytes) {
        uint32_t code;
        c.bytes = fw_utf8_next(&code, word + c.start);
        FW_TRY(spell(s, t, word, word_bytes, &c));
        int32_t id = c.spelling_bytes == 1 ? t->ascii_id[code] : find_model_token(t, c.spelling, c.spelling_bytes);
        if (id >= 0) {
            if (has_unk) symbol[n++] = unk;
            has_unk = false;
            symbol[n++] = (fw_bpe_symbol){.id = id, .start = (uint32_t)c.start};
        } else if (falls_back(t, &c)) {
            for (size_t i = 0; i < c.spelling_bytes; i++)
                symbol[n++] = (fw_bpe_symbol){.id = t->fallback_id[(unsigned char)c.spelling[i]],
                                              .start = (uint32_t)(c.start + (i < c.bytes ? i : c.bytes - 1))};
        } else if (t->unk_id >= 0) {
            if (has_unk && t->fuse_unk) continue;
            if (has_unk) symbol[n++] = unk;
            has_unk = true;
            unk.start = (uint32_t)c.start;
        }
    }
    if (has_unk) symbol[n++] = unk;
    *symbol_n = n;
    return FW_OK;
}

fw_status fw_bpe_make_symbols(fw_bpe_scratch *s, const fw_tokenizer *t, const char *word, size_t word_bytes,
                              size_t *symbol_n) {
    size_t need = word_bytes;
    if (!t->takes_bytes) need = word_bytes * (1 + strlen(t->prefix)) + strlen(t->suffix);
    if (s->symbol_cap < need) {
        size_t cap = s->symbol_cap ? s->symbol_cap : 64;
        while (cap < need) cap *= 2;
        FW_TRY(FW_GROW_ARRAY(s->symbol, cap));
        s->symbol_cap = cap;
    }
    if (!t->takes_bytes) return character_symbols(s, t, word, word_bytes, symbol_n);
    *symbol_n = (t->atoms ? atom_symbols : byte_symbols)(s->symbol, t, word, word_bytes);
    return FW_OK;
}
