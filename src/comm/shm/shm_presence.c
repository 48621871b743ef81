/* Where ranks are, as those who wait for them see it: gone, late, at long work of their own, or asleep elsewhere.
 *
 * A rank falls asleep in at most two places at once: the queue of collectives (lane DATA) in one of its groups, and the
 * caller's thread in a small exchange (lane SMALL). Before it sleeps it tells where. Then two ranks that wait for each
 * other in different places can be told from two that are only slow:
 *
 *   I sleep in lane L and miss rank r. Rank r sleeps in lane L too, in a barrier to which I have not come.
 *   I sleep in lane SMALL and miss rank r, my queue is empty. Rank r sleeps in lane DATA, in a barrier to which I have
 *   not come, and its caller's thread waits for that collective or a later one.
 *
 * In both cases neither can ever go on. All of this stays as it is once it is so; whether I have come to a barrier
 * I know myself; so a stale look cannot make it true. Longer rings of ranks are left to the timeout. */
#include "base/host.h"
#include "comm/shm/shm_internal.h"

#include <string.h>

/* asleep[lane]: the group, whether the caller's thread is blocked by it, and the barrier. */
static uint64_t sleep_word(int32_t id, int caller_blocked, uint32_t barrier) {
    return (uint64_t)(uint32_t)(id + 1) << 33 | (uint64_t)(caller_blocked != 0) << 32 | barrier;
}

void fw_shm_tell_asleep(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, const fw_shm_call *call) {
    fw_shm_presence *own = fw_shm_presence_of(c, c->options.rank);
    const fw_progress *p = &c->job->progress;
    /* In lane DATA the collective at work is number done_n + 1 of the queue. */
    int blocked = lane == FW_SHM_SMALL || atomic_load(&p->caller_ticket) > atomic_load(&p->done_n);
    if (atomic_load(&own->asleep[lane]) == 0) fw_comm_title(own->title[lane], c, call->name, call->label, call->number);
    atomic_store(&own->asleep[lane], sleep_word(c->id, blocked, barrier));
}

void fw_shm_tell_awake(fw_comm *c, fw_shm_lane_kind lane) {
    atomic_store(&fw_shm_presence_of(c, c->options.rank)->asleep[lane], 0);
}

/* The last barrier of group `id` to which this rank has come; UINT32_MAX when job rank `other` is not in it. */
static uint32_t own_barrier(fw_job *job, int32_t id, int other, fw_shm_lane_kind lane) {
    uint32_t barrier = UINT32_MAX;
    if (id == 0) return atomic_load(&fw_shm_of(job->all)->barrier_n[lane]);
    pthread_mutex_lock(&job->group_lock);
    for (const fw_comm *g = job->group; g != NULL; g = g->next) {
        if (g->id != id || g->transport != job->all->transport) continue;
        int at = other - g->first;
        if (at >= 0 && at % g->stride == 0 && at / g->stride < g->options.world)
            barrier = atomic_load(&fw_shm_of(g)->barrier_n[lane]);
    }
    pthread_mutex_unlock(&job->group_lock);
    return barrier;
}

/* Whether job rank `other` sleeps in `lane`, in a barrier to which this rank has not come. */
static int sleeps_for_me(fw_job *job, int other, fw_shm_lane_kind lane, int must_block_caller) {
    uint64_t word = atomic_load(&fw_shm_of(job->all)->host->presence[other].asleep[lane]);
    if (word == 0 || (must_block_caller && (word >> 32 & 1) == 0)) return 0;
    uint32_t reached = own_barrier(job, (int32_t)(word >> 33) - 1, other, lane);
    return reached != UINT32_MAX && (int32_t)((uint32_t)word - reached) > 0;
}

