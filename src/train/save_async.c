#include "train/save_async.h"

#include "base/alloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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
    int cpu_first, cpu_n;
    pthread_t thread;
    bool running;
    atomic_bool done;
    const char *dir;
    json_t *part;
    fw_status status;
    fw_trail trail;
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
                               int cpu_first, int cpu_n) {
    fw_save_async *a;
    fw_status status;
    *out = NULL;
    FW_TRY(FW_NEW(a));
    a->shard = shard;
    a->table = table;
    a->cpu_first = cpu_first;
    a->cpu_n = cpu_n;
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
    if (a->running) pthread_join(a->thread, NULL);
    json_decref(a->part);
    fw_free(a->values);
    fw_free(a->at_n);
    fw_free(a->range);
    fw_free(a);
}

static void *write_behind(void *context) {
    fw_save_async *a = context;
    a->status = fw_checkpoint_write_part(&a->part, a->dir, a->table, &a->share);
    if (a->status != FW_OK) fw_trail_copy(&a->trail);
    atomic_store(&a->done, true);
    return NULL;
}

static fw_status copy_share(fw_save_async *a) {
    for (int array = 0; array < FW_CHECKPOINT_ARRAY_N; array++)
        for (int32_t unit = 0; unit < a->table->unit_n; unit++)
            if (a->range[unit].n > 0)
                FW_TRY(fw_shard_read_own(a->shard, fw_saved_array((fw_checkpoint_array)array), unit,
                                         a->range[unit].first_n, a->range[unit].n,
                                         a->values + array * a->n + a->at_n[unit]));
    return FW_OK;
}

fw_status fw_save_async_start(fw_save_async *a, const char *dir) {
    FW_ASSERT(!a->running);
    FW_TRY(copy_share(a));
    a->dir = dir;
    a->part = NULL;
    atomic_store(&a->done, false);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (a->cpu_n > 0) { /* the caller is pinned to one CPU, where it computes */
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        for (int i = 0; i < a->cpu_n; i++) CPU_SET((size_t)(a->cpu_first + i), &cpus);
        pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    }
    int reason = pthread_create(&a->thread, &attributes, write_behind, a);
    if (reason != 0) reason = pthread_create(&a->thread, NULL, write_behind, a); /* the CPUs were not to be had */
    pthread_attr_destroy(&attributes);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "cannot start the thread that saves: %s", strerror(reason));
    a->running = true;
    return FW_OK;
}

bool fw_save_async_is_running(const fw_save_async *a) { return a->running; }
bool fw_save_async_is_done(const fw_save_async *a) { return atomic_load(&a->done); }

fw_status fw_save_async_wait(fw_save_async *a, json_t **part) {
    FW_ASSERT(a->running);
    pthread_join(a->thread, NULL);
    a->running = false;
    *part = a->part;
    a->part = NULL;
    if (a->status != FW_OK) fw_trail_restore(&a->trail);
    return a->status;
}
