/* The collectives on shared memory. Each begins with a barrier (shm_meet.c). Then there are three ways:
 *
 *   small    at most a slot of bytes from each rank: it was copied into the rank's slot before the barrier, and every
 *            rank takes what it needs from all slots. Nobody touches another's memory, so no second barrier.
 *   shared   memory of fw_comm_alloc on every rank: worked on where it is. A barrier at the end: nobody touches
 *            another's data any more.
 *   staged   all else goes through the halves of each rank's staging buffer, piece by piece, in turn, so that a barrier
 *            a piece is enough.
 *
 * Slots, halves and descriptors are written again only after the next collective's first barrier, or in turn. */
#include "comm/comm_sum.h"
#include "comm/shm/shm_meet.h"

#include <string.h>

typedef struct run {
    fw_comm *c;
    const fw_comm_op *op;
    fw_shm *s;
    int world, me;
    int64_t size; /* bytes of one element */
    fw_shm_meeting meeting;
} run;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void copy_small(void *to, const void *from, int64_t bytes) {
    if (to != from && bytes > 0) memmove(to, from, (size_t)bytes);
}

/* ---- small ---- */

/* What this rank gives; 0: nothing. */
static int64_t given_bytes(const run *u) {
    switch (u->op->kind) {
    case FW_COMM_ALL_REDUCE:
    case FW_COMM_REDUCE_SCATTER:
    case FW_COMM_ALL_TO_ALL: return u->op->n * u->size;
    case FW_COMM_ALL_GATHER: return u->op->n / u->world * u->size;
    case FW_COMM_BROADCAST: return u->op->n;
    case FW_COMM_KIND_N: break;
    }
    return 0;
}

static void give_small(const run *u) {
    const void *from = u->op->kind == FW_COMM_ALL_GATHER ? u->op->part : u->op->buffer;
    if (u->op->kind == FW_COMM_BROADCAST && u->me != u->op->root) return;
    copy_small(fw_shm_slot(u->s, u->me, u->op->number), from, given_bytes(u));
}

static void take_small(const run *u) {
    const fw_comm_op *op = u->op;
    const int64_t bytes = given_bytes(u), part_n = op->n / u->world;
    const int is_scatter = op->kind == FW_COMM_REDUCE_SCATTER, is_transpose = op->kind == FW_COMM_ALL_TO_ALL;
    const void *from[FW_COMM_MAX_WORLD];
    for (int r = 0; r < u->world; r++)
        from[r] = fw_shm_slot(u->s, r, op->number) + (is_scatter || is_transpose ? u->me * part_n * u->size : 0);
    if (op->kind == FW_COMM_ALL_GATHER) {
        from[u->me] = op->part; /* in place it is not touched: somebody may read it meanwhile */
        for (int r = 0; r < u->world; r++) copy_small((char *)op->buffer + r * bytes, from[r], bytes);
    } else if (op->kind == FW_COMM_BROADCAST) {
        if (u->me != op->root) copy_small(op->buffer, from[op->root], bytes);
    } else if (is_transpose) {
        for (int r = 0; r < u->world; r++)
            copy_small((char *)op->part + r * part_n * u->size, from[r], part_n * u->size);
    } else {
        void *to = is_scatter ? op->part : op->buffer;
        fw_comm_sum(&to, 1, from, u->world, is_scatter ? part_n : op->n, op->dtype);
    }
}

/* ---- shared ---- */

static void sum_in_place(const run *u) {
    int64_t first = fw_comm_slice_start(u->op->n, u->me, u->world),
            last = fw_comm_slice_start(u->op->n, u->me + 1, u->world);
    void *place[FW_COMM_MAX_WORLD];
    for (int r = 0; r < u->world; r++) place[r] = u->meeting.buffer[r] + first * u->size;
    fw_comm_sum(place, u->world, (const void *const *)place, u->world, last - first, u->op->dtype);
}

