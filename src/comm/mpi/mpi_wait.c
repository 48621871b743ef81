/* Waiting for messages, with an eye on everything that may be the reason why they do not come. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/mpi/mpi_internal.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A message may be overtaken by the good-bye of its sender, which goes another way. */
static const uint64_t overtaken_ns = 2000 * 1000 * 1000ull;
static const uint64_t sleeps_after_ns = 100 * 1000 * 1000ull;

static int job_rank(const fw_mpi_batch *b, int rank) { return fw_comm_job_rank(b->c, rank); }

/* ---- beginning ---- */

/* The next place of the batch; rank: whom it is to wait for. */
static fw_mpi_request *add(fw_mpi_batch *b, size_t bytes, int rank) {
    FW_ASSERT(b->n < FW_MPI_BATCH_N && bytes <= FW_MPI_MESSAGE_BYTES);
    b->item[b->n].rank = rank;
    return &b->item[b->n++].request;
}

fw_status fw_mpi_send(fw_mpi_batch *b, const void *data, size_t bytes, int rank, int tag) {
    fw_mpi *m = fw_mpi_of(b->c);
    if (bytes == 0) return FW_OK;
    pthread_mutex_lock(&m->lock);
    fw_status status = m->plugin->send(add(b, bytes, -1), data, bytes, job_rank(b, rank), tag);
    pthread_mutex_unlock(&m->lock);
    return status;
}