static fw_status diverged(fw_comm *c, int other, fw_shm_lane_kind there, const fw_shm_call *call) {
    char mine[FW_COMM_TITLE_BYTES];
    const fw_shm_presence *p = fw_shm_presence_of(c, other);
    int me = fw_comm_job_rank(c, c->options.rank), r = fw_comm_job_rank(c, other);
    return fw_fail(FW_ERR_RANK,
                   "the ranks have diverged: rank %d waits in %s for rank %d, which waits in %.159s for rank %d", me,
                   fw_comm_title(mine, c, call->name, call->label, call->number), r, p->title[there], me);
}

/* Whether `rank` has come to this barrier; it may be further on already. */
static int has_come(const fw_comm *c, int rank, fw_shm_lane_kind lane, uint32_t barrier) {
    return (int32_t)(atomic_load(&fw_shm_of(c)->control->rank[rank].at[lane]) - barrier) >= 0;
}

static fw_status check_divergence(fw_comm *c, int rank, fw_shm_lane_kind lane, uint32_t barrier,
                                  const fw_shm_call *call) {
    fw_job *job = c->job;
    const fw_progress *p = &job->progress;
    int other = fw_comm_job_rank(c, rank), there = FW_SHM_LANE_N;
    int idle = lane == FW_SHM_SMALL && atomic_load(&p->started_n) == atomic_load(&p->done_n);
    if (sleeps_for_me(job, other, lane, 0))
        there = (int)lane;
    else if (idle && sleeps_for_me(job, other, FW_SHM_DATA, 1))
        there = FW_SHM_DATA;
    /* Last: it may have come here, and gone on to where it sleeps, since we looked for it. */
    if (there == FW_SHM_LANE_N || has_come(c, rank, lane, barrier)) return FW_OK;
    return diverged(c, rank, (fw_shm_lane_kind)there, call);
}

static fw_status too_late(fw_comm *c, int rank, const fw_shm_call *call) {
    char title[FW_COMM_TITLE_BYTES];
    const fw_shm_presence *other = fw_shm_presence_of(c, rank);
    const fw_comm *all = c->job->all;
    const char *begun =
        all->transport->unfinished != NULL ? all->transport->unfinished(all, fw_comm_job_rank(c, rank)) : "";
    const char *elsewhere = atomic_load(&other->asleep[FW_SHM_DATA]) != 0    ? other->title[FW_SHM_DATA]
                            : atomic_load(&other->asleep[FW_SHM_SMALL]) != 0 ? other->title[FW_SHM_SMALL]
                                                                             : begun;
    return fw_fail(FW_ERR_RANK,
                   "rank %d is alive but did not come to %s within %.4g s (ddp_timeout)%s%.159s%s%.59s; do all ranks "
                   "do the same steps?",
                   fw_comm_job_rank(c, rank), fw_comm_title(title, c, call->name, call->label, call->number),
                   (double)fw_shm_of(c)->host->timeout_ns * 1e-9, elsewhere[0] ? ", it waits in " : "", elsewhere,
                   other->last_work[0] ? ", the last long work it told of was " : "", other->last_work);
}

fw_status fw_shm_check_missing(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, const fw_shm_call *call,
                               uint64_t *since_ns) {
    fw_shm *s = fw_shm_of(c);
    int missing = -1;
    uint64_t now_ns = fw_host_now_ns();
    for (int r = 0; r < c->options.world; r++) {
        /* left is read first: a rank may come and then leave. */
        int left = atomic_load(&c->job->left[fw_comm_job_rank(c, r)]);
        if (has_come(c, r, lane, barrier)) continue;
        if (left) {
            char title[FW_COMM_TITLE_BYTES];
            return fw_fail(FW_ERR_RANK, "rank %d has left the job while rank %d waits for it in %s",
                           fw_comm_job_rank(c, r), fw_comm_job_rank(c, c->options.rank),
                           fw_comm_title(title, c, call->name, call->label, call->number));
        }
        FW_TRY(check_divergence(c, r, lane, barrier, call));
        if (atomic_load(&fw_shm_presence_of(c, r)->host_work)) *since_ns = now_ns;
        missing = r;
    }
    if (missing >= 0 && now_ns - *since_ns > s->host->timeout_ns) return too_late(c, missing, call);
    return FW_OK;
}