static void sum_own_part(const run *u) {
    const int64_t part_n = u->op->n / u->world;
    const void *from[FW_COMM_MAX_WORLD];
    for (int r = 0; r < u->world; r++) from[r] = u->meeting.buffer[r] + u->me * part_n * u->size;
    fw_comm_sum(&u->op->part, 1, from, u->world, part_n, u->op->dtype);
}

/* Every rank fetches the parts of the others, beginning with its neighbour's: not all read one rank at a time. */
static void fetch_parts(const run *u) {
    const int64_t bytes = given_bytes(u);
    for (int k = 0; k < u->world; k++) {
        int r = (u->me + k) % u->world;
        fw_comm_copy((char *)u->op->buffer + r * bytes, r == u->me ? u->op->part : u->meeting.part[r], (size_t)bytes);
    }
}

/* Private parts, shared buffers: every rank brings its part to the others. */
static void bring_part(const run *u) {
    const int64_t bytes = given_bytes(u);
    for (int k = 0; k < u->world; k++)
        fw_comm_copy(u->meeting.buffer[(u->me + k) % u->world] + u->me * bytes, u->op->part, (size_t)bytes);
}

/* Part me of every rank's buffer, beginning with the neighbour's. */
static void fetch_own_parts(const run *u) {
    const int64_t bytes = u->op->n / u->world * u->size;
    for (int k = 1; k <= u->world; k++) {
        int r = (u->me + k) % u->world;
        fw_comm_copy((char *)u->op->part + r * bytes, u->meeting.buffer[r] + u->me * bytes, (size_t)bytes);
    }
}

/* 0: this way is not open. */
static int run_shared(const run *u) {
    const fw_shm_meeting *m = &u->meeting;
    switch (u->op->kind) {
    case FW_COMM_ALL_REDUCE:
        if (m->buffers_shared) sum_in_place(u);
        return m->buffers_shared;
    case FW_COMM_REDUCE_SCATTER:
        if (m->buffers_shared) sum_own_part(u);
        return m->buffers_shared;
    case FW_COMM_ALL_GATHER:
        if (m->parts_shared)
            fetch_parts(u);
        else if (m->buffers_shared)
            bring_part(u);
        return m->parts_shared || m->buffers_shared;
    case FW_COMM_BROADCAST:
        if (m->buffer[u->op->root] == NULL) return 0;
        if (u->me != u->op->root) fw_comm_copy(u->op->buffer, m->buffer[u->op->root], (size_t)u->op->n);
        return 1;
    case FW_COMM_ALL_TO_ALL:
        if (m->buffers_shared) fetch_own_parts(u);
        return m->buffers_shared;
    case FW_COMM_KIND_N: break;
    }
    return 0;
}

/* ---- staged ---- */

static char *half(const run *u, int rank, int64_t piece) { return fw_shm_half(u->s, rank, (uint64_t)piece); }

static fw_status barrier(const run *u) { return fw_shm_data_barrier(u->c, u->op); }

static fw_status all_reduce_staged(const run *u) {
    const int64_t piece_n = u->s->half_bytes / u->size;
    for (int64_t at = 0, k = 0; at < u->op->n; at += piece_n, k++) {
        int64_t now_n = smaller(piece_n, u->op->n - at);
        char *own = (char *)u->op->buffer + at * u->size;
        copy_small(half(u, u->me, k), own, now_n * u->size);
        FW_TRY(barrier(u));
        if (u->world == 2) { /* both sum all of it, in the same order: cheaper than to fetch the other's sums */
            const void *from[2] = {half(u, 0, k), half(u, 1, k)};
            fw_comm_sum(&(void *){own}, 1, from, 2, now_n, u->op->dtype);
            continue;
        }
        int64_t first = fw_comm_slice_start(now_n, u->me, u->world),
                last = fw_comm_slice_start(now_n, u->me + 1, u->world);
        const void *from[FW_COMM_MAX_WORLD];
        for (int r = 0; r < u->world; r++) from[r] = half(u, r, k) + first * u->size;
        void *to = half(u, u->me, k) + first * u->size;
        fw_comm_sum(&to, 1, from, u->world, last - first, u->op->dtype);
        FW_TRY(barrier(u));
        for (int r = 0; r < u->world; r++) {
            first = fw_comm_slice_start(now_n, r, u->world), last = fw_comm_slice_start(now_n, r + 1, u->world);
            copy_small(own + first * u->size, half(u, r, k) + first * u->size, (last - first) * u->size);
        }
    }
    return FW_OK;
}

