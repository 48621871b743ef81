#include "text/bpe_atoms.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A merge across the edge of a character that is not whole yet: the token on its side, the byte on the other. */
typedef struct crossing {
    int32_t token;
    uint32_t rank;
    unsigned char byte;
} crossing;

typedef struct crossings {
    crossing *item;
    size_t n;
} crossings;

typedef struct work {
    fw_bpe_atoms *atoms;
    const fw_vocab *vocab;
    uint32_t *lowest;      /* of each token: the lowest rank of the merges it takes part in */
    crossings left, right; /* at the left and at the right edge, by token */
} work;

/* The bytes of a token, at most max; 0 when it has more, or stands for none. */
static size_t token_bytes(const fw_vocab *vocab, int32_t id, unsigned char *bytes, size_t max) {
    const char *spelling = fw_vocab_token(vocab, id);
    size_t n = 0;
    for (uint32_t code; spelling != NULL && *spelling != 0; n++) {
        spelling += fw_utf8_next(&code, spelling);
        int byte = fw_vocab_char_byte(code);
        if (byte < 0 || n == max) return 0;
        bytes[n] = (unsigned char)byte;
    }
    return n;
}

/* The first and the last byte of a token of any length; false when it stands for none. */
static bool end_bytes(const fw_vocab *vocab, int32_t id, unsigned char *first, unsigned char *last) {
    const char *spelling = fw_vocab_token(vocab, id);
    if (spelling == NULL || *spelling == 0) return false;
    uint32_t code;
    fw_utf8_next(&code, spelling);
    int byte = fw_vocab_char_byte(code);
    if (byte < 0) return false;
    *first = (unsigned char)byte;
    const char *end = spelling + strlen(spelling) - 1;
    while (((unsigned char)*end & 0xc0) == 0x80) end--;
    fw_utf8_next(&code, end);
    byte = fw_vocab_char_byte(code);
    if (byte < 0) return false;
    *last = (unsigned char)byte;
    return true;
}

