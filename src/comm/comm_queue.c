/* Started collectives and the thread that works on them, in the order in which they were started. */
#include "base/host.h"
#include "comm/comm_internal.h"

#include <signal.h>
#include <string.h>

static _Atomic uint64_t fail_at, fail_counter;

void fw_comm_fail_at(uint64_t n) {
    atomic_store(&fail_counter, 0);
    atomic_store(&fail_at, n);
}

const char *fw_comm_kind_name(fw_comm_kind kind) {
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
    return (unsigned)kind < FW_COMM_KIND_N ? names[kind] : "unknown";
}

/* The formulas of comm.h, with 1/W last so that nothing is lost before the final rounding. */
static void count(fw_comm *c, const fw_comm_op *op) {
    uint64_t bytes = (uint64_t)op->n * fw_dtype_bytes(op->dtype), w = (uint64_t)c->options.world, sent = 0;
    int is_root = op->root == c->options.rank;
    switch (op->kind) {
    case FW_COMM_ALL_REDUCE: sent = 2 * (w - 1) * bytes / w; break;
    case FW_COMM_REDUCE_SCATTER:
    case FW_COMM_ALL_GATHER: sent = (w - 1) * bytes / w; break;
    case FW_COMM_BROADCAST: sent = w > 1 && is_root ? bytes : 0; break;
    case FW_COMM_KIND_N: break;
    }
    uint64_t received = op->kind != FW_COMM_BROADCAST ? sent : is_root ? 0 : bytes;
    fw_comm_tally *tally = &c->progress.tally[op->kind];
    atomic_fetch_add_explicit(&tally->call_n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->sent_bytes, sent, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->received_bytes, received, memory_order_relaxed);
}

static fw_status run_one(fw_comm *c, const fw_comm_op *op) {
    fw_progress *p = &c->progress;
    if (fw_failure_is_set(&c->failure)) return fw_failure_report(&c->failure, c->options.rank);
    if (op->injected)
        return fw_fail(FW_ERR_IO, "%s %llu failed (injected by a test)", fw_comm_kind_name(op->kind),
                       (unsigned long long)op->number);
    uint64_t start_ns = fw_host_now_ns();
    fw_status status = c->transport->run(c, op);
    atomic_fetch_add_explicit(&p->busy_ns, fw_host_now_ns() - start_ns, memory_order_relaxed);
    if (status == FW_OK) count(c, op);
    return status;
}

/* Sleeps until there is more to do; 0: stop. */
static int wait_for_work(fw_comm *c, uint64_t done_n) {
    fw_progress *p = &c->progress;
    for (int spin = 0; spin < c->spin_n; spin++) {
        if (atomic_load_explicit(&p->started_n, memory_order_acquire) > done_n) break;
        fw_comm_pause();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->started_n) == done_n && !atomic_load(&p->stop)) pthread_cond_wait(&p->work, &p->lock);
    int goes_on = !atomic_load(&p->stop);
    pthread_mutex_unlock(&p->lock);
    return goes_on;
}

static void *work(void *argument) {
    fw_comm *c = argument;
    fw_progress *p = &c->progress;
    for (uint64_t done_n = 0; wait_for_work(c, done_n); done_n++) {
        fw_status status = run_one(c, &p->op[done_n % FW_COMM_QUEUE_N]);
        if (status != FW_OK && !atomic_load(&p->stop)) fw_comm_abort(c, status);
        pthread_mutex_lock(&p->lock);
        if (status == FW_OK)
            atomic_store(&p->done_n, done_n + 1);
        else
            atomic_store(&p->failed, 1);
        pthread_cond_broadcast(&p->finished);
        pthread_mutex_unlock(&p->lock);
        if (status != FW_OK) return NULL;
    }
    return NULL;
}

fw_status fw_progress_start(fw_comm *c) {
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&c->progress.thread, NULL, work, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "could not start the communication thread: %s", strerror(reason));
    c->progress.thread_runs = 1;
    return FW_OK;
}

void fw_progress_stop(fw_comm *c) {
    fw_progress *p = &c->progress;
    if (!p->thread_runs) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, 1);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    c->transport->wake(c);
    pthread_join(p->thread, NULL);
    p->thread_runs = 0;
}

/* Sleeps on `finished` until done_n reaches `until`; 0 when it never will. Holds the lock. */
static int wait_until_done(fw_progress *p, uint64_t until) {
    while (atomic_load(&p->done_n) < until && !atomic_load(&p->failed)) pthread_cond_wait(&p->finished, &p->lock);
    return atomic_load(&p->done_n) >= until;
}

