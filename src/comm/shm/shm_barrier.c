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
#include <stdio.h>
#include <string.h>
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

/* Looks at the ranks that are missing: one that left, or is late, is an error; one at long work stops the clock. */
static fw_status check_missing(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, uint64_t *since_ns,
                               const char *what, uint64_t number) {
    fw_shm *s = fw_shm_of(c);
    int missing = -1;
    uint64_t now_ns = fw_host_now_ns();
    for (int r = 0; r < c->options.world; r++) {
        fw_shm_rank *other = &s->control->rank[r];
        /* left is read first: a rank may come and then leave. */
        int left = atomic_load(&c->left[r]);
        if (atomic_load(&other->at[lane]) == barrier) continue;
        if (left)
            return fw_fail(FW_ERR_RANK, "rank %d has left the job while rank %d waits for it in %s %llu", r,
                           c->options.rank, what, (unsigned long long)number);
        if (atomic_load(&other->host_work)) *since_ns = now_ns;
        missing = r;
    }
    if (missing >= 0 && now_ns - *since_ns > s->timeout_ns) {
        const char *work = s->control->rank[missing].last_work;
        return fw_fail(
            FW_ERR_RANK,
            "rank %d is alive but did not come to %s %llu within %.4g s (ddp_timeout)%s%.59s; do all ranks do "
            "the same steps?",
            missing, what, (unsigned long long)number, (double)s->timeout_ns * 1e-9,
            work[0] ? ", the last long work it told of was " : "", work);
    }
    return FW_OK;
}

fw_status fw_shm_barrier(fw_comm *c, fw_shm_lane_kind lane, const char *what, uint64_t number) {
    fw_shm *s = fw_shm_of(c);
    fw_shm_lane *l = &s->control->lane[lane];
    uint32_t barrier = ++s->barrier_n[lane];
    atomic_store(&s->control->rank[c->options.rank].at[lane], barrier);
    uint64_t arrived_n = atomic_fetch_add(&l->arrived_n, 1) + 1;
    if (arrived_n % (uint64_t)c->options.world == 0) {
        atomic_store(&l->generation, barrier);
        if (atomic_load(&l->sleeper_n) > 0) wake_all(&l->generation);
        return FW_OK;
    }
    for (int spin = 0; spin < c->spin_n; spin++) {
        if (atomic_load_explicit(&l->generation, memory_order_acquire) == barrier) return FW_OK;
        fw_comm_pause();
    }
    uint64_t since_ns = fw_host_now_ns();
    while (atomic_load(&l->generation) != barrier) {
        if (fw_failure_is_set(&c->failure)) return fw_failure_report(&c->failure, c->options.rank);
        if (lane == FW_SHM_DATA && atomic_load(&c->progress.stop))
            return fw_fail(FW_ERR_RANK, "the group was closed before %s %llu was done", what,
                           (unsigned long long)number);
        FW_TRY(check_missing(c, lane, barrier, &since_ns, what, number));
        atomic_fetch_add(&l->sleeper_n, 1);
        sleep_on(&l->generation, barrier - 1);
        atomic_fetch_sub(&l->sleeper_n, 1);
    }
    return FW_OK;
}
