/* The collectives on shared memory. Each begins with a barrier (every rank has come, its data is ready and its
 * descriptor published) and ends with one (nobody touches another's data any more).
 *
 * Buffers from fw_comm_alloc are worked on where they are. For all others, data goes through each rank's staging
 * buffer, piece by piece. Which way is decided from all descriptors, so every rank takes the same. */
#include "comm/comm_sum.h"
#include "comm/shm/shm_internal.h"

#include <stdio.h>
#include <string.h>

/* Where a pointer lies in the regions; region -1 when it is private memory. */
static void locate(const fw_comm *c, const void *pointer, size_t bytes, int32_t *region, uint64_t *offset) {
    const fw_shm_host *s = fw_shm_of(c)->host;
    const size_t me = (size_t)c->job->all->options.rank;
    *region = -1;
    *offset = 0;
    int region_n = atomic_load_explicit(&s->region_n, memory_order_acquire);
    for (int i = 0; i < region_n; i++) {
        const fw_shm_region *g = &s->region[i];
        uintptr_t own = (uintptr_t)(g->base + me * g->stride_bytes), p = (uintptr_t)pointer;
        if (p < own || p - own > g->bytes || bytes > g->bytes - (p - own)) continue;
        *region = i;
        *offset = p - own;
        return;
    }
}

static fw_shm_descriptor *descriptor_of(const fw_comm *c, int rank) {
    return &fw_shm_of(c)->control->rank[rank].descriptor;
}

/* Rank r's buffer as this process sees it; its descriptor names a region. */
static char *shared_of(const fw_comm *c, int rank) {
    const fw_shm_descriptor *d = descriptor_of(c, rank);
    const fw_shm_region *g = &fw_shm_of(c)->host->region[d->region];
    return g->base + (size_t)fw_comm_job_rank(c, rank) * g->stride_bytes + d->offset;
}

static int all_shared(const fw_comm *c) {
    for (int r = 0; r < c->options.world; r++)
        if (descriptor_of(c, r)->region < 0) return 0;
    return 1;
}

/* "all_reduce layers.3 of 20 fp32 (root 0)" */
static const char *describe(char out[160], const fw_shm_descriptor *d) {
    snprintf(out, 160, "%s%s%.39s of %lld %s (root %d)", fw_comm_kind_name((fw_comm_kind)d->kind),
             d->label[0] ? " " : "", d->label, (long long)d->n, fw_dtype_name((fw_dtype)d->dtype), d->root);
    return out;
}

static fw_status compare_descriptors(const fw_comm *c, uint64_t number) {
    const fw_shm_descriptor *zero = descriptor_of(c, 0);
    for (int r = 1; r < c->options.world; r++) {
        const fw_shm_descriptor *d = descriptor_of(c, r);
        if (d->kind == zero->kind && d->dtype == zero->dtype && d->root == zero->root && d->n == zero->n &&
            d->label_hash == zero->label_hash)
            continue;
        char a[160], b[160], title[FW_COMM_TITLE_BYTES];
        return fw_fail(FW_ERR_RANK, "the ranks have diverged: %s is %s on rank %d and %s on rank %d",
                       fw_comm_title(title, c, "collective", NULL, number), describe(a, zero), fw_comm_job_rank(c, 0),
                       describe(b, d), fw_comm_job_rank(c, r));
    }
    return FW_OK;
}

/* FNV-1a over what of the label fits into the descriptor. */
static void put_label(fw_shm_descriptor *d, const char *label) {
    d->label_hash = 0xcbf29ce484222325u;
    int i = 0;
    for (; label != NULL && label[i] != 0 && i < FW_SHM_LABEL_BYTES - 1; i++) {
        d->label[i] = label[i];
        d->label_hash = (d->label_hash ^ (unsigned char)label[i]) * 0x100000001b3u;
    }
    d->label[i] = 0;
}

/* Start of this rank's part of n things: parts differ by at most one grain of 16, so that they start on cache lines. */
static int64_t part_start(int64_t n, int rank, int world) {
    int64_t grains = (n + 15) / 16, start = grains * rank / world * 16;
    return start < n ? start : n;
}

static fw_status barrier(fw_comm *c, const fw_comm_op *op) {
    return fw_shm_barrier(c, FW_SHM_DATA, &(fw_shm_call){fw_comm_kind_name(op->kind), op->label, op->number});
}

static fw_status all_reduce(fw_comm *c, const fw_comm_op *op, int shared) {
    fw_shm *s = fw_shm_of(c);
    const int world = c->options.world, me = c->options.rank;
    const size_t size = fw_dtype_bytes(op->dtype);
    const int64_t piece_n = shared ? op->n : (int64_t)(s->stage_bytes / size);
    void *place[FW_COMM_MAX_WORLD];
    for (int64_t at = 0; at < op->n; at += piece_n) {
        int64_t now_n = op->n - at < piece_n ? op->n - at : piece_n;
        if (!shared) {
            memcpy(fw_shm_stage(s, me), (char *)op->buffer + (size_t)at * size, (size_t)now_n * size);
            FW_TRY(barrier(c, op));
        }
        int64_t first = part_start(now_n, me, world), last = part_start(now_n, me + 1, world);
        for (int r = 0; r < world; r++)
            place[r] = (shared ? shared_of(c, r) : fw_shm_stage(s, r)) + (size_t)first * size;
        fw_comm_sum(place, world, (const void *const *)place, world, last - first, op->dtype);
        if (!shared) {
            FW_TRY(barrier(c, op));
            memcpy((char *)op->buffer + (size_t)at * size, fw_shm_stage(s, me), (size_t)now_n * size);
        }
    }
    return FW_OK;
}