static int by_token(const void *a, const void *b) {
    const crossing *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

static bool is_inner(unsigned char byte) { return (byte & 0xc0) == 0x80; } /* not the first of a character */

/* One pass over all merges. A part of a character that may stand at its edge has one or two bytes here. Merges of tokens
 * that stand for no bytes never happen. */
static fw_status collect(work *w) {
    const fw_vocab *v = w->vocab;
    FW_TRY(FW_NEW_ARRAY(w->lowest, (size_t)v->id_n));
    memset(w->lowest, 0xff, (size_t)v->id_n * sizeof *w->lowest);
    FW_TRY(FW_NEW_ARRAY(w->left.item, v->merge_n));
    FW_TRY(FW_NEW_ARRAY(w->right.item, v->merge_n));
    for (size_t i = 0; i < v->merge_slot_n; i++) {
        if (v->merge[i] == 0) continue;
        int32_t left = fw_vocab_slot_left(v->merge[i]), right = fw_vocab_slot_right(v->merge[i]);
        uint32_t rank = fw_vocab_slot_rank(v->merge[i]);
        if (rank < w->lowest[left]) w->lowest[left] = rank;
        if (rank < w->lowest[right]) w->lowest[right] = rank;
        unsigned char first, last, part[2];
        size_t left_n = v->byte_n[left] <= 2 ? token_bytes(v, left, part, 2) : 0;
        if (left_n > 0 && is_inner(part[0]) && is_inner(part[left_n - 1]) && end_bytes(v, right, &first, &last) &&
            !is_inner(first))
            w->right.item[w->right.n++] = (crossing){left, rank, first};
        size_t right_n = v->byte_n[right] <= 2 ? token_bytes(v, right, part, 2) : 0;
        if (right_n > 0 && part[0] >= 0xc0 && end_bytes(v, left, &first, &last))
            w->left.item[w->left.n++] = (crossing){right, rank, last};
    }
    qsort(w->left.item, w->left.n, sizeof *w->left.item, by_token);
    qsort(w->right.item, w->right.n, sizeof *w->right.item, by_token);
    return FW_OK;
}

/* Add the bytes beside which the token merges before rank `before`. */
static void add_crossings(uint64_t set[4], const crossings *all, int32_t token, uint32_t before) {
    size_t low = 0, high = all->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (all->item[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < all->n && all->item[low].token == token; low++)
        if (all->item[low].rank < before) set[all->item[low].byte / 64] |= (uint64_t)1 << (all->item[low].byte % 64);
}

static int keep_set(fw_bpe_atoms *a, const uint64_t set[4]) {
    for (int i = 0; i < a->set_n; i++)
        if (memcmp(a->set[i], set, sizeof a->set[i]) == 0) return i;
    if (a->set_n == 256) return -1;
    memcpy(a->set[a->set_n], set, sizeof a->set[0]);
    return a->set_n++;
}

/* Merge n bytes alone; edges[0] and [1] get the tokens that stood at the left and right edge before it was whole.
 * *highest: of the ranks. Returns the token, or -1 when more than one is left. */
static int32_t merge_alone(const fw_vocab *v, const unsigned char *bytes, size_t n, int32_t edge[2][4], size_t *edge_n,
                           uint32_t *highest) {
    int32_t id[4] = {-1, -1, -1, -1};
    *highest = 0;
    *edge_n = 0;
    for (size_t i = 0; i < n; i++) id[i] = v->byte_id[bytes[i]];
    while (n > 1) {
        uint32_t best = FW_NO_RANK;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t rank = fw_vocab_merge(v, id[i], id[i + 1]);
            if (rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == FW_NO_RANK) return -1;
        edge[0][*edge_n] = id[0];
        edge[1][(*edge_n)++] = id[n - 1];
        if (best > *highest) *highest = best;
        id[at] = v->merge_to[best];
        memmove(&id[at + 1], &id[at + 2], (n - at - 2) * sizeof *id);
        n--;
    }
    return id[0];
}

static void consider(work *w, int32_t token) {
    unsigned char bytes[4] = {0};
    size_t n = token_bytes(w->vocab, token, bytes, 3), edge_n; /* those of four are above FW_ATOM_CODE_N */
    int complete;
    if (n < 2 || fw_utf8_measure(bytes, n, &complete) != n || !complete) return;
    int32_t edge[2][4];
    uint32_t highest;
    if (merge_alone(w->vocab, bytes, n, edge, &edge_n, &highest) != token || w->lowest[token] <= highest) return;
    uint64_t after[4] = {0}, before[4] = {0};
    for (size_t i = 0; i < edge_n; i++) {
        add_crossings(after, &w->left, edge[0][i], highest);
        add_crossings(before, &w->right, edge[1][i], highest);
    }
    int not_after = keep_set(w->atoms, after), not_before = keep_set(w->atoms, before);
    if (not_after < 0 || not_before < 0) return; /* room for sets is out: bytes will do */
    uint32_t code;
    fw_utf8_next(&code, (const char *)bytes);
    w->atoms->id[code] = token;
    w->atoms->not_after[code] = (uint8_t)not_after;
    w->atoms->not_before[code] = (uint8_t)not_before;
}

fw_status fw_bpe_atoms_create(fw_bpe_atoms **out, const fw_vocab *vocab) {
    *out = NULL;
    fw_status status;
    work w = {.vocab = vocab};
    FW_TRY_OR(FW_NEW(w.atoms), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.atoms->id, FW_ATOM_CODE_N), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.atoms->not_after, FW_ATOM_CODE_N), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.atoms->not_before, FW_ATOM_CODE_N), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.atoms->set, 256), done);
    w.atoms->set_n = 1;
    memset(w.atoms->id, 0xff, FW_ATOM_CODE_N * sizeof *w.atoms->id);
    FW_TRY_OR(collect(&w), done);
    for (int32_t id = 0; id < vocab->id_n; id++)
        if (vocab->flags[id] & FW_TOKEN_MODEL) consider(&w, id);
    *out = w.atoms;
    w.atoms = NULL;
done:
    fw_bpe_atoms_destroy(w.atoms);
    fw_free(w.lowest);
    fw_free(w.left.item);
    fw_free(w.right.item);
    return status;
}

void fw_bpe_atoms_destroy(fw_bpe_atoms *atoms) {
    if (atoms == NULL) return;
    fw_free(atoms->id);
    fw_free(atoms->not_after);
    fw_free(atoms->not_before);
    fw_free(atoms->set);
    fw_free(atoms);
}
