/* Reading a checkpoint: any range of any unit, whoever wrote it in whatever pieces. */
#include "base/alloc.h"
#include "store/checkpoint_later.h"

#include <string.h>

/* The last piece that begins at or before an element. */
static size_t piece_at(const fw_manifest_tensor *t, int64_t first_n) {
    size_t low = 0, high = t->piece_n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->piece[middle].box.first_n <= first_n)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static fw_status add_tensor(fw_block_list *blocks, const fw_checkpoint_files *f, const fw_manifest_tensor *t,
                            int64_t first_n, int64_t n, void *out) {
    char *to = out;
    for (size_t i = piece_at(t, first_n); n > 0; i++) {
        const fw_manifest_piece *p = &t->piece[i];
        const fw_block_file from = {f->fd[p->file], f->file[p->file].path, t->name, f->index->block_bytes,
                                    t->value_bytes};
        int64_t skip = first_n - p->box.first_n, take = p->box.n - skip < n ? p->box.n - skip : n;
        FW_TRY(fw_blocks_add(blocks, &from, p, skip, take, to));
        first_n += take;
        n -= take;
        to += (size_t)take * t->value_bytes;
    }
    return FW_OK;
}

static const fw_manifest_tensor *tensor_of(const fw_checkpoint_files *f, int array, int32_t param) {
    const fw_manifest_tensor *t = f->wanted[param * FW_CHECKPOINT_ARRAYS_MAX + array];
    FW_ASSERT(t != NULL);
    return t;
}

fw_status fw_checkpoint_collect_values(fw_block_list *blocks, const fw_checkpoint_files *f, fw_checkpoint_array array,
                                       int32_t param, int64_t first_n, int64_t n, void *out) {
    const fw_manifest_tensor *t = tensor_of(f, (int)array, param);
    FW_ASSERT(first_n >= 0 && first_n + n <= t->n);
    return n == 0 ? FW_OK : add_tensor(blocks, f, t, first_n, n, out);
}

fw_status fw_checkpoint_collect(fw_block_list *blocks, const fw_checkpoint_files *f, fw_checkpoint_array array,
                                int32_t unit, int64_t first_n, int64_t n, float *out) {
    const fw_param_table *table = f->table;
    FW_ASSERT(first_n >= 0 && first_n + n <= table->unit_size_n[unit]);
    int64_t end = 0; /* of what is filled: padding is 0, and nothing else is written twice */
    for (int32_t i = table->unit_first[unit]; i < table->unit_first[unit + 1]; i++) {
        const fw_param *p = &table->param[i];
        fw_checkpoint_range run = fw_pieces_of_param(p, (fw_checkpoint_range){first_n, n});
        if (run.n == 0) continue;
        const int64_t at = p->offset_n + run.first_n - first_n;
        memset(out + end, 0, (size_t)(at - end) * sizeof *out);
        FW_TRY(add_tensor(blocks, f, tensor_of(f, (int)array, i), run.first_n, run.n, out + at));
        end = at + run.n;
    }
    memset(out + end, 0, (size_t)(n - end) * sizeof *out);
    return FW_OK;
}

/* What was collected, when that has succeeded. */
static fw_status read_collected(fw_block_list *blocks, fw_status status, fw_threads *threads) {
    if (status == FW_OK) status = fw_blocks_read(blocks, threads);
    fw_blocks_fini(blocks);
    return status;
}

fw_status fw_checkpoint_read_values(const fw_checkpoint_files *f, fw_checkpoint_array array, int32_t param,
                                    int64_t first_n, int64_t n, void *out) {
    fw_block_list blocks = {0};
    return read_collected(&blocks, fw_checkpoint_collect_values(&blocks, f, array, param, first_n, n, out), f->threads);
}

fw_status fw_checkpoint_read(const fw_checkpoint_files *f, fw_checkpoint_array array, int32_t unit, int64_t first_n,
                             int64_t n, float *out) {
    fw_block_list blocks = {0};
    return read_collected(&blocks, fw_checkpoint_collect(&blocks, f, array, unit, first_n, n, out), f->threads);
}