fw_status fw_mpi_receive(fw_mpi_batch *b, void *data, size_t bytes, int rank, int tag) {
    fw_mpi *m = fw_mpi_of(b->c);
    if (bytes == 0) return FW_OK;
    pthread_mutex_lock(&m->lock);
    fw_status status = m->plugin->receive(add(b, bytes, rank), data, bytes, job_rank(b, rank), tag);
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- notices; all with the lock held ---- */

/* A lost notice costs a good message at most. */
static void post(fw_mpi *m, const fw_mpi_notice *notice, int rank) {
    fw_mpi_letter *letter;
    if (FW_NEW(letter) != FW_OK) return;
    letter->notice = *notice;
    if (m->plugin->send(&letter->request, &letter->notice, sizeof letter->notice, rank, FW_MPI_TAG_NOTICE) != FW_OK) {
        fw_free(letter);
        return;
    }
    letter->next = m->letter;
    m->letter = letter;
}

static fw_status drop_delivered(fw_mpi *m) {
    for (fw_mpi_letter **at = &m->letter; *at != NULL;) {
        fw_mpi_letter *letter = *at;
        FW_TRY(m->plugin->test(&letter->request));
        if (letter->request.pending) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        fw_free(letter);
    }
    return FW_OK;
}

static void take(fw_mpi_peer *peer, fw_mpi_notice *notice) {
    notice->text[sizeof notice->text - 1] = 0;
    if (notice->kind == FW_MPI_WORK_BEGINS)
        snprintf(peer->last_work, sizeof peer->last_work, "%.*s", (int)sizeof peer->last_work - 1, notice->text);
    if (notice->kind == FW_MPI_WORK_BEGINS || notice->kind == FW_MPI_WORK_ENDS)
        peer->works = notice->kind == FW_MPI_WORK_BEGINS;
    else
        peer->sleep = *notice;
}

static fw_status read_notices(fw_mpi *m, int world) {
    for (;;) {
        int from;
        fw_mpi_notice notice;
        fw_mpi_request request = {0};
        FW_TRY(m->plugin->probe(FW_MPI_TAG_NOTICE, &from));
        if (from < 0) return drop_delivered(m);
        FW_TRY(m->plugin->receive(&request, &notice, sizeof notice, from, FW_MPI_TAG_NOTICE));
        while (request.pending) FW_TRY(m->plugin->test(&request)); /* it is there */
        if (from < world) take(&m->peer[from], &notice);
    }
}

void fw_mpi_tell(fw_comm *all, const fw_mpi_notice *notice) {
    fw_mpi *m = fw_mpi_of(all);
    pthread_mutex_lock(&m->lock);
    for (int r = 0; r < all->options.world; r++)
        if (r != all->options.rank) post(m, notice, r);
    pthread_mutex_unlock(&m->lock);
}

/* ---- why somebody does not come ---- */

typedef struct wait {
    fw_mpi_batch *b;
    uint64_t begin_ns;                   /* of waiting */
    uint64_t since_ns;                   /* moved on while a missing rank is at long work of its own */
    uint64_t left_ns[FW_COMM_MAX_WORLD]; /* when its good-bye was seen */
    int told, told_blocks;               /* ASLEEP was sent */
} wait;

static const char *title(char out[FW_COMM_TITLE_BYTES], const fw_mpi_batch *b) {
    return fw_comm_title(out, b->c, b->call, b->label, b->number);
}

static int me_in_job(const fw_mpi_batch *b) { return b->c->job->all->options.rank; }

/* It waits in a collective for a card of this rank, whose caller waits here and has started nothing more. */
static fw_status check_divergence(const wait *w, int rank) {
    const fw_mpi_batch *b = w->b;
    const fw_progress *p = &b->c->job->progress;
    const fw_mpi_peer *peer = &fw_mpi_of(b->c)->peer[job_rank(b, rank)];
    const int idle = b->lane == FW_MPI_SMALL && atomic_load(&p->started_n) == atomic_load(&p->done_n);
    if (!idle || peer->sleep.kind != FW_MPI_ASLEEP || !peer->sleep.blocks_caller) return FW_OK;
    if (peer->sleep.card_n <= peer->card_n) return FW_OK;
    char mine[FW_COMM_TITLE_BYTES];
    return fw_fail(FW_ERR_RANK,
                   "the ranks have diverged: rank %d waits in %s for rank %d, which waits in %.159s for rank %d",
                   me_in_job(b), title(mine, b), job_rank(b, rank), peer->sleep.text, me_in_job(b));
}

static fw_status check_missing(wait *w, int rank, uint64_t now_ns) {
    const fw_mpi_batch *b = w->b;
    const fw_mpi *m = fw_mpi_of(b->c);
    const int r = job_rank(b, rank);
    const fw_mpi_peer *peer = &m->peer[r];
    char name[FW_COMM_TITLE_BYTES];
    if (atomic_load(&b->c->job->left[r])) {
        if (w->left_ns[rank] == 0) w->left_ns[rank] = now_ns;
        if (now_ns - w->left_ns[rank] > overtaken_ns)
            return fw_fail(FW_ERR_RANK, "rank %d has left the job while rank %d waits for it in %s", r, me_in_job(b),
                           title(name, b));
    }
    FW_TRY(check_divergence(w, rank));
    if (peer->works) w->since_ns = now_ns;
    if (now_ns - w->since_ns <= m->timeout_ns) return FW_OK;
    const int sleeps = peer->sleep.kind == FW_MPI_ASLEEP;
    return fw_fail(
        FW_ERR_RANK,
        "rank %d is alive but did not come to %s within %.4g s (ddp_timeout)%s%.159s%s%.59s; do all ranks do "
        "the same steps?",
        r, title(name, b), (double)m->timeout_ns * 1e-9, sleeps ? ", it waits in " : "", sleeps ? peer->sleep.text : "",
        peer->last_work[0] ? ", the last long work it told of was " : "", peer->last_work);
}

/* Those who are missing are told where they are waited for, and again when the caller's thread waits too. */
static void tell_asleep(wait *w) {
    const fw_mpi_batch *b = w->b;
    fw_mpi *m = fw_mpi_of(b->c);
    const int blocks = atomic_load(&b->c->job->progress.caller_ticket) != 0;
    if (b->lane != FW_MPI_DATA || (w->told && w->told_blocks == blocks)) return;
    fw_mpi_notice notice = {.kind = FW_MPI_ASLEEP, .blocks_caller = blocks};
    title(notice.text, b);
    for (int i = 0; i < b->n; i++) {
        if (b->item[i].rank < 0 || !b->item[i].request.pending) continue;
        notice.card_n = m->peer[job_rank(b, b->item[i].rank)].card_n;
        post(m, &notice, job_rank(b, b->item[i].rank));
    }
    w->told = 1;
    w->told_blocks = blocks;
}

static void tell_awake(wait *w) {
    fw_mpi *m = fw_mpi_of(w->b->c);
    const fw_mpi_notice notice = {.kind = FW_MPI_AWAKE};
    if (!w->told) return;
    for (int r = 0; r < w->b->c->options.world; r++)
        if (r != w->b->c->options.rank) post(m, &notice, job_rank(w->b, r));
}

/* ---- waiting ---- */

/* *pending: what is not done yet. Holds the lock. */
static fw_status look(fw_mpi_batch *b, int *pending) {
    *pending = 0;
    for (int i = 0; i < b->n; i++) {
        if (!b->item[i].request.pending) continue;
        FW_TRY(fw_mpi_of(b->c)->plugin->test(&b->item[i].request));
        *pending += b->item[i].request.pending;
    }
    return FW_OK;
}

static fw_status look_long(wait *w, int *pending) {
    fw_mpi_batch *b = w->b;
    FW_TRY(read_notices(fw_mpi_of(b->c), b->c->job->all->options.world));
    FW_TRY(look(b, pending));
    const uint64_t now_ns = fw_host_now_ns();
    if (*pending == 0 || now_ns - w->begin_ns < sleeps_after_ns) return FW_OK;
    tell_asleep(w);
    for (int i = 0; i < b->n; i++)
        if (b->item[i].rank >= 0 && b->item[i].request.pending) FW_TRY(check_missing(w, b->item[i].rank, now_ns));
    return FW_OK;
}

static fw_status check_job(const fw_mpi_batch *b) {
    if (fw_failure_is_set(&b->c->job->failure)) return fw_comm_report_failure(b->c);
    if (b->lane == FW_MPI_DATA && atomic_load(&b->c->job->progress.stop)) {
        char name[FW_COMM_TITLE_BYTES];
        return fw_fail(FW_ERR_RANK, "the group was closed before %s was done", title(name, b));
    }
    return FW_OK;
}

fw_status fw_mpi_finish(fw_mpi_batch *b) {
    fw_mpi *m = fw_mpi_of(b->c);
    wait w = {.b = b};
    w.begin_ns = w.since_ns = fw_host_now_ns();
    int pending = 1;
    for (uint32_t look_n = 0; pending > 0; look_n++) {
        const int is_long = look_n % 64 == 63;
        pthread_mutex_lock(&m->lock);
        fw_status status = is_long ? look_long(&w, &pending) : look(b, &pending);
        if (pending == 0 && status == FW_OK) tell_awake(&w);
        pthread_mutex_unlock(&m->lock);
        if (status != FW_OK) {
            /* what another rank's end does to its messages is not the reason */
            FW_TRY(check_job(b));
            return fw_trail_push(status, __FILE__, __func__, __LINE__);
        }
        if (pending == 0) break;
        if (is_long) FW_TRY(check_job(b));
        if (fw_host_now_ns() - w.begin_ns > sleeps_after_ns)
            nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
        else if (b->c->job->spin_ns == 0 || look_n > 1000)
            sched_yield();
    }
    b->n = 0;
    return FW_OK;
}
