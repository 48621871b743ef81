#include "base/threads.h"

#include "base/alloc.h"
#include "base/host.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { SPINS_BEFORE_SLEEP = 2000 };

struct fw_threads {
    int thread_n;
    int started_n; /* threads to join */
    pthread_t *thread;
    struct worker {
        fw_threads *pool;
        int index;
    } * worker;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    _Atomic uint64_t round; /* goes up by one for each run; UINT64_MAX: stop */
    _Atomic int busy_n;     /* workers that have not finished this round */
    fw_threads_fn fn;
    void *context;
    cpu_set_t cpus; /* of all threads, when they are pinned */
    bool pinned;
};

static uint64_t wait_for_round(fw_threads *pool, uint64_t seen) {
    for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
        uint64_t round = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (round != seen) return round;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&pool->lock);
    uint64_t round;
    while ((round = atomic_load_explicit(&pool->round, memory_order_acquire)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return round;
}

static void *work(void *argument) {
    struct worker *me = argument;
    fw_threads *pool = me->pool;
    uint64_t seen = 0;
    while ((seen = wait_for_round(pool, seen)) != UINT64_MAX) {
        pool->fn(pool->context, me->index, pool->thread_n);
        if (atomic_fetch_sub_explicit(&pool->busy_n, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->finished);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

static void pin(pthread_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    pthread_setaffinity_np(thread, sizeof set, &set); /* a wish: being refused costs speed only */
}

fw_status fw_threads_create(fw_threads **out, int thread_n, const int *cpus) {
    *out = NULL;
    FW_ASSERT(thread_n >= 1);
    fw_threads *pool;
    fw_status status;
    FW_TRY(FW_NEW(pool));
    pool->thread_n = thread_n;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->finished, NULL);
    FW_TRY_OR(FW_NEW_ARRAY(pool->thread, (size_t)thread_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(pool->worker, (size_t)thread_n), fail);
    CPU_ZERO(&pool->cpus);
    pool->pinned = cpus != NULL;
    for (int i = 0; i < thread_n && cpus != NULL; i++) CPU_SET((size_t)cpus[i], &pool->cpus);
    if (cpus != NULL) pin(pthread_self(), cpus[0]);
    for (int i = 1; i < thread_n; i++) {
        pool->worker[i] = (struct worker){pool, i};
        int reason = pthread_create(&pool->thread[i], NULL, work, &pool->worker[i]);
        if (reason != 0) {
            status = fw_fail(FW_ERR_NOMEM, "could not start thread %d of %d: %s", i + 1, thread_n, strerror(reason));
            goto fail;
        }
        pool->started_n++;
        if (cpus != NULL) pin(pool->thread[i], cpus[i]);
    }
    *out = pool;
    return FW_OK;
fail:
    fw_threads_destroy(pool);
    return status;
}

fw_status fw_threads_create_for_host(fw_threads **out) {
    enum { CPU_CAP = 4096 };
    int cpus[CPU_CAP];
    return fw_threads_create(out, fw_host_cpus(cpus, CPU_CAP), NULL);
}

void fw_threads_destroy(fw_threads *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->round, UINT64_MAX);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started_n; i++) pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    fw_free(pool->thread);
    fw_free(pool->worker);
    fw_free(pool);
}

int fw_threads_n(const fw_threads *pool) { return pool == NULL ? 1 : pool->thread_n; }

void fw_threads_run(fw_threads *pool, fw_threads_fn fn, void *context) {
    if (pool == NULL || pool->thread_n == 1) {
        fn(context, 0, 1);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    atomic_store_explicit(&pool->busy_n, pool->thread_n - 1, memory_order_relaxed);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    fn(context, 0, pool->thread_n);
    for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++)
        if (atomic_load_explicit(&pool->busy_n, memory_order_acquire) == 0) return;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->busy_n, memory_order_acquire) != 0)
        pthread_cond_wait(&pool->finished, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void fw_threads_spread(const fw_threads *pool, pthread_t thread) {
    if (pool != NULL && pool->pinned) pthread_setaffinity_np(thread, sizeof pool->cpus, &pool->cpus);
}

void fw_threads_split(int64_t *first, int64_t *last, int64_t total, int64_t grain, int index, int thread_n) {
    int64_t grains = (total + grain - 1) / grain;
    int64_t a = grains * index / thread_n * grain, b = grains * (index + 1) / thread_n * grain;
    *first = a < total ? a : total;
    *last = b < total ? b : total;
}
