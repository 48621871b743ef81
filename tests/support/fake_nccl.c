#include "support/fake_nccl.h"

#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { SLOT_N = 32, RANK_N = 8, STEP_N = 32768, WORK_N = 256, BUSY_LOOKS = 2, BLOCK_N = 16 };

/* Shared by the ranks: the meeting place of one link each. */
typedef struct slot {
    _Atomic int32_t key[3]; /* parent's slot + 1, number of the split, color */
    _Atomic uint64_t arrived_n;
    float stage[RANK_N][STEP_N];
} slot;
typedef struct board {
    pthread_mutex_t lock;
    int slot_n;
    slot slot[SLOT_N];
} board;
static board *shared;

struct fw_nccl_link {
    fw_nccl_gpu *gpu;
    slot *at;
    int rank, world, split_n;
    uint64_t barrier_n;
    int busy_n;
    int handle_n;
    _Atomic int aborted;
};

/* A collective, or a mark when link is NULL. */
typedef struct work {
    fw_nccl_link *link;
    fw_nccl_call call;
    int mark;
} work;

struct fw_nccl_gpu {
    pthread_t stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work item[WORK_N];
    uint64_t put_n, done_n;
    uint64_t mark_at[FW_NCCL_MARK_N], await_n; /* how much must be done */
    int stop;
};
static fw_nccl_gpu *this_gpu;
static struct { char *first, *end; } block[BLOCK_N];
static _Atomic int aborted_n;
static fw_fake_nccl_fault fault;

void fw_fake_nccl_break(fw_fake_nccl_fault now) { fault = now; }

static void nap_us(long us) { nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); }

int fw_fake_nccl_reset(void) {
    if (shared != NULL) munmap(shared, sizeof *shared);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    pthread_mutexattr_t between;
    pthread_mutexattr_init(&between);
    pthread_mutexattr_setpshared(&between, PTHREAD_PROCESS_SHARED);
    return pthread_mutex_init(&shared->lock, &between);
}

int fw_fake_nccl_aborted(void) { return atomic_load(&aborted_n); }

/* ---- the stream ---- */

static int meet(fw_nccl_link *l) {
    const uint64_t wanted = ++l->barrier_n * (uint64_t)l->world;
    atomic_fetch_add(&l->at->arrived_n, 1);
    while (atomic_load(&l->at->arrived_n) < wanted) {
        if (atomic_load(&l->aborted)) return 0;
        nap_us(50);
    }
    return 1;
}

static float get(const void *p, int64_t i, fw_dtype t) {
    return t == FW_F32    ? ((const float *)p)[i]
           : t == FW_BF16 ? fw_bf16_to_f32(((const fw_bf16 *)p)[i])
                          : (float)((const unsigned char *)p)[i];
}
static void put(void *p, int64_t i, fw_dtype t, float x) {
    if (t == FW_F32) ((float *)p)[i] = x;
    if (t == FW_BF16) ((fw_bf16 *)p)[i] = fw_bf16_from_f32(x);
    if (t == FW_U8) ((unsigned char *)p)[i] = (unsigned char)x;
}

/* Elements [first, first + n) of the whole buffer: all ranks put theirs down, meet, and take what is for them. */
static int step(fw_nccl_link *l, const fw_nccl_call *c, int64_t first, int64_t n) {
    const int64_t part_n = c->n / l->world, own = l->rank * part_n;
    const int gathers = c->kind == FW_NCCL_ALL_GATHER, scatters = c->kind == FW_NCCL_REDUCE_SCATTER;
    const int64_t from = own > first ? own : first, to = own + part_n < first + n ? own + part_n : first + n;
    float(*stage)[STEP_N] = l->at->stage, result[STEP_N];
    while (fault == FW_FAKE_NCCL_HANGS && !atomic_load(&l->aborted)) nap_us(500);
    if (gathers)
        for (int64_t i = from; i < to; i++) stage[0][i - first] = get(c->part, i - own, c->dtype);
    else
        for (int64_t i = 0; i < n; i++) stage[l->rank][i] = get(c->buffer, first + i, c->dtype);
    if (!meet(l)) return 0;
    for (int64_t i = 0; i < n && c->kind == FW_NCCL_ALL_TO_ALL; i++) { /* what is for this rank, of each other's step */
        const int64_t at = first + i - own;
        for (int r = 0; r < l->world && at >= 0 && at < part_n; r++)
            put(c->part, r * part_n + at, c->dtype, stage[r][i]);
    }
    if (c->kind == FW_NCCL_ALL_TO_ALL) return meet(l);
    memcpy(result, stage[c->kind == FW_NCCL_BROADCAST ? c->root : 0], sizeof result);
    for (int r = 1; r < l->world && (scatters || c->kind == FW_NCCL_ALL_REDUCE); r++)
        for (int64_t i = 0; i < n; i++) result[i] += stage[r][i];
    if (fault == FW_FAKE_NCCL_WRONG) result[n - 1] += 1;
    if (scatters)
        for (int64_t i = from; i < to; i++) put(c->part, i - own, c->dtype, result[i - first]);
    else
        for (int64_t i = 0; i < n; i++) put(c->buffer, first + i, c->dtype, result[i]);
    return meet(l);
}

