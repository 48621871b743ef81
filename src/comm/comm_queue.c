/* Started collectives, of all groups of the job, in the order in which they were started. One at a time is worked on:
 * by the background thread, or by a caller who waits for it and finds it untouched.
 *
 * To wake a thread costs more than a small collective. So for some milliseconds after there was something to do the
 * thread does not sleep until it is called, but looks again and again; meanwhile a small collective is left to whoever
 * comes first, the caller who waits or the thread that looks. */
#include "base/host.h"
#include "base/trace.h"
#include "comm/comm_internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static _Atomic uint64_t fail_at, fail_counter;

void fw_comm_fail_at(uint64_t n) {
    atomic_store(&fail_counter, 0);
    atomic_store(&fail_at, n);
}

const char *fw_comm_kind_name(fw_comm_kind kind) {
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"};
    return (unsigned)kind < FW_COMM_KIND_N ? names[kind] : "unknown";
}

/* The formulas of comm.h, with 1/W last so that nothing is lost before the final rounding. */
static void count(fw_comm *c, const fw_comm_op *op) {
    uint64_t bytes = (uint64_t)op->n * fw_dtype_bytes(op->dtype), w = (uint64_t)c->options.world, sent = 0;
    int is_root = op->root == c->options.rank;
    switch (op->kind) {
    case FW_COMM_ALL_REDUCE: sent = 2 * (w - 1) * bytes / w; break;
    case FW_COMM_REDUCE_SCATTER:
    case FW_COMM_ALL_GATHER:
    case FW_COMM_ALL_TO_ALL: sent = (w - 1) * bytes / w; break;
    case FW_COMM_BROADCAST: sent = w > 1 && is_root ? bytes : 0; break;
    case FW_COMM_KIND_N: break;
    }
    uint64_t received = op->kind != FW_COMM_BROADCAST ? sent : is_root ? 0 : bytes;
    fw_comm_tally *tally = &c->tally[op->kind];
    atomic_fetch_add_explicit(&tally->call_n, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->sent_bytes, sent, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->received_bytes, received, memory_order_relaxed);
}

static void trace(fw_trace_lane lane, const char *kind, const char *label, uint64_t start_ns, uint64_t end_ns) {
    char name[FW_TRACE_NAME_BYTES];
    snprintf(name, sizeof name, "%s%s%s", kind, label != NULL ? " " : "", label != NULL ? label : "");
    fw_trace_span(lane, name, start_ns, end_ns);
}

static fw_status run_one(const fw_comm_op *op) {
    fw_comm *c = op->comm;
    const char *kind = fw_comm_kind_name(op->kind);
    if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
    if (op->injected) {
        char title[FW_COMM_TITLE_BYTES];
        return fw_fail(FW_ERR_IO, "%s failed (injected by a test)",
                       fw_comm_title(title, c, kind, fw_comm_op_label(op), op->number));
    }
    uint64_t start_ns = fw_host_now_ns();
    fw_status status = c->transport->run(c, op);
    uint64_t end_ns = fw_host_now_ns();
    atomic_fetch_add_explicit(&c->busy_ns, end_ns - start_ns, memory_order_relaxed);
    if (fw_trace_on()) trace(FW_TRACE_COMM, kind, fw_comm_op_label(op), start_ns, end_ns);
    if (status == FW_OK) count(c, op);
    return status;
}

/* Works on the next collective, which there is; the caller holds the lock and has set `taken`. */
static void run_next(fw_job *job) {
    fw_progress *p = &job->progress;
    uint64_t done_n = atomic_load(&p->done_n);
    pthread_mutex_unlock(&p->lock);
    fw_status status = run_one(&p->op[done_n % FW_COMM_QUEUE_N]);
    if (status != FW_OK && !atomic_load(&p->stop)) fw_comm_abort(job->all, status);
    pthread_mutex_lock(&p->lock);
    if (status == FW_OK)
        atomic_store(&p->done_n, done_n + 1);
    else
        atomic_store(&p->failed, 1);
    pthread_cond_broadcast(&p->finished);
}

/* Something to do that nobody does. Holds the lock. */
static int is_free(const fw_progress *p) {
    return !p->taken && !atomic_load(&p->failed) && atomic_load(&p->started_n) > atomic_load(&p->done_n);
}

enum { NAP_NS = 200 * 1000, NAP_N = 25, SMALL_BYTES = 256 << 10 };

/* Until there is something to do, or for a nap. Holds the lock. */
static void rest(fw_progress *p, int *nap_n) {
    if (*nap_n == NAP_N) {
        pthread_cond_wait(&p->work, &p->lock);
        *nap_n = 0;
        return;
    }
    uint64_t end_ns = fw_host_now_ns() + NAP_NS;
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};
    p->naps = 1;
    pthread_cond_timedwait(&p->work, &p->lock, &end);
    p->naps = 0;
    ++*nap_n;
}

