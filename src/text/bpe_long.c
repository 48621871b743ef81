/* Byte-pair merging of a long word, in the same order as bpe.c: lowest rank first, leftmost of equals.
 *
 * One heap of all candidates of a word of megabytes misses the cache at each level of each step. Here each rank has a
 * bucket with the places where its pair stands, and the heap holds ranks only. The lowest bucket is emptied as a whole:
 * sorted by place, then merged from left to right, so symbols are touched in the order of memory. A merge may make a
 * pair of lower rank than the one at work (the same token made in two ways): then the rest of the sorted places waits
 * as a frame on a stack while the lower bucket is emptied. A pair made by a merge at some place never stands to the
 * right of it, so among equal ranks what is new comes before what waits.
 *
 * n bytes take n log n steps at worst: buckets are merge-sorted. Memory: about 40 bytes a byte of the word. */
#include "base/alloc.h"
#include "text/tokenizer_parts.h"

#include <string.h>

enum { CHUNK_N = 14, NO_CHUNK = -1 };
static const uint32_t no_rank = FW_NO_RANK;

/* A cache line of a bucket: places, oldest first; the next chunk is older. */
typedef struct chunk {
    int32_t next, used;
    int32_t at[CHUNK_N];
} chunk;

/* What a symbol and the one after it become; rank no_rank: nothing. */
typedef struct pair {
    uint32_t rank;
    int32_t id;
} pair;

/* Places of a rank that are left to do: run[first .. end), ascending. */
typedef struct frame {
    uint32_t rank;
    size_t first, end;
} frame;

typedef struct work {
    const fw_vocab *vocab;
    fw_bpe_symbol *symbol;
    pair *pair;    /* of each symbol */
    int32_t *head; /* newest chunk of each rank's bucket */
    chunk *chunk;
    size_t chunk_n, chunk_cap;
    int32_t spare;   /* chunks that are free again */
    uint32_t *queue; /* heap of the ranks whose bucket is not empty */
    size_t queue_n;
    int32_t *run; /* the places of all frames, one after the other; above them room for sorting */
    size_t run_cap;
    frame *frame;
    size_t frame_n, frame_cap;
} work;

static void queue_push(work *w, uint32_t rank) {
    size_t i = w->queue_n++;
    for (; i > 0 && rank < w->queue[(i - 1) / 2]; i = (i - 1) / 2) w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = rank;
}

static uint32_t queue_pop(work *w) {
    uint32_t top = w->queue[0], last = w->queue[--w->queue_n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->queue_n; i = child) {
        if (child + 1 < w->queue_n && w->queue[child + 1] < w->queue[child]) child++;
        if (w->queue[child] >= last) break;
        w->queue[i] = w->queue[child];
    }
    w->queue[i] = last;
    return top;
}

static fw_status take_chunk(work *w, int32_t *out) {
    if (w->spare != NO_CHUNK) {
        *out = w->spare;
        w->spare = w->chunk[*out].next;
        return FW_OK;
    }
    if (w->chunk_n == w->chunk_cap) {
        size_t cap = 2 * w->chunk_cap + 1024;
        FW_TRY(FW_GROW_ARRAY(w->chunk, cap));
        w->chunk_cap = cap;
    }
    *out = (int32_t)w->chunk_n++; /* fewer than places, which fit */
    return FW_OK;
}

/* The pair of `left` and the symbol after it into its bucket. *lowest: the lowest rank seen so far. */
static fw_status consider(work *w, int32_t left, uint32_t *lowest) {
    int32_t right = w->symbol[left].next;
    uint32_t rank = right < 0 ? no_rank : fw_vocab_merge(w->vocab, w->symbol[left].id, w->symbol[right].id);
    w->pair[left].rank = no_rank;
    if (rank == no_rank) return FW_OK;
    int32_t *head = &w->head[rank];
    if (*head == NO_CHUNK) queue_push(w, rank);
    if (*head == NO_CHUNK || w->chunk[*head].used == CHUNK_N) {
        int32_t fresh = NO_CHUNK;
        FW_TRY(take_chunk(w, &fresh));
        w->chunk[fresh].next = *head;
        w->chunk[fresh].used = 0;
        *head = fresh;
    }
    chunk *c = &w->chunk[*head];
    c->at[c->used++] = left;
    w->pair[left] = (pair){rank, w->vocab->merge_to[rank]};
    if (rank < *lowest) *lowest = rank;
    return FW_OK;
}

static size_t end_of_ascending(const int32_t *a, size_t at, size_t n) {
    for (at++; at < n && a[at - 1] <= a[at]; at++) {
    }
    return at;
}

