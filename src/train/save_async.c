#include "train/save_async.h"

#include "base/alloc.h"
#include "base/behind.h"

#include <string.h>

/* SLACK_N: elements of a unit, what rounding a part to whole blocks, twice, may add. */
enum { SLACK_N = 3 * FW_STATE_BLOCK_N, LINE_BYTES = 64 };

struct fw_save_async {
    fw_shard *shard;
    const fw_param_table *table;
    fw_optimizer optimizer;
    fw_checkpoint_range *range; /* [unit_n], what this rank writes of each unit */
    size_t *at_bytes;           /* [param_n], where that of a parameter lies in the copy: all its arrays in turn */
    char *copy;
    fw_checkpoint_share share;
    fw_threads *threads;
    fw_behind writing;
    const char *dir;
    json_t *part;
};

/* ---- how much */

static size_t lines(size_t bytes) { return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES; }

/* Of one element at most, and in *whole of what is saved as a whole. */
static size_t element_bytes(const fw_param *p, fw_optimizer optimizer, size_t *whole) {
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    size_t bytes = sizeof(float);
    const int n = fw_state_arrays(array, optimizer, p);
    for (int k = 0; k < n; k++) {
        *whole += LINE_BYTES;
        if (array[k].shape == FW_STATE_ELEMENT)
            bytes += fw_dtype_bytes(array[k].t);
        else
            *whole += (size_t)fw_state_whole_n(&array[k], p) * fw_dtype_bytes(array[k].t);
    }
    *whole += LINE_BYTES;
    return bytes;
}

size_t fw_save_async_bytes(const fw_param_table *table, fw_optimizer optimizer, int world) {
    const int64_t n = table->total_n / world + 1 + (int64_t)table->unit_n * SLACK_N;
    size_t whole = 0, most = 0;
    for (int32_t i = 0; i < table->param_n; i++) {
        const size_t bytes = element_bytes(&table->param[i], optimizer, &whole);
        if (bytes > most) most = bytes;
    }
    return lines((size_t)n * most + whole);
}

/* ---- the copy */

/* What this rank saves of array k of a parameter (0: the weights), and in *at where it lies in the copy. */
static fw_checkpoint_range saved(const fw_save_async *a, int32_t param, int k, size_t *at, size_t *value_bytes) {
    const fw_param *p = &a->table->param[param];
    const fw_checkpoint_range whole = a->range[p->unit];
    const fw_state_range elements = fw_state_of_param(p, whole.first_n, whole.n);
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    const int n = fw_state_arrays(array, a->optimizer, p);
    fw_state_range r = elements;
    *at = a->at_bytes[param];
    *value_bytes = sizeof(float);
    for (int i = 0; i < k && i < n; i++) {
        *at += lines((size_t)r.n * *value_bytes);
        r = fw_state_saved(&array[i], p, elements);
        *value_bytes = fw_dtype_bytes(array[i].t);
    }
    return (fw_checkpoint_range){r.first_n, k > n ? 0 : r.n};
}

static const void *view_copy(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n) {
    const fw_save_async *a = context;
    size_t at, bytes;
    const fw_checkpoint_range r = saved(a, (int32_t)(p - a->table->param), (int)array, &at, &bytes);
    return a->copy + at + (size_t)(first_n - r.first_n) * bytes;
}

/* Lays out the copy; returns its bytes. */
static size_t lay_out(fw_save_async *a) {
    size_t end = 0;
    for (int32_t i = 0; i < a->table->param_n; i++) {
        a->at_bytes[i] = end;
        fw_state_array array[FW_STATE_ARRAYS_MAX];
        size_t bytes;
        const int last = fw_state_arrays(array, a->optimizer, &a->table->param[i]);
        const fw_checkpoint_range r = saved(a, i, last, &end, &bytes);
        end += lines((size_t)r.n * bytes);
    }
    return end;
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
    FW_TRY_OR(FW_NEW_ARRAY(a->at_bytes, (size_t)table->param_n), fail);
    const fw_shard_layout *l = fw_shard_layout_of(shard);
    a->optimizer = l->options.optimizer;
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        fw_shard_saved_range(l, rank, unit, &a->range[unit].first_n, &a->range[unit].n);
    const size_t bytes = fw_save_async_bytes(table, a->optimizer, world);
    FW_ASSERT(lay_out(a) <= bytes);
    FW_TRY_OR(FW_NEW_ARRAY(a->copy, bytes), fail);
    memset(a->copy, 1, bytes); /* the pages are there from now on, not only when it is too late */
    a->share = (fw_checkpoint_share){fw_shard_saved_place(l, rank), world, a->range, NULL, a, view_copy, a->optimizer};
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
    fw_free(a->copy);
    fw_free(a->at_bytes);
    fw_free(a->range);
    fw_free(a);
}

static fw_status write_copy(void *context) {
    fw_save_async *a = context;
    return fw_checkpoint_write_part(&a->part, a->dir, a->table, &a->share);
}

/* Where array k of a parameter (0: the weights) lies, for memory that can be copied from; else NULL. */
static const float *in_place(const fw_save_async *a, int32_t param, int k, int64_t first_n) {
    const fw_param *p = &a->table->param[param];
    if (k > 0 && fw_shard_layout_of(a->shard)->by_tensor) return NULL;
    return fw_shard_own_in_place(a->shard, (fw_shard_array)k, p->unit, p->offset_n + first_n);
}

static int arrays_of(const fw_save_async *a, int32_t param) {
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    return 1 + fw_state_arrays(array, a->optimizer, &a->table->param[param]);
}

/* A part of everything that lies in memory. */
static void copy_part(void *context, int index, int thread_n) {
    const fw_save_async *a = context;
    for (int32_t i = 0; i < a->table->param_n; i++)
        for (int k = 0; k < arrays_of(a, i); k++) {
            size_t at, bytes;
            int64_t first, last;
            const fw_checkpoint_range r = saved(a, i, k, &at, &bytes);
            fw_threads_split(&first, &last, r.n, 1024, index, thread_n);
            const float *values = first < last ? in_place(a, i, k, r.first_n + first) : NULL;
            if (values != NULL) memcpy(a->copy + at + (size_t)first * bytes, values, (size_t)(last - first) * bytes);
        }
}

/* What lies in memory by all threads, the training waits for it; then what does not. */
static fw_status copy_share(fw_save_async *a) {
    fw_threads_run(a->threads, copy_part, a);
    for (int32_t i = 0; i < a->table->param_n; i++)
        for (int k = 0; k < arrays_of(a, i); k++) {
            const fw_param *p = &a->table->param[i];
            size_t at, bytes;
            const fw_checkpoint_range r = saved(a, i, k, &at, &bytes);
            if (r.n == 0 || in_place(a, i, k, r.first_n) != NULL) continue;
            if (k == 0)
                FW_TRY(fw_shard_read_own(a->shard, FW_SHARD_WEIGHT, p->unit, p->offset_n + r.first_n, r.n,
                                         (float *)(void *)(a->copy + at)));
            else
                FW_TRY(fw_shard_read_state(a->shard, i, k - 1, r.first_n, r.n, a->copy + at));
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
