/* How a collective begins: every rank tells what it is about to do and where its data lies, all come, and each compares.
 * From the same descriptors every rank then takes the same way. */
#include "comm/shm/shm_meet.h"

#include <stdio.h>

/* Where a pointer lies in the regions. */
static fw_shm_place locate(const fw_comm *c, const void *pointer, size_t bytes) {
    const fw_shm_host *host = fw_shm_of(c)->host;
    const size_t me = (size_t)c->job->all->options.rank;
    int region_n = atomic_load_explicit(&host->region_n, memory_order_acquire);
    for (int i = 0; i < region_n; i++) {
        const fw_shm_region *g = &host->region[i];
        uintptr_t own = (uintptr_t)(g->base + me * g->stride_bytes), p = (uintptr_t)pointer;
        if (p < own || p - own > g->bytes || bytes > g->bytes - (p - own)) continue;
        return (fw_shm_place){.region = i, .offset = p - own};
    }
    return (fw_shm_place){.region = -1};
}

static fw_shm_descriptor *descriptor_of(const fw_comm *c, int rank, uint64_t number) {
    return &fw_shm_of(c)->control->rank[rank].descriptor[number & 1];
}

static char *shared_at(const fw_comm *c, int rank, fw_shm_place place) {
    const fw_shm_region *g = &fw_shm_of(c)->host->region[place.region];
    return g->base + (size_t)fw_comm_job_rank(c, rank) * g->stride_bytes + place.offset;
}

/* "all_reduce layers.3 of 20 fp32 (root 0)" */
static const char *describe(char out[160], const fw_shm_descriptor *d) {
    snprintf(out, 160, "%s%s%.39s of %lld %s (root %d)", fw_comm_kind_name((fw_comm_kind)d->kind),
             d->label[0] ? " " : "", d->label, (long long)d->n, fw_dtype_name((fw_dtype)d->dtype), d->root);
    return out;
}

static fw_status diverged(const fw_comm *c, uint64_t number, int rank) {
    char a[160], b[160], title[FW_COMM_TITLE_BYTES];
    return fw_fail(FW_ERR_RANK, "the ranks have diverged: %s is %s on rank %d and %s on rank %d",
                   fw_comm_title(title, c, "collective", NULL, number), describe(a, descriptor_of(c, 0, number)),
                   fw_comm_job_rank(c, 0), describe(b, descriptor_of(c, rank, number)), fw_comm_job_rank(c, rank));
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

fw_status fw_shm_meet(fw_comm *c, const fw_comm_op *op, fw_shm_meeting *out) {
    fw_shm_descriptor *mine = descriptor_of(c, c->options.rank, op->number);
    mine->kind = (int32_t)op->kind;
    mine->dtype = (int32_t)op->dtype;
    mine->root = op->root;
    mine->n = op->n;
    mine->buffer = locate(c, op->buffer, fw_comm_op_bytes(op));
    mine->part = op->part != NULL ? locate(c, op->part, fw_comm_op_part_bytes(op, c->options.world)) : mine->buffer;
    put_label(mine, fw_comm_op_label(op));
    FW_TRY(fw_shm_data_barrier(c, op));
    const fw_shm_descriptor *zero = descriptor_of(c, 0, op->number);
    out->buffers_shared = out->parts_shared = 1;
    for (int r = 0; r < c->options.world; r++) {
        const fw_shm_descriptor *d = descriptor_of(c, r, op->number);
        if (d->kind != zero->kind || d->dtype != zero->dtype || d->root != zero->root || d->n != zero->n ||
            d->label_hash != zero->label_hash)
            return diverged(c, op->number, r);
        out->buffer[r] = d->buffer.region < 0 ? NULL : shared_at(c, r, d->buffer);
        out->part[r] = d->part.region < 0 ? NULL : shared_at(c, r, d->part);
        out->buffers_shared &= out->buffer[r] != NULL;
        out->parts_shared &= out->part[r] != NULL;
    }
    return FW_OK;
}

fw_status fw_shm_data_barrier(fw_comm *c, const fw_comm_op *op) {
    return fw_shm_barrier(c, FW_SHM_DATA,
                          &(fw_shm_call){fw_comm_kind_name(op->kind), fw_comm_op_label(op), op->number});
}
