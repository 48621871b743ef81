/* Words that were encoded before: most words of a text come again and again.
 *
 * Direct-mapped, one cache line a word: a new word takes the place of an old one, so the size is fixed. Words of up to
 * 32 bytes are held as overlapping loads of their first and last bytes, which with the length are all there is to
 * know about them. */
#ifndef FW_TEXT_WORD_CACHE_H
#define FW_TEXT_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FW_WORD_CACHE_N = 1 << 15, FW_WORD_MAX_BYTES = 32, FW_WORD_MAX_IDS = 7 };

typedef struct fw_word_key {
    uint64_t first, last;        /* of words up to 16 bytes */
    uint64_t middle_a, middle_b; /* longer words: bytes 8..16 from the start and from the end */
} fw_word_key;

typedef struct fw_cached_word {
    fw_word_key key;
    uint16_t word_bytes; /* 0: free */
    uint8_t id_n;
    bool exact; /* the ids stand for the bytes of the word one after the other: none unknown */
    int32_t id[FW_WORD_MAX_IDS];
} fw_cached_word;

static inline uint64_t fw_word_load8(const char *at) {
    uint64_t x;
    memcpy(&x, at, 8);
    return x;
}

static inline uint32_t fw_word_load4(const char *at) {
    uint32_t x;
    memcpy(&x, at, 4);
    return x;
}

/* 1 <= word_bytes <= FW_WORD_MAX_BYTES. Reads no byte outside the word. */
static inline fw_word_key fw_word_make_key(const char *word, size_t word_bytes) {
    fw_word_key key = {0};
    if (word_bytes >= 8) {
        key.first = fw_word_load8(word);
        key.last = fw_word_load8(word + word_bytes - 8);
        if (word_bytes > 16) {
            key.middle_a = fw_word_load8(word + 8);
            key.middle_b = fw_word_load8(word + word_bytes - 16);
        }
    } else if (word_bytes >= 4) {
        key.first = (uint64_t)fw_word_load4(word) << 32 | fw_word_load4(word + word_bytes - 4);
    } else { /* 1: aaa, 2: abb, 3: abc */
        const unsigned char *s = (const unsigned char *)word;
        key.first = (uint64_t)s[0] << 16 | (uint64_t)s[word_bytes / 2] << 8 | s[word_bytes - 1];
    }
    return key;
}

static inline bool fw_word_same(const fw_cached_word *slot, const fw_word_key *key, size_t word_bytes) {
    return slot->word_bytes == word_bytes && slot->key.first == key->first && slot->key.last == key->last &&
           slot->key.middle_a == key->middle_a && slot->key.middle_b == key->middle_b;
}

static inline size_t fw_word_slot(const fw_word_key *key, size_t word_bytes) {
    uint64_t x = key->first * 0x9e3779b97f4a7c15u ^ key->last * 0xc2b2ae3d27d4eb4fu;
    x ^= (key->middle_a + key->middle_b + word_bytes) * 0xbf58476d1ce4e5b9u;
    return (size_t)((x ^ x >> 29) * 0x94d049bb133111ebu >> 40) % FW_WORD_CACHE_N;
}

#endif