static void *work(void *argument) {
    fw_job *job = argument;
    fw_progress *p = &job->progress;
    int nap_n = NAP_N;
    uint64_t started_n = 0;
    pthread_mutex_lock(&p->lock);
    while (!atomic_load(&p->stop) && !atomic_load(&p->failed)) {
        uint64_t now_n = atomic_load(&p->started_n);
        if (now_n != started_n) nap_n = 0;
        started_n = now_n;
        if (!is_free(p)) {
            rest(p, &nap_n);
            continue;
        }
        p->taken = 1;
        run_next(job);
        p->taken = 0;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

fw_status fw_progress_start(fw_job *job) {
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&job->progress.thread, NULL, work, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "could not start the communication thread: %s", strerror(reason));
    job->progress.thread_runs = 1;
    return FW_OK;
}

void fw_progress_stop(fw_job *job) {
    fw_progress *p = &job->progress;
    if (!p->thread_runs) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, 1);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    fw_comm_wake(job);
    pthread_join(p->thread, NULL);
    p->thread_runs = 0;
}

/* Until done_n reaches `until`, helping; 0 when it never will. Holds the lock. */
static int wait_until_done(fw_job *job, uint64_t until) {
    fw_progress *p = &job->progress;
    atomic_store(&p->caller_ticket, until);
    while (atomic_load(&p->done_n) < until && !atomic_load(&p->failed)) {
        if (!is_free(p)) {
            pthread_cond_wait(&p->finished, &p->lock);
            continue;
        }
        p->taken = 1;
        run_next(job);
        p->taken = 0;
    }
    atomic_store(&p->caller_ticket, 0);
    if (is_free(p)) pthread_cond_signal(&p->work); /* what was started after it is the thread's again */
    return atomic_load(&p->done_n) >= until;
}

int fw_progress_is_past(fw_job *job, uint64_t ticket) {
    fw_progress *p = &job->progress;
    if (!p->thread_runs) return 1;
    pthread_mutex_lock(&p->lock);
    int past = atomic_load(&p->done_n) >= ticket || (atomic_load(&p->failed) && !p->taken);
    pthread_mutex_unlock(&p->lock);
    return past;
}

static fw_status start_inline(fw_job *job, const fw_comm_op *op, uint64_t ticket) {
    fw_status status = run_one(op);
    if (status != FW_OK) fw_comm_abort(job->all, status);
    atomic_store(&job->progress.started_n, ticket);
    if (status == FW_OK) atomic_store(&job->progress.done_n, ticket);
    return status;
}

/* All fw_comm_op but comm, label, number and injected is set. One caller's thread starts collectives. */
static fw_status start(fw_comm *c, fw_comm_op op, fw_comm_request *request) {
    fw_job *job = c->job;
    fw_progress *p = &job->progress;
    uint64_t ticket = atomic_load(&p->started_n) + 1;
    op.comm = c;
    if (request->label != NULL) snprintf(op.label, sizeof op.label, "%s", request->label);
    op.number = ++c->started_n;
    op.injected = atomic_fetch_add(&fail_counter, 1) + 1 == atomic_load(&fail_at);
    request->ticket = c->last_ticket = ticket;
    atomic_store(&job->agree_origin, -1); /* the job goes on */
    if (fw_failure_is_set(&job->failure)) return fw_comm_report_failure(c);
    if (job->all->transport->runs_inline) return start_inline(job, &op, ticket);
    pthread_mutex_lock(&p->lock);
    int room = ticket <= FW_COMM_QUEUE_N || wait_until_done(job, ticket - FW_COMM_QUEUE_N);
    if (room) {
        p->op[(ticket - 1) % FW_COMM_QUEUE_N] = op;
        atomic_store_explicit(&p->started_n, ticket, memory_order_release);
        if (!p->naps || (uint64_t)op.n * fw_dtype_bytes(op.dtype) > SMALL_BYTES) pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
    return room ? FW_OK : fw_comm_report_failure(c);
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

fw_status fw_comm_all_to_all(fw_comm *c, void *out, const void *buffer, int64_t n, fw_dtype dtype,
                             fw_comm_request *request) {
    FW_TRY(check(c, FW_COMM_ALL_TO_ALL, n, dtype));
    fw_comm_op op = {
        .kind = FW_COMM_ALL_TO_ALL, .dtype = dtype, .n = n, .buffer = (void *)(uintptr_t)buffer, .part = out};
    return start(c, op, request);
}

fw_status fw_comm_wait(fw_comm *c, fw_comm_request *request) {
    fw_job *job = c->job;
    fw_progress *p = &job->progress;
    if (atomic_load_explicit(&p->done_n, memory_order_acquire) >= request->ticket)
        return c->transport->await != NULL ? c->transport->await(c, request->ticket) : FW_OK;
    uint64_t start_ns = fw_host_now_ns();
    int done = 0;
    if (p->thread_runs) {
        pthread_mutex_lock(&p->lock);
        done = wait_until_done(job, request->ticket);
        pthread_mutex_unlock(&p->lock);
    }
    uint64_t end_ns = fw_host_now_ns();
    atomic_fetch_add_explicit(&c->wait_ns, end_ns - start_ns, memory_order_relaxed);
    if (fw_trace_on()) trace(FW_TRACE_WAIT, "wait", request->label, start_ns, end_ns);
    return done ? FW_OK : fw_comm_report_failure(c);
}
