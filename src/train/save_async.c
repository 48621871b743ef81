#include "train/save_async.h"

#include "base/alloc.h"
#include "base/behind.h"

#include <string.h>

enum { SLACK_N = 192 }; /* of a unit: what rounding a part to whole cache lines, twice, may add */

struct fw_save_async {
    fw_shard *shard;
    const fw_param_table *table;
    fw_checkpoint_range *range; /* [unit_n], what this rank writes of each unit */
    int64_t *at_n;              /* [unit_n], where that lies in an array of the copy */
    float *values;              /* [FW_CHECKPOINT_ARRAY_N][n] */
    int64_t n;
    fw_checkpoint_share share;
    fw_threads *threads;
    fw_behind writing;
    const char *dir;
    json_t *part;
};

size_t fw_save_async_bytes(const fw_param_table *table, int world) {
    int64_t n = table->total_n / world + 1 + (int64_t)table->unit_n * SLACK_N;
    return (size_t)n * FW_CHECKPOINT_ARRAY_N * sizeof(float);
}

static const float *view_copy(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n) {
    const fw_save_async *a = context;
    const int64_t at = a->at_n[p->unit] + p->offset_n + first_n - a->range[p->unit].first_n;
    return a->values + (int64_t)array * a->n + at;
}

fw_status fw_save_async_create(fw_save_async **out, fw_shard *shard, const fw_param_table *table, int rank, int world,
                               fw_threads *threads) {
    fw_save_async *a;
    fw_status status;
    *out = NULL;
    FW_TRY(FW_NEW(a));
    a->shard = shard;
    a->table = table;
    a->threads = threads;
    FW_TRY_OR(FW_NEW_ARRAY(a->range, (size_t)table->unit_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(a->at_n, (size_t)table->unit_n), fail);
    const fw_shard_layout *l = fw_shard_layout_of(shard);
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        fw_shard_saved_range(l, rank, unit, &a->range[unit].first_n, &a->range[unit].n);
        a->at_n[unit] = a->n;
        a->n += a->range[unit].n;
    }
    const size_t bytes = fw_save_async_bytes(table, world);
    FW_ASSERT((size_t)a->n * FW_CHECKPOINT_ARRAY_N * sizeof(float) <= bytes);
    FW_TRY_OR(FW_NEW_ARRAY(a->values, bytes / sizeof(float)), fail);
    memset(a->values, 1, bytes); /* the pages are there from now on, not only when it is too late */
    a->share = (fw_checkpoint_share){fw_shard_saved_place(l, rank), world, a->range, NULL, a, view_copy};
    *out = a;
    return FW_OK;
fail:
    fw_save_async_destroy(a);
    return status;
}

void fw_save_async_destroy(fw_save_async *a) {
    if (a == NULL) return;
    fw_behind_wait(&a->writing);
    json_decref(a->part);
    fw_free(a->values);
    fw_free(a->at_n);
    fw_free(a->range);
    fw_free(a);
}

static fw_status write_copy(void *context) {
    fw_save_async *a = context;
    return fw_checkpoint_write_part(&a->part, a->dir, a->table, &a->share);
}

/* Elements [first, last) of an array of the copy, of the units that lie in memory. */
static void copy_run(const fw_save_async *a, int array, int64_t first, int64_t last) {
    for (int32_t unit = 0; unit < a->table->unit_n; unit++) {
        const int64_t at = a->at_n[unit], end = at + a->range[unit].n;
        const int64_t from = first > at ? first : at, to = last < end ? last : end;
        const float *values = from >= to ? NULL
                                         : fw_shard_own_in_place(a->shard, fw_saved_array((fw_checkpoint_array)array),
                                                                 unit, a->range[unit].first_n + from - at);
        if (values != NULL) memcpy(a->values + array * a->n + from, values, (size_t)(to - from) * sizeof *values);
    }
}

static void copy_part(void *context, int index, int thread_n) {
    const fw_save_async *a = context;
    int64_t first, last;
    fw_threads_split(&first, &last, a->n, 1024, index, thread_n);
    for (int array = 0; array < FW_CHECKPOINT_ARRAY_N; array++) copy_run(a, array, first, last);
}

/* What lies in memory by all threads, the training waits for it; then what does not. */
static fw_status copy_share(fw_save_async *a) {
    fw_threads_run(a->threads, copy_part, a);
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++)
        for (int32_t unit = 0; unit < a->table->unit_n; unit++) {
            const fw_shard_array array = fw_saved_array((fw_checkpoint_array)k);
            const fw_checkpoint_range own = a->range[unit];
            if (own.n > 0 && fw_shard_own_in_place(a->shard, array, unit, own.first_n) == NULL)
                FW_TRY(
                    fw_shard_read_own(a->shard, array, unit, own.first_n, own.n, a->values + k * a->n + a->at_n[unit]));
        }
    return FW_OK;
}

fw_status fw_save_async_start(fw_save_async *a, const char *dir) {
    FW_TRY(copy_share(a));
    a->dir = dir;
    a->part = NULL;
    fw_behind_start(&a->writing, write_copy, a, a->threads);
    return FW_OK;
}

bool fw_save_async_is_running(const fw_save_async *a) { return fw_behind_is_started(&a->writing); }
bool fw_save_async_is_done(const fw_save_async *a) { return fw_behind_is_done(&a->writing); }

fw_status fw_save_async_wait(fw_save_async *a, json_t **part) {
    fw_status status = fw_behind_wait(&a->writing);
    *part = a->part;
    a->part = NULL;
    return status;
}
