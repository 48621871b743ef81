/* The vocabulary and the merges of a BPE model.
 *
 * In files of byte-level models, each byte is written as a printable character: printable Latin-1 bytes as themselves, the
 * other 68 as U+0100.. in order (so a space is U+0120). Source: the GPT-2 encoder, Radford et al. 2019. */
#ifndef FW_TEXT_VOCAB_H
#define FW_TEXT_VOCAB_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* RESPELT: an added token that the normaliser rewrites (text/tokenizer_parts.h). */
enum { FW_TOKEN_MODEL = 1, FW_TOKEN_ADDED = 2, FW_TOKEN_SPECIAL = 4, FW_TOKEN_RESPELT = 8 };

/* Ids above this are refused: no vocabulary comes near, and tables are sized by the largest id. */
enum { FW_VOCAB_MAX_ID = (1 << 22) - 2, FW_TOKEN_MAX_BYTES = 1 << 16, FW_MERGE_MAX_N = 1 << 20 };

#define FW_NO_RANK UINT32_MAX

typedef struct fw_vocab {
    int32_t id_n;      /* largest id + 1 */
    int32_t id_cap;    /* of the three arrays */
    uint32_t *text_at; /* where in `text` the token's spelling starts; UINT32_MAX: no token has this id */
    uint32_t
        *byte_n;    /* model tokens: bytes of text it stands for: characters of the spelling, where that is of bytes */
    uint8_t *flags; /* FW_TOKEN_... */
    char *text;     /* spellings, each with a final zero */
    size_t text_n, text_cap;
    int32_t *slot; /* hash table spelling -> id; -1: free */
    size_t slot_n; /* a power of two */
    size_t token_n;
    uint64_t *merge;      /* hash table: left id + 1, right id, rank in 22, 22 and 20 bits; 0: free slot */
    size_t merge_slot_n;  /* a power of two */
    size_t merge_n;       /* ranks are below */
    int32_t *merge_to;    /* of each rank: what the pair becomes */
    uint64_t *filter;     /* a bit for each hash that a pair may have: most pairs do not merge, and need no slot */
    size_t filter_bits;   /* a power of two */
    int32_t byte_id[256]; /* id of each single byte, -1: none */
} fw_vocab;

/* Room for token_n tokens (more may be added later). */
fw_status fw_vocab_init(fw_vocab *vocab, size_t token_n);
void fw_vocab_fini(fw_vocab *vocab);
/* The id must be free and the spelling new: FW_ERR_INPUT naming both otherwise. */
fw_status fw_vocab_add(fw_vocab *vocab, const char *token, size_t token_bytes, int64_t id, uint8_t flags,
                       const char *where);
/* -1: none. */
int32_t fw_vocab_find(const fw_vocab *vocab, const char *token, size_t token_bytes);
const char *fw_vocab_token(const fw_vocab *vocab, int32_t id); /* NULL: none */

/* merge_n: at most FW_MERGE_MAX_N. */
fw_status fw_vocab_init_merges(fw_vocab *vocab, size_t merge_n);
/* A later merge of the same pair replaces the earlier, as in the reference. */
void fw_vocab_add_merge(fw_vocab *vocab, int32_t left, int32_t right, uint32_t rank, int32_t id);

static inline uint64_t fw_vocab_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t fw_vocab_pair(int32_t left, int32_t right) {
    return (uint64_t)(left + 1) << 22 | (uint64_t)right;
}
static inline int32_t fw_vocab_slot_left(uint64_t slot) { return (int32_t)(slot >> 42) - 1; }
static inline int32_t fw_vocab_slot_right(uint64_t slot) { return (int32_t)(slot >> 20 & 0x3fffff); }
static inline uint32_t fw_vocab_slot_rank(uint64_t slot) { return (uint32_t)(slot & 0xfffff); }

static inline uint64_t fw_vocab_pair_hash(uint64_t pair) {
    uint64_t x = pair * 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

/* The rank of the pair; FW_NO_RANK when it does not merge. */
static inline uint32_t fw_vocab_merge(const fw_vocab *vocab, int32_t left, int32_t right) {
    uint64_t pair = fw_vocab_pair(left, right), hash = fw_vocab_pair_hash(pair);
    size_t bit = (size_t)(hash >> 40) & (vocab->filter_bits - 1), mask = vocab->merge_slot_n - 1;
    if (!(vocab->filter[bit / 64] >> (bit % 64) & 1)) return FW_NO_RANK;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        if (vocab->merge[i] >> 20 == pair) return fw_vocab_slot_rank(vocab->merge[i]);
        if (vocab->merge[i] == 0) return FW_NO_RANK;
    }
}

/* The byte that a character of a spelling stands for, or -1; and back. */
int fw_vocab_char_byte(uint32_t code);
uint32_t fw_vocab_byte_char(unsigned char byte);

uint64_t fw_vocab_hash(const char *bytes, size_t n_bytes);

#endif