static fw_status reduce_scatter(fw_comm *c, const fw_comm_op *op, int shared) {
    fw_shm *s = fw_shm_of(c);
    const int world = c->options.world, me = c->options.rank;
    const size_t size = fw_dtype_bytes(op->dtype);
    const int64_t part_n = op->n / world, piece_n = shared ? part_n : (int64_t)(s->stage_bytes / size) / world;
    const void *from[FW_COMM_MAX_WORLD];
    for (int64_t at = 0; at < part_n; at += piece_n) {
        int64_t now_n = part_n - at < piece_n ? part_n - at : piece_n;
        if (!shared) { /* my stage: this piece of every rank's part, one behind the other */
            for (int r = 0; r < world; r++)
                memcpy(fw_shm_stage(s, me) + (size_t)(r * now_n) * size,
                       (char *)op->buffer + (size_t)(r * part_n + at) * size, (size_t)now_n * size);
            FW_TRY(barrier(c, op));
        }
        for (int r = 0; r < world; r++)
            from[r] = shared ? shared_of(c, r) + (size_t)(me * part_n) * size
                             : fw_shm_stage(s, r) + (size_t)(me * now_n) * size;
        void *to = (char *)op->part + (size_t)at * size;
        fw_comm_sum(&to, 1, from, world, now_n, op->dtype);
        if (!shared) FW_TRY(barrier(c, op));
    }
    return FW_OK;
}

static void copy_unless_same(char *to, const char *from, size_t bytes) {
    if (to != from && bytes > 0) memcpy(to, from, bytes);
}

static fw_status all_gather(fw_comm *c, const fw_comm_op *op, int shared) {
    fw_shm *s = fw_shm_of(c);
    const int world = c->options.world, me = c->options.rank;
    const size_t part_bytes = (size_t)(op->n / world) * fw_dtype_bytes(op->dtype), own_at = (size_t)me * part_bytes;
    if (shared) {
        for (int k = 0; k < world; k++) { /* each rank starts with itself: not all write to one at a time */
            int r = (me + k) % world;
            copy_unless_same(shared_of(c, r) + own_at, op->part, part_bytes);
        }
        return FW_OK;
    }
    for (size_t at = 0; at < part_bytes; at += s->stage_bytes) {
        size_t now_bytes = part_bytes - at < s->stage_bytes ? part_bytes - at : s->stage_bytes;
        memcpy(fw_shm_stage(s, me), (const char *)op->part + at, now_bytes);
        FW_TRY(barrier(c, op));
        for (int r = 0; r < world; r++)
            if (r != me) memcpy((char *)op->buffer + (size_t)r * part_bytes + at, fw_shm_stage(s, r), now_bytes);
        FW_TRY(barrier(c, op));
    }
    copy_unless_same((char *)op->buffer + own_at, op->part, part_bytes);
    return FW_OK;
}

static fw_status broadcast(fw_comm *c, const fw_comm_op *op) {
    fw_shm *s = fw_shm_of(c);
    const int is_root = c->options.rank == op->root;
    const size_t bytes = (size_t)op->n;
    char *stage = fw_shm_stage(s, op->root);
    if (descriptor_of(c, op->root)->region >= 0) {
        if (!is_root) memcpy(op->buffer, shared_of(c, op->root), bytes);
        return FW_OK;
    }
    for (size_t at = 0; at < bytes; at += s->stage_bytes) {
        size_t now_bytes = bytes - at < s->stage_bytes ? bytes - at : s->stage_bytes;
        if (is_root) memcpy(stage, (char *)op->buffer + at, now_bytes);
        FW_TRY(barrier(c, op));
        if (!is_root) memcpy((char *)op->buffer + at, stage, now_bytes);
        FW_TRY(barrier(c, op));
    }
    return FW_OK;
}

fw_status fw_shm_run(fw_comm *c, const fw_comm_op *op) {
    size_t bytes = (size_t)op->n * fw_dtype_bytes(op->dtype);
    fw_shm_descriptor *mine = descriptor_of(c, c->options.rank);
    mine->kind = (int32_t)op->kind;
    mine->dtype = (int32_t)op->dtype;
    mine->root = op->root;
    mine->n = op->n;
    locate(c, op->buffer, bytes, &mine->region, &mine->offset);
    put_label(mine, op->label);
    FW_TRY(barrier(c, op));
    FW_TRY(compare_descriptors(c, op->number));
    int shared = all_shared(c);
    switch (op->kind) {
    case FW_COMM_ALL_REDUCE: FW_TRY(all_reduce(c, op, shared)); break;
    case FW_COMM_REDUCE_SCATTER: FW_TRY(reduce_scatter(c, op, shared)); break;
    case FW_COMM_ALL_GATHER: FW_TRY(all_gather(c, op, shared)); break;
    case FW_COMM_BROADCAST: FW_TRY(broadcast(c, op)); break;
    case FW_COMM_KIND_N: break;
    }
    return barrier(c, op);
}
