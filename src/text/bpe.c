/* Byte-pair merging: of all neighbouring pairs that merge, the one of lowest rank (the leftmost of equals)
 * merges first, until none is left. Short words are looked through for each merge. For others a heap holds the
 * candidates, so a word of n bytes takes n log n steps; its memory is kept from word to word. Long words are
 * bpe_long.c's. */
#include "base/alloc.h"
#include "text/tokenizer_parts.h"

enum { SHORT_N = 64 };

static bool comes_first(const fw_bpe_candidate *a, const fw_bpe_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static fw_status heap_push(fw_bpe_scratch *s, fw_bpe_candidate candidate) {
    if (s->heap_n == s->heap_cap) {
        size_t cap = s->heap_cap ? 2 * s->heap_cap : 64;
        FW_TRY(FW_GROW_ARRAY(s->heap, cap));
        s->heap_cap = cap;
    }
    size_t i = s->heap_n++;
    while (i > 0 && comes_first(&candidate, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = candidate;
    return FW_OK;
}

static fw_bpe_candidate heap_pop(fw_bpe_scratch *s) {
    fw_bpe_candidate top = s->heap[0], last = s->heap[--s->heap_n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_n) break;
        if (child + 1 < s->heap_n && comes_first(&s->heap[child + 1], &s->heap[child])) child++;
        if (!comes_first(&s->heap[child], &last)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static fw_status consider(fw_bpe_scratch *s, const fw_vocab *vocab, int32_t left, int32_t right) {
    uint32_t rank = fw_vocab_merge(vocab, s->symbol[left].id, s->symbol[right].id);
    return rank == FW_NO_RANK ? FW_OK : heap_push(s, (fw_bpe_candidate){rank, left, vocab->merge_to[rank]});
}

static fw_status merge_by_heap(fw_bpe_scratch *s, const fw_vocab *vocab, size_t n) {
    s->heap_n = 0;
    for (size_t i = 0; i < n; i++) {
        s->symbol[i].previous = (int32_t)i - 1;
        s->symbol[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
        if (i > 0) FW_TRY(consider(s, vocab, (int32_t)i - 1, (int32_t)i));
    }
    while (s->heap_n > 0) {
        fw_bpe_candidate best = heap_pop(s);
        fw_bpe_symbol *left = &s->symbol[best.at];
        if (left->id < 0 || left->next < 0) continue; /* merged into another meanwhile, or nothing follows now */
        fw_bpe_symbol *right = &s->symbol[left->next];
        uint32_t rank = fw_vocab_merge(vocab, left->id, right->id);
        if (rank == FW_NO_RANK || vocab->merge_to[rank] != best.id) continue; /* the pair is not what it was */
        right->id = -1;
        left->id = best.id;
        left->next = right->next;
        if (left->next >= 0) {
            s->symbol[left->next].previous = best.at;
            FW_TRY(consider(s, vocab, best.at, left->next));
        }
        if (left->previous >= 0) FW_TRY(consider(s, vocab, left->previous, best.at));
    }
    return FW_OK;
}

/* The symbols that are left, one after the other. */
static size_t close_ranks(fw_bpe_symbol *symbol, size_t n) {
    size_t left_n = 0;
    for (size_t i = 0; i < n; i++)
        if (symbol[i].id >= 0) symbol[left_n++] = symbol[i];
    return left_n;
}

/* Short words. Of each pair a key, its rank and its place, so that the least key says where the next merge is. */
enum { KEY_BLOCK = 16 };
static const uint32_t no_key = UINT32_MAX;

typedef struct row {
    uint32_t key[SHORT_N]; /* no_key: does not merge */
} row;

static inline void look_up(row *r, const fw_vocab *vocab, const fw_bpe_symbol *symbol, unsigned left, unsigned right) {
    uint32_t rank = fw_vocab_merge(vocab, symbol[left].id, symbol[right].id);
    r->key[left] = rank == FW_NO_RANK ? no_key : rank * SHORT_N + left;
}

static inline uint32_t least_key(const row *r, size_t n) {
    uint32_t least[KEY_BLOCK], lowest = no_key; /* lanes, for the compiler to take at once */
    for (size_t lane = 0; lane < KEY_BLOCK; lane++) least[lane] = r->key[lane];
    for (size_t i = KEY_BLOCK; i < n; i += KEY_BLOCK)
        for (size_t lane = 0; lane < KEY_BLOCK; lane++)
            least[lane] = r->key[i + lane] < least[lane] ? r->key[i + lane] : least[lane];
    for (size_t lane = 0; lane < KEY_BLOCK; lane++) lowest = least[lane] < lowest ? least[lane] : lowest;
    return lowest;
}

/* Symbols that are merged into others get id -1. */
static void merge_in_row(fw_bpe_symbol *symbol, const fw_vocab *vocab, size_t n) {
    row r;
    uint64_t alive = n == SHORT_N ? UINT64_MAX : ((uint64_t)1 << n) - 1; /* a bit for each symbol */
    for (unsigned i = 0; i + 1 < n; i++) look_up(&r, vocab, symbol, i, i + 1);
    for (size_t i = n - 1; i < SHORT_N && (i < n || i % KEY_BLOCK != 0); i++) r.key[i] = no_key;
    for (uint32_t key; (key = least_key(&r, n)) != no_key;) {
        unsigned at = key % SHORT_N;
        uint64_t before = alive & (((uint64_t)1 << at) - 1), behind = alive & ~(before | (uint64_t)1 << at);
        unsigned right = (unsigned)__builtin_ctzll(behind);
        symbol[at].id = vocab->merge_to[key / SHORT_N];
        symbol[right].id = -1;
        r.key[right] = r.key[at] = no_key;
        alive &= ~((uint64_t)1 << right);
        behind &= behind - 1;
        if (before) look_up(&r, vocab, symbol, 63 - (unsigned)__builtin_clzll(before), at);
        if (behind) look_up(&r, vocab, symbol, at, (unsigned)__builtin_ctzll(behind));
    }
}

fw_status fw_bpe_run(fw_bpe_scratch *s, const fw_tokenizer *t, const char *word, size_t word_bytes, size_t *symbol_n) {
    size_t n = 0;
    FW_TRY(fw_bpe_make_symbols(s, t, word, word_bytes, &n));
    if (n > 1 && n <= SHORT_N)
        merge_in_row(s->symbol, &t->vocab, n);
    else if (n >= FW_BPE_LONG_N)
        FW_TRY(fw_bpe_merge_long(s->symbol, &t->vocab, n));
    else
        FW_TRY(merge_by_heap(s, &t->vocab, n));
    *symbol_n = close_ranks(s->symbol, n);
    return FW_OK;
}

void fw_bpe_scratch_fini(fw_bpe_scratch *s) {
    fw_free(s->symbol);
    fw_free(s->heap);
    fw_strbuf_fini(&s->spelling);
    *s = (fw_bpe_scratch){0};
}
