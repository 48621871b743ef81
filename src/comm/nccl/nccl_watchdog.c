/* A thread that looks after this rank's communicators: it notices collectives that do not end, and when the job has
 * failed, for whatever reason, it ends what is still on the GPU. */
#include "comm/nccl/nccl_internal.h"
#include "comm/nccl/nccl_open.h"

#include "base/host.h"
#include "comm/shm/shm_internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_NS = 100 * 1000 * 1000 };

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

/* Holds the lock. The oldest collective that is not done; 0: all are. */
static fw_status find_oldest(fw_nccl *n, fw_nccl_issue *out, int *found) {
    *found = 0;
    /* A mark that was used again stands for a later collective: what it says holds for all before. */
    if (n->issue_n > FW_NCCL_MARK_N && n->passed_n < n->issue_n - FW_NCCL_MARK_N)
        n->passed_n = n->issue_n - FW_NCCL_MARK_N;
    while (n->passed_n < n->issue_n) {
        int yes;
        FW_TRY(n->plugin->passed(n->gpu, (int)(n->passed_n % FW_NCCL_MARK_N), &yes));
        if (!yes) {
            *out = n->issue[n->passed_n % FW_NCCL_MARK_N];
            *found = 1;
            return FW_OK;
        }
        n->passed_n++;
    }
    return FW_OK;
}

/* A rank that has not started the collective of this ticket; -1: none. */
static int find_late(const fw_comm *all, uint64_t ticket) {
    for (int r = 0; r < all->options.world; r++)
        if (atomic_load(&fw_nccl_progress_of(fw_nccl_of(all), r)->started_n) < ticket) return r;
    return -1;
}

static fw_status say_stuck(fw_comm *all, const fw_nccl_issue *oldest, double waited_s) {
    const int me = all->options.rank, late = find_late(all, oldest->ticket);
    if (late < 0)
        return fw_fail(FW_ERR_RANK,
                       "rank %d: %s is not done after %.0f s though every rank has started it: a GPU or a link between "
                       "GPUs does not answer (NCCL_DEBUG=INFO in the environment tells more)",
                       me, oldest->title, waited_s);
    const fw_nccl_progress *other = fw_nccl_progress_of(fw_nccl_of(all), late);
    if (atomic_load(&other->started_n) == 0)
        return fw_fail(FW_ERR_RANK,
                       "rank %d: %s is not done after %.0f s: rank %d is stuck before its first collective", me,
                       oldest->title, waited_s, late);
    return fw_fail(FW_ERR_RANK, "rank %d: %s is not done after %.0f s: rank %d is stuck, the last it started is %.159s",
                   me, oldest->title, waited_s, late, other->title);
}

/* A rank that died says nothing: what it was at is all there is to know. */
fw_status fw_nccl_explain(const fw_comm *c, fw_status status) {
    const fw_nccl *n = fw_nccl_of(c);
    const fw_failure *f = &c->job->failure;
    char message[512];
    if (n->progress == NULL || f->told || f->origin < 0 || f->origin == c->job->all->options.rank) return status;
    const fw_nccl_progress *other = fw_nccl_progress_of(n, f->origin);
    snprintf(message, sizeof message, "%.511s", fw_trail_message());
    if (atomic_load(&other->started_n) == 0) return fw_fail(status, "%s before its first collective", message);
    return fw_fail(status, "%s; the last collective it started is %.159s", message, other->title);
}

/* Holds the lock. For those who miss this rank elsewhere; oldest NULL: nothing is unfinished. */
static void tell_unfinished(const fw_comm *all, const fw_nccl_issue *oldest) {
    fw_nccl_progress *own = fw_nccl_progress_of(fw_nccl_of(all), all->options.rank);
    if (oldest != NULL && atomic_load(&own->unfinished_ticket) != oldest->ticket)
        memcpy(own->unfinished, oldest->title, sizeof own->unfinished);
    atomic_store(&own->unfinished_ticket, oldest != NULL ? oldest->ticket : 0);
}

const char *fw_nccl_unfinished(const fw_comm *all, int rank) {
    const fw_nccl *n = fw_nccl_of(all);
    if (n == NULL || n->progress == NULL) return "";
    const fw_nccl_progress *other = fw_nccl_progress_of(n, rank);
    return atomic_load(&other->unfinished_ticket) != 0 ? other->unfinished : "";
}

/* While a rank that has not come is at long work of its own, no clock runs. */
static int is_excused(const fw_comm *all, const fw_nccl_issue *oldest) {
    const int late = find_late(all, oldest->ticket);
    return late >= 0 && atomic_load(&fw_shm_presence_of(all, late)->host_work) != 0;
}

/* Holds the lock. since_ns: when the waiting for `ticket` began, as far as it counts. */
static fw_status look(fw_comm *all, uint64_t *ticket, uint64_t *since_ns) {
    fw_nccl *n = fw_nccl_of(all);
    for (fw_nccl_part *part = n->part; part != NULL; part = part->next) {
        int busy;
        FW_TRY(n->plugin->check(part->link, &busy));
    }
    fw_nccl_issue oldest;
    int found;
    FW_TRY(find_oldest(n, &oldest, &found));
    tell_unfinished(all, found ? &oldest : NULL);
    if (!found) return FW_OK;
    const uint64_t now_ns = fw_host_now_ns();
    if (oldest.ticket != *ticket) {
        *ticket = oldest.ticket;
        *since_ns = now_ns;
    }
    if (is_excused(all, &oldest)) *since_ns = now_ns;
    const double waited_s = seconds(now_ns - *since_ns);
    return waited_s > all->options.timeout_s ? say_stuck(all, &oldest, waited_s) : FW_OK;
}

/* Holds the lock. */
static void abort_all(fw_nccl *n) {
    n->aborted = 1;
    for (fw_nccl_part *part = n->part; part != NULL; part = part->next) n->plugin->abort(part->link);
}

static void *watch(void *argument) {
    fw_comm *all = argument;
    fw_nccl *n = fw_nccl_of(all);
    uint64_t ticket = 0, since_ns = 0;
    pthread_mutex_lock(&n->lock);
    while (!n->stop && !n->aborted) {
        fw_status status = FW_OK;
        if (fw_failure_is_set(&all->job->failure))
            abort_all(n);
        else
            status = look(all, &ticket, &since_ns);
        if (status != FW_OK) {
            pthread_mutex_unlock(&n->lock); /* telling wakes, and waking takes the lock */
            fw_comm_abort(all, status);
            pthread_mutex_lock(&n->lock);
            continue;
        }
        uint64_t end_ns = fw_host_now_ns() + LOOK_NS;
        struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000), .tv_nsec = (long)(end_ns % 1000000000)};
        if (!n->stop && !n->aborted && !fw_failure_is_set(&all->job->failure))
            pthread_cond_timedwait(&n->changed, &n->lock, &end);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

fw_status fw_nccl_start_watchdog(fw_comm *all) {
    fw_nccl *n = fw_nccl_of(all);
    sigset_t every, before;
    sigfillset(&every); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int reason = pthread_create(&n->watchdog, NULL, watch, all);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "could not start the watchdog of NCCL: %s", strerror(reason));
    n->watchdog_runs = 1;
    return FW_OK;
}

void fw_nccl_stop_watchdog(fw_comm *all) {
    fw_nccl *n = fw_nccl_of(all);
    if (!n->watchdog_runs) return;
    pthread_mutex_lock(&n->lock);
    n->stop = 1;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->watchdog, NULL);
    n->watchdog_runs = 0;
}