static fw_status start(fw_comm *c, fw_comm_op op, fw_comm_request *request) {
    fw_progress *p = &c->progress;
    uint64_t number = atomic_load(&p->started_n) + 1; /* one caller's thread starts collectives */
    op.number = number;
    op.injected = atomic_fetch_add(&fail_counter, 1) + 1 == atomic_load(&fail_at);
    request->ticket = number;
    atomic_store(&c->agree_origin, -1); /* the job goes on */
    if (fw_failure_is_set(&c->failure)) return fw_failure_report(&c->failure, c->options.rank);
    if (c->transport->runs_inline) {
        fw_status status = run_one(c, &op);
        if (status != FW_OK) fw_comm_abort(c, status);
        atomic_store(&p->started_n, number);
        if (status == FW_OK) atomic_store(&p->done_n, number);
        return status;
    }
    pthread_mutex_lock(&p->lock);
    int room = number <= FW_COMM_QUEUE_N || wait_until_done(p, number - FW_COMM_QUEUE_N);
    if (room) {
        p->op[(number - 1) % FW_COMM_QUEUE_N] = op;
        atomic_store_explicit(&p->started_n, number, memory_order_release);
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
    return room ? FW_OK : fw_failure_report(&c->failure, c->options.rank);
}

static fw_status check(const fw_comm *c, fw_comm_kind kind, int64_t n, fw_dtype dtype) {
    const char *name = fw_comm_kind_name(kind);
    if (dtype != FW_F32 && dtype != FW_BF16)
        return fw_fail(FW_ERR_INTERNAL, "%s of %s: only fp32 and bf16 are summed and gathered", name,
                       fw_dtype_name(dtype));
    if (n < 0 || n > INT64_MAX / 8) return fw_fail(FW_ERR_INTERNAL, "%s of %lld elements", name, (long long)n);
    if (kind != FW_COMM_ALL_REDUCE && n % c->options.world != 0)
        return fw_fail(FW_ERR_INTERNAL, "%s of %lld elements cannot be split evenly over %d ranks", name, (long long)n,
                       c->options.world);
    return FW_OK;
}

fw_status fw_comm_all_reduce(fw_comm *c, void *buffer, int64_t n, fw_dtype dtype, fw_comm_request *request) {
    FW_TRY(check(c, FW_COMM_ALL_REDUCE, n, dtype));
    return start(c, (fw_comm_op){.kind = FW_COMM_ALL_REDUCE, .dtype = dtype, .n = n, .buffer = buffer}, request);
}

fw_status fw_comm_reduce_scatter(fw_comm *c, void *out, const void *buffer, int64_t n, fw_dtype dtype,
                                 fw_comm_request *request) {
    FW_TRY(check(c, FW_COMM_REDUCE_SCATTER, n, dtype));
    fw_comm_op op = {
        .kind = FW_COMM_REDUCE_SCATTER, .dtype = dtype, .n = n, .buffer = (void *)(uintptr_t)buffer, .part = out};
    return start(c, op, request);
}

fw_status fw_comm_all_gather(fw_comm *c, void *buffer, const void *part, int64_t n, fw_dtype dtype,
                             fw_comm_request *request) {
    FW_TRY(check(c, FW_COMM_ALL_GATHER, n, dtype));
    fw_comm_op op = {
        .kind = FW_COMM_ALL_GATHER, .dtype = dtype, .n = n, .buffer = buffer, .part = (void *)(uintptr_t)part};
    return start(c, op, request);
}

fw_status fw_comm_broadcast(fw_comm *c, void *buffer, size_t bytes, int root, fw_comm_request *request) {
    if (root < 0 || root >= c->options.world || bytes > INT64_MAX / 8)
        return fw_fail(FW_ERR_INTERNAL, "broadcast of %zu bytes from rank %d of %d", bytes, root, c->options.world);
    fw_comm_op op = {.kind = FW_COMM_BROADCAST, .dtype = FW_U8, .root = root, .n = (int64_t)bytes, .buffer = buffer};
    return start(c, op, request);
}

fw_status fw_comm_wait(fw_comm *c, fw_comm_request *request) {
    fw_progress *p = &c->progress;
    uint64_t ticket = request->ticket;
    if (atomic_load_explicit(&p->done_n, memory_order_acquire) >= ticket) return FW_OK;
    uint64_t start_ns = fw_host_now_ns();
    int done = 0;
    if (!c->transport->runs_inline) {
        for (int spin = 0; spin < c->spin_n && !done; spin++) {
            done = atomic_load_explicit(&p->done_n, memory_order_acquire) >= ticket;
            fw_comm_pause();
        }
        pthread_mutex_lock(&p->lock);
        done = wait_until_done(p, ticket);
        pthread_mutex_unlock(&p->lock);
    }
    atomic_fetch_add_explicit(&p->wait_ns, fw_host_now_ns() - start_ns, memory_order_relaxed);
    return done ? FW_OK : fw_failure_report(&c->failure, c->options.rank);
}