/* Merge sort of the ascending stretches that are there: mostly there is one, or few. `room` for n. */
static void sort_places(int32_t *a, int32_t *room, size_t n) {
    int32_t *from = a, *to = room;
    while (n > 0 && end_of_ascending(from, 0, n) < n) {
        for (size_t at = 0; at < n;) {
            size_t i = at, middle = end_of_ascending(from, at, n), k = middle;
            size_t end = middle < n ? end_of_ascending(from, middle, n) : n;
            for (; at < end; at++) to[at] = k == end || (i < middle && from[i] <= from[k]) ? from[i++] : from[k++];
        }
        int32_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != a) memcpy(a, from, n * sizeof *a);
}

/* Empty the bucket of the lowest rank into a new frame. */
static fw_status open_frame(work *w) {
    uint32_t rank = w->queue[0];
    size_t n = 0, first = w->frame_n > 0 ? w->frame[w->frame_n - 1].end : 0;
    for (int32_t c = w->head[rank]; c != NO_CHUNK; c = w->chunk[c].next) n += (size_t)w->chunk[c].used;
    if (w->run_cap < first + 2 * n) {
        size_t cap = first + 2 * n + w->run_cap / 2;
        FW_TRY(FW_GROW_ARRAY(w->run, cap));
        w->run_cap = cap;
    }
    if (w->frame_n == w->frame_cap) {
        size_t cap = 2 * w->frame_cap + 16;
        FW_TRY(FW_GROW_ARRAY(w->frame, cap));
        w->frame_cap = cap;
    }
    size_t end = first + n;
    for (int32_t c = w->head[rank], next; c != NO_CHUNK; c = next) { /* the newest chunk goes last */
        end -= (size_t)w->chunk[c].used;
        memcpy(w->run + end, w->chunk[c].at, (size_t)w->chunk[c].used * sizeof *w->run);
        next = w->chunk[c].next;
        w->chunk[c].next = w->spare;
        w->spare = c;
    }
    w->head[rank] = NO_CHUNK;
    queue_pop(w);
    sort_places(w->run + first, w->run + first + n, n);
    w->frame[w->frame_n++] = (frame){rank, first, first + n};
    return FW_OK;
}

/* Merge at the places of the top frame until it is empty, or until a bucket has come up that goes first. */
static fw_status work_on_frame(work *w) {
    frame *f = &w->frame[w->frame_n - 1];
    uint32_t lowest = no_rank;
    while (f->first < f->end && lowest > f->rank) {
        int32_t at = w->run[f->first++];
        if (w->pair[at].rank != f->rank) continue; /* it is not what it was */
        fw_bpe_symbol *left = &w->symbol[at];
        int32_t right = left->next;
        left->id = w->pair[at].id;
        left->next = w->symbol[right].next;
        w->symbol[right].id = -1;
        w->pair[right].rank = no_rank;
        if (left->next >= 0) w->symbol[left->next].previous = at;
        FW_TRY(consider(w, at, &lowest));
        if (left->previous >= 0) FW_TRY(consider(w, left->previous, &lowest));
    }
    return FW_OK;
}

static fw_status merge_all(work *w) {
    for (;;) {
        while (w->frame_n > 0 && w->frame[w->frame_n - 1].first == w->frame[w->frame_n - 1].end) w->frame_n--;
        if (w->queue_n > 0 && (w->frame_n == 0 || w->queue[0] <= w->frame[w->frame_n - 1].rank))
            FW_TRY(open_frame(w));
        else if (w->frame_n == 0)
            return FW_OK;
        FW_TRY(work_on_frame(w));
    }
}

fw_status fw_bpe_merge_long(fw_bpe_symbol *symbol, const fw_vocab *vocab, size_t n) {
    work w = {.vocab = vocab, .symbol = symbol, .spare = NO_CHUNK};
    uint32_t lowest = no_rank;
    fw_status status = FW_OK;
    if (n < 2 || vocab->merge_n == 0) return FW_OK;
    FW_TRY_OR(FW_NEW_ARRAY(w.pair, n), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.head, vocab->merge_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(w.queue, vocab->merge_n), done);
    memset(w.head, 0xff, vocab->merge_n * sizeof *w.head); /* NO_CHUNK */
    for (size_t i = 0; i < n; i++) {
        symbol[i].previous = (int32_t)i - 1;
        symbol[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < n; i++) FW_TRY_OR(consider(&w, (int32_t)i, &lowest), done);
    FW_TRY_OR(merge_all(&w), done);
done:
    fw_free(w.pair);
    fw_free(w.head);
    fw_free(w.queue);
    fw_free(w.chunk);
    fw_free(w.run);
    fw_free(w.frame);
    return status;
}
