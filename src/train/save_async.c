#include "train/save_async.h"

#include "base/alloc.h"
#include "base/trace.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* SLACK_N: elements of a unit, what rounding a part to whole blocks, twice, may add.
 * CHUNK_BYTES: copied at a time; an update waits for one at most that the other thread is at. */
enum { SLACK_N = 3 * FW_STATE_BLOCK_N, LINE_BYTES = 64, CHUNK_BYTES = 1 << 20 };

/* A part of the copy. Whoever turns it from WAITING to TAKEN copies it. */
enum { COPIED, WAITING, TAKEN };
typedef struct chunk {
    const char *from;
    size_t at, bytes;
    atomic_int state;
} chunk;

struct fw_save_async {
    fw_shard *shard;
    const fw_param_table *table;
    fw_optimizer optimizer;
    fw_checkpoint_range *range; /* [unit_n], what this rank writes of each unit */
    size_t *at_bytes;           /* [param_n], where that of a parameter lies in the copy: all its arrays in turn */
    char *copy;
    chunk *chunk;        /* what lies in memory, in the order of units; where they are is the same all the time */
    size_t *chunk_first; /* [unit_n + 1] */
    fw_checkpoint_share share;
    fw_threads *threads;
    fw_behind writing;
    const char *dir;
    fw_behind_fn also;
    void *also_context;
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

/* The chunks of an array of a parameter, into c unless it is NULL; returns how many. */
static size_t cut(chunk *c, const fw_save_async *a, int32_t param, int k) {
    size_t at, value_bytes, n = 0;
    const fw_checkpoint_range r = saved(a, param, k, &at, &value_bytes);
    const char *from = r.n == 0 ? NULL : (const char *)in_place(a, param, k, r.first_n);
    if (from == NULL) return 0;
    const size_t bytes = (size_t)r.n * value_bytes;
    for (size_t done = 0; done < bytes; done += CHUNK_BYTES, n++)
        if (c != NULL) {
            c[n].from = from + done;
            c[n].at = at + done;
            c[n].bytes = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        }
    return n;
}

/* Those of all units, in their order; also says where each unit's begin. */
static size_t cut_all(chunk *c, const fw_save_async *a) {
    size_t n = 0;
    for (int32_t unit = 0; unit < a->table->unit_n; unit++) {
        a->chunk_first[unit] = n;
        for (int32_t i = a->table->unit_first[unit]; i < a->table->unit_first[unit + 1]; i++)
            for (int k = 0; k < arrays_of(a, i); k++) n += cut(c == NULL ? NULL : c + n, a, i, k);
    }
    return a->chunk_first[a->table->unit_n] = n;
}

typedef struct chunks {
    fw_save_async *a;
    size_t first, last;
} chunks;

static void copy_chunks(void *context, int index, int thread_n) {
    const chunks *of = context;
    (void)index;
    (void)thread_n;
    for (size_t i = of->first; i < of->last; i++) {
        chunk *c = &of->a->chunk[i];
        int waiting = WAITING;
        if (!atomic_compare_exchange_strong(&c->state, &waiting, TAKEN)) continue;
        memcpy(of->a->copy + c->at, c->from, c->bytes);
        atomic_store(&c->state, COPIED);
    }
}

/* For one that is TAKEN it takes a fraction of a millisecond, or longer where the other has no CPU. */
static void wait_for_chunks(const chunks *of) {
    const struct timespec nap = {.tv_nsec = 50000};
    for (size_t i = of->first; i < of->last; i++)
        while (atomic_load(&of->a->chunk[i].state) != COPIED) nanosleep(&nap, NULL);
}

/* The unit is about to change. */
static void finish_unit(void *context, int32_t unit) {
    fw_save_async *a = context;
    chunks of = {a, a->chunk_first[unit], a->chunk_first[unit + 1]};
    if (!fw_behind_is_started(&a->writing)) return;
    const uint64_t start_ns = fw_trace_now();
    while (of.first < of.last && atomic_load(&a->chunk[of.first].state) == COPIED) of.first++;
    if (of.first == of.last) return;
    fw_threads_run(a->threads, copy_chunks, &of);
    wait_for_chunks(&of);
    fw_trace_since(FW_TRACE_HOST, "copy for a save", start_ns);
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
    FW_TRY_OR(FW_NEW_ARRAY(a->chunk_first, (size_t)table->unit_n + 1), fail);
    const fw_shard_layout *l = fw_shard_layout_of(shard);
    a->optimizer = l->options.optimizer;
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        fw_shard_saved_range(l, rank, unit, &a->range[unit].first_n, &a->range[unit].n);
    const size_t bytes = fw_save_async_bytes(table, a->optimizer, world);
    FW_ASSERT(lay_out(a) <= bytes);
    FW_TRY_OR(FW_NEW_ARRAY(a->chunk, cut_all(NULL, a)), fail);
    cut_all(a->chunk, a);
    FW_TRY_OR(FW_NEW_ARRAY(a->copy, bytes), fail);
    memset(a->copy, 1, bytes); /* the pages are there from now on, not only when it is too late */
    a->share = (fw_checkpoint_share){fw_shard_saved_place(l, rank), world, a->range, NULL, a, view_copy, a->optimizer};
    fw_shard_set_update_hook(shard, finish_unit, a);
    *out = a;
    return FW_OK;
fail:
    fw_save_async_destroy(a);
    return status;
}

void fw_save_async_destroy(fw_save_async *a) {
    if (a == NULL) return;
    fw_behind_wait(&a->writing);
    fw_shard_set_update_hook(a->shard, NULL, NULL);
    json_decref(a->part);
    fw_free(a->copy);
    fw_free(a->chunk);
    fw_free(a->chunk_first);
    fw_free(a->at_bytes);
    fw_free(a->range);
    fw_free(a);
}

static fw_status write_copy(void *context) {
    fw_save_async *a = context;
    chunks all = {a, 0, a->chunk_first[a->table->unit_n]};
    copy_chunks(&all, 0, 1);
    wait_for_chunks(&all);
    if (a->also != NULL) FW_TRY(a->also(a->also_context));
    return fw_checkpoint_write_part(&a->part, a->dir, a->table, &a->share);
}

/* What does not lie in memory: the training waits for it. */
static fw_status read_the_rest(fw_save_async *a) {
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

fw_status fw_save_async_start(fw_save_async *a, const char *dir, fw_behind_fn also, void *context) {
    FW_TRY(read_the_rest(a));
    a->dir = dir;
    a->also = also;
    a->also_context = context;
    a->part = NULL;
    for (size_t i = 0; i < a->chunk_first[a->table->unit_n]; i++) atomic_store(&a->chunk[i].state, WAITING);
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