/* reduce_scatter and all_to_all. A rank's half: a piece of every rank's part, one behind the other. */
static fw_status scatter_staged(const run *u) {
    const int64_t part_n = u->op->n / u->world, piece_n = u->s->half_bytes / u->size / u->world;
    for (int64_t at = 0, k = 0; at < part_n; at += piece_n, k++) {
        int64_t now_n = smaller(piece_n, part_n - at);
        const void *from[FW_COMM_MAX_WORLD];
        char *to = (char *)u->op->part + at * u->size;
        for (int r = 0; r < u->world; r++)
            copy_small(half(u, u->me, k) + r * now_n * u->size, (char *)u->op->buffer + (r * part_n + at) * u->size,
                       now_n * u->size);
        FW_TRY(barrier(u));
        for (int r = 0; r < u->world; r++) from[r] = half(u, r, k) + u->me * now_n * u->size;
        if (u->op->kind == FW_COMM_REDUCE_SCATTER)
            fw_comm_sum(&(void *){to}, 1, from, u->world, now_n, u->op->dtype);
        else
            for (int r = 0; r < u->world; r++) copy_small(to + r * part_n * u->size, from[r], now_n * u->size);
    }
    return FW_OK;
}

static fw_status all_gather_staged(const run *u) {
    const int64_t bytes = given_bytes(u), piece = u->s->half_bytes;
    char *to = u->op->buffer;
    for (int64_t at = 0, k = 0; at < bytes; at += piece, k++) {
        int64_t now = smaller(piece, bytes - at);
        copy_small(half(u, u->me, k), (const char *)u->op->part + at, now);
        FW_TRY(barrier(u));
        for (int r = 0; r < u->world; r++)
            if (r != u->me) copy_small(to + r * bytes + at, half(u, r, k), now);
    }
    copy_small(to + u->me * bytes, u->op->part, bytes);
    return FW_OK;
}

static fw_status broadcast_staged(const run *u) {
    const int64_t bytes = u->op->n, piece = u->s->half_bytes;
    char *own = u->op->buffer;
    for (int64_t at = 0, k = 0; at < bytes; at += piece, k++) {
        int64_t now = smaller(piece, bytes - at);
        if (u->me == u->op->root) copy_small(half(u, u->me, k), own + at, now);
        FW_TRY(barrier(u));
        if (u->me != u->op->root) copy_small(own + at, half(u, u->op->root, k), now);
    }
    return FW_OK;
}

static fw_status run_staged(const run *u) {
    switch (u->op->kind) {
    case FW_COMM_ALL_REDUCE: return all_reduce_staged(u);
    case FW_COMM_REDUCE_SCATTER:
    case FW_COMM_ALL_TO_ALL: return scatter_staged(u);
    case FW_COMM_ALL_GATHER: return all_gather_staged(u);
    case FW_COMM_BROADCAST: return broadcast_staged(u);
    case FW_COMM_KIND_N: break;
    }
    return FW_OK;
}

fw_status fw_shm_run(fw_comm *c, const fw_comm_op *op) {
    run u = {.c = c,
             .op = op,
             .s = fw_shm_of(c),
             .world = c->options.world,
             .me = c->options.rank,
             .size = (int64_t)fw_dtype_bytes(op->dtype)};
    const int is_small = given_bytes(&u) <= FW_SHM_SLOT_BYTES;
    if (is_small) give_small(&u);
    FW_TRY(fw_shm_meet(c, op, &u.meeting));
    if (is_small) {
        take_small(&u);
        return FW_OK;
    }
    if (run_shared(&u)) return barrier(&u);
    return run_staged(&u);
}