static void *stream(void *argument) {
    fw_nccl_gpu *g = argument;
    pthread_mutex_lock(&g->lock);
    while (!g->stop || g->done_n < g->put_n) {
        if (g->done_n == g->put_n) {
            pthread_cond_wait(&g->changed, &g->lock);
            continue;
        }
        const work w = g->item[g->done_n % WORK_N];
        pthread_mutex_unlock(&g->lock);
        for (int64_t at = 0; w.link != NULL && at < w.call.n; at += STEP_N)
            if (!step(w.link, &w.call, at, w.call.n - at < STEP_N ? w.call.n - at : STEP_N)) break;
        pthread_mutex_lock(&g->lock);
        g->done_n++;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static void put_work(fw_nccl_gpu *g, work w) {
    pthread_mutex_lock(&g->lock);
    while (g->put_n - g->done_n == WORK_N) pthread_cond_wait(&g->changed, &g->lock);
    g->item[g->put_n++ % WORK_N] = w;
    if (w.link == NULL) g->mark_at[w.mark] = g->put_n;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void wait_until(fw_nccl_gpu *g, uint64_t n) {
    pthread_mutex_lock(&g->lock);
    while (g->done_n < n) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* ---- the table ---- */

static int version(void) { return 29999; }

static fw_status open_gpu(fw_nccl_gpu **out, const fw_gpu *gpu) {
    (void)gpu;
    FW_TRY(FW_NEW(*out));
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->changed, NULL);
    this_gpu = *out;
    return pthread_create(&(*out)->stream, NULL, stream, *out) == 0 ? FW_OK : FW_ERR_NOMEM;
}
static void close_gpu(fw_nccl_gpu *g) {
    if (g == NULL) return;
    pthread_mutex_lock(&g->lock);
    g->stop = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->stream, NULL);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    this_gpu = NULL;
    fw_free(g);
}
static int on_gpu(const fw_nccl_gpu *g, const void *p) {
    (void)g;
    for (int i = 0; i < BLOCK_N; i++)
        if ((const char *)p >= block[i].first && (const char *)p < block[i].end) return 1;
    return 0;
}
static void describe_peers(const fw_nccl_gpu *g, char *text, size_t text_bytes) {
    (void)g;
    snprintf(text, text_bytes, "all pairs");
}

/* The meeting place for this key, the same for every rank that comes with it. */
static slot *find_slot(int32_t a, int32_t b, int32_t c) {
    slot *found = NULL;
    pthread_mutex_lock(&shared->lock);
    for (int i = 0; i < shared->slot_n && found == NULL; i++) {
        slot *s = &shared->slot[i];
        if (s->key[0] == a && s->key[1] == b && s->key[2] == c) found = s;
    }
    if (found == NULL && shared->slot_n < SLOT_N) {
        found = &shared->slot[shared->slot_n++];
        found->key[0] = a;
        found->key[1] = b;
        found->key[2] = c;
    }
    pthread_mutex_unlock(&shared->lock);
    return found;
}

static fw_status make_id(unsigned char id[FW_NCCL_ID_BYTES]) {
    memset(id, 7, FW_NCCL_ID_BYTES);
    return FW_OK;
}
static fw_status make_link(fw_nccl_link **out, fw_nccl_gpu *g, slot *at, int rank, int world) {
    *out = NULL;
    if (at == NULL) return fw_fail(FW_ERR_INTERNAL, "the fake has no more slots");
    FW_TRY(FW_NEW(*out));
    (*out)->gpu = g;
    (*out)->at = at;
    (*out)->rank = rank;
    (*out)->world = world;
    (*out)->busy_n = BUSY_LOOKS;
    return FW_OK;
}
static fw_status open_link(fw_nccl_link **out, fw_nccl_gpu *g, const unsigned char id[FW_NCCL_ID_BYTES], int rank,
                           int world) {
    if (id[FW_NCCL_ID_BYTES - 1] != 7) return fw_fail(FW_ERR_RANK, "the id did not arrive");
    return make_link(out, g, find_slot(0, 0, 0), rank, world);
}
/* The size of a group is not told: the fake counts who comes. */
static fw_status split(fw_nccl_link **out, fw_nccl_link *parent, int color, int key) {
    slot *at = find_slot((int32_t)(parent->at - shared->slot) + 1, ++parent->split_n, color);
    FW_TRY(make_link(out, parent->gpu, at, key, 0));
    atomic_fetch_add(&at->arrived_n, 1);
    parent->busy_n = BUSY_LOOKS;
    if (!meet(parent)) return fw_fail(FW_ERR_RANK, "aborted while splitting");
    (*out)->world = (int)atomic_load(&at->arrived_n);
    if (!meet(parent)) return fw_fail(FW_ERR_RANK, "aborted while splitting");
    if (key == 0) atomic_store(&at->arrived_n, 0);
    if (!meet(parent)) return fw_fail(FW_ERR_RANK, "aborted while splitting");
    return FW_OK;
}
static fw_status check(fw_nccl_link *l, int *busy) {
    *busy = l->busy_n > 0;
    if (l->busy_n > 0) l->busy_n--;
    return atomic_load(&l->aborted) ? fw_fail(FW_ERR_RANK, "the fake was aborted") : FW_OK;
}
static void abort_link(fw_nccl_link *l) {
    atomic_store(&l->aborted, 1);
    atomic_fetch_add(&aborted_n, 1);
}
static void close_link(fw_nccl_link *l, int orderly) {
    if (l == NULL) return;
    if (!orderly) atomic_store(&l->aborted, 1);
    wait_until(l->gpu, l->gpu->put_n);
    fw_free(l);
}
static fw_status start(fw_nccl_link *l, const fw_nccl_call *call) {
    if (l->busy_n > 0 || atomic_load(&l->aborted)) return fw_fail(FW_ERR_RANK, "a start on a busy or aborted link");
    l->busy_n = BUSY_LOOKS;
    put_work(l->gpu, (work){.link = l, .call = *call});
    return FW_OK;
}
static fw_status set_mark(fw_nccl_gpu *g, int m) {
    put_work(g, (work){.mark = m});
    return FW_OK;
}
static fw_status passed(fw_nccl_gpu *g, int m, int *yes) {
    pthread_mutex_lock(&g->lock);
    *yes = g->done_n >= g->mark_at[m];
    pthread_mutex_unlock(&g->lock);
    return FW_OK;
}
static fw_status await(fw_nccl_gpu *g, int m) {
    pthread_mutex_lock(&g->lock);
    if (g->mark_at[m] > g->await_n) g->await_n = g->mark_at[m];
    pthread_mutex_unlock(&g->lock);
    return FW_OK;
}
static fw_status alloc(fw_nccl_gpu *g, void **out, size_t bytes) {
    (void)g;
    int i = 0;
    while (i < BLOCK_N && block[i].first != NULL) i++;
    *out = i < BLOCK_N ? aligned_alloc(4096, (bytes + 4096) / 4096 * 4096) : NULL;
    if (*out == NULL) return fw_fail(FW_ERR_FIT, "no memory");
    memset(*out, 0, bytes);
    block[i].first = *out;
    block[i].end = block[i].first + bytes;
    return FW_OK;
}
static void release(fw_nccl_gpu *g, void *memory) {
    if (memory == NULL) return;
    wait_until(g, g->put_n);
    for (int i = 0; i < BLOCK_N; i++)
        if (block[i].first == memory) block[i].first = block[i].end = NULL;
    free(memory);
}
static fw_status enlist(fw_nccl_link *l, void *memory, size_t bytes, void **handle) {
    (void)bytes;
    *handle = memory;
    l->handle_n++;
    l->busy_n = BUSY_LOOKS;
    return FW_OK;
}
static void delist(fw_nccl_link *l, void *handle) { l->handle_n -= handle != NULL; }

const fw_nccl_plugin *fw_fake_nccl(void) {
    static const fw_nccl_plugin plugin = {.version = version,
                                          .open_gpu = open_gpu,
                                          .close_gpu = close_gpu,
                                          .on_gpu = on_gpu,
                                          .describe_peers = describe_peers,
                                          .make_id = make_id,
                                          .open = open_link,
                                          .split = split,
                                          .check = check,
                                          .abort = abort_link,
                                          .close = close_link,
                                          .start = start,
                                          .mark = set_mark,
                                          .passed = passed,
                                          .await = await,
                                          .alloc = alloc,
                                          .release = release,
                                          .enlist = enlist,
                                          .delist = delist};
    return &plugin;
}

/* ---- the device ---- */

/* As on a GPU: what comes after an awaited mark sees the collective's result. */
static fw_status copy(fw_device *d, void *y, const void *x, size_t bytes) {
    (void)d;
    if (this_gpu != NULL) wait_until(this_gpu, this_gpu->await_n);
    memmove(y, x, bytes);
    return FW_OK;
}

fw_status fw_fake_gpu_create(fw_device **out, int index) {
    static fw_device_ops ops;
    static fw_gpu gpu;
    static const char *const buses[] = {"17", "65", "ca", "e3"}; /* those of the stand-in for NVML */
    static fw_device *volatile kept; /* the process ends with it: it must outlive the group, which the harness closes */
    FW_TRY(fw_device_create(out, "ref", NULL));
    kept = *out;
    (void)kept;
    ops = *(*out)->ops;
    ops.copy = copy;
    gpu = (fw_gpu){.index = index, .gpu_n = index + 1, .name = "fake"};
    snprintf(gpu.id, sizeof gpu.id, "gpu-%d", index);
    snprintf(gpu.pci_id, sizeof gpu.pci_id, "0000:%s:00.0", buses[index % 4]);
    (*out)->ops = &ops;
    (*out)->gpu = &gpu;
    (*out)->on_host = 0;
    return FW_OK;
}
