/* Characters that become one token whatever stands beside them: merging then starts with them, not with their bytes.
 *
 * Let a character's bytes, merged alone, end as one token C, and let R be the highest rank of the merges used. It is an
 * atom when
 *   (1) every merge that C itself takes part in has a rank above R, and
 *   (2) every merge of a token at the character's right edge before it was whole, and of what begins a character, has a
 *       rank above R; and the same for its left edge and what may end before it.
 * Then no merge across its edge can come before it is whole: as long as it is not, there is a merge of rank R or less
 * inside it. And starting with C changes nothing: a merge that C makes possible too soon has a rank above R, so it waits
 * until the real order would have made C, too. (Ranks differ, and merges go by rank.)
 *
 * (2) may hold but for a few neighbours: those are kept as a set of bytes, and beside one of them the character is taken
 * as bytes. */
#ifndef FW_TEXT_BPE_ATOMS_H
#define FW_TEXT_BPE_ATOMS_H

#include "text/utf8.h"
#include "text/vocab.h"

enum { FW_ATOM_CODE_N = 0x10000 };

typedef struct fw_bpe_atoms {
    int32_t *id;                     /* of each code point; -1: no atom */
    uint8_t *not_after, *not_before; /* of each code point: the set of the byte before it, behind it */
    uint64_t (*set)[4];              /* set 0 is empty */
    int set_n;
} fw_bpe_atoms;

/* vocab: every byte has a token. Destroy takes NULL. Errors: FW_ERR_NOMEM. */
fw_status fw_bpe_atoms_create(fw_bpe_atoms **out, const fw_vocab *vocab);
void fw_bpe_atoms_destroy(fw_bpe_atoms *atoms);

static inline bool fw_bpe_atoms_has(const fw_bpe_atoms *a, int set, unsigned char byte) {
    return a->set[set][byte / 64] >> (byte % 64) & 1;
}

/* The token of the character of `bytes` bytes at word[at], or -1. */
static inline int32_t fw_bpe_atom(const fw_bpe_atoms *a, const char *word, size_t word_bytes, size_t at,
                                  size_t *bytes) {
    uint32_t code;
    *bytes = fw_utf8_next(&code, word + at);
    if (code >= FW_ATOM_CODE_N || a->id[code] < 0) return -1;
    int before = a->not_after[code], behind = a->not_before[code];
    if (before && at > 0 && fw_bpe_atoms_has(a, before, (unsigned char)word[at - 1])) return -1;
    if (behind && at + *bytes < word_bytes && fw_bpe_atoms_has(a, behind, (unsigned char)word[at + *bytes])) return -1;
    return a->id[code];
}

#endif
