/* Barriers in shared memory: a count of arrivals, and a generation to sleep on.
 *
 * The last rank to come moves the generation on; the others look for a short while and then sleep on it (futex).
 * A sleeper announces itself before the kernel compares the generation, and the last rank moves it before it looks
 * for sleepers; both in one total order, so nobody sleeps through. Sleeps are short all the same, to look at
 * failures, ranks that left, and the clock. */
#include "base/host.h"
#include "comm/shm/shm_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void sleep_on(_Atomic uint32_t *word, uint32_t expected) {
    struct timespec nap = {.tv_nsec = 50 * 1000 * 1000};
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, expected, &nap, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fw_shm_wake(fw_comm *c) {
    fw_shm *s = fw_shm_of(c);
    if (s == NULL || s->control == NULL) return;
    for (int l = 0; l < FW_SHM_LANE_N; l++) wake_all(&s->control->lane[l].generation);
}

static fw_status wait_asleep(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, const fw_shm_call *call) {
    fw_shm_lane *l = &fw_shm_of(c)->control->lane[lane];
    uint64_t since_ns = fw_host_now_ns();
    while (atomic_load(&l->generation) != barrier) {
        if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
        if (lane == FW_SHM_DATA && atomic_load(&c->job->progress.stop)) {
            char title[FW_COMM_TITLE_BYTES];
            return fw_fail(FW_ERR_RANK, "the group was closed before %s was done",
                           fw_comm_title(title, c, call->name, call->label, call->number));
        }
        fw_shm_tell_asleep(c, lane, barrier, call);
        FW_TRY(fw_shm_check_missing(c, lane, barrier, call, &since_ns));
        atomic_fetch_add(&l->sleeper_n, 1);
        sleep_on(&l->generation, barrier - 1);
        atomic_fetch_sub(&l->sleeper_n, 1);
    }
    return FW_OK;
}

fw_status fw_shm_barrier(fw_comm *c, fw_shm_lane_kind lane, const fw_shm_call *call) {
    fw_shm *s = fw_shm_of(c);
    fw_shm_lane *l = &s->control->lane[lane];
    uint32_t barrier = atomic_load_explicit(&s->barrier_n[lane], memory_order_relaxed) + 1;
    atomic_store(&s->barrier_n[lane], barrier);
    atomic_store(&s->control->rank[c->options.rank].at[lane], barrier);
    uint64_t arrived_n = atomic_fetch_add(&l->arrived_n, 1) + 1;
    if (arrived_n % (uint64_t)c->options.world == 0) {
        atomic_store(&l->generation, barrier);
        if (atomic_load(&l->sleeper_n) > 0) wake_all(&l->generation);
        return FW_OK;
    }
    /* In lane DATA the caller's thread may be computing on this CPU, unless it waits for this collective. */
    const fw_progress *p = &c->job->progress;
    int is_free = lane == FW_SHM_SMALL || atomic_load_explicit(&p->caller_ticket, memory_order_relaxed) != 0;
    uint32_t spin_ns = is_free ? c->job->spin_ns : c->job->spin_ns / 8;
    uint64_t spin_since_ns;
    for (uint32_t look_n = 0; !fw_comm_looked_long(look_n, &spin_since_ns, spin_ns); look_n++) {
        if (atomic_load_explicit(&l->generation, memory_order_acquire) == barrier) return FW_OK;
        fw_comm_pause();
    }
    fw_status status = wait_asleep(c, lane, barrier, call);
    fw_shm_tell_awake(c, lane);
    return status;
}
