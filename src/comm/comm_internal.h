/* A group as the files of this room see it. */
#ifndef FW_COMM_COMM_INTERNAL_H
#define FW_COMM_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/comm_failure.h"
#include "comm/control.h"
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FW_COMM_QUEUE_N = 256 }; /* collectives started and not yet done; starting more waits */

/* What one kind of collective has moved so far: fw_comm_traffic, counted by one thread and read by any. */
typedef struct fw_comm_tally {
    _Atomic uint64_t call_n, sent_bytes, received_bytes;
} fw_comm_tally;

/* The queue of started collectives and the thread that works on it (comm_queue.c). */
typedef struct fw_progress {
    pthread_t thread;
    int thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t work;     /* something was queued, or stop */
    pthread_cond_t finished; /* done_n went up, or the queue failed */
    fw_comm_op op[FW_COMM_QUEUE_N];
    _Atomic uint64_t started_n, done_n; /* started_n is changed under the lock by the caller, done_n by the thread */
    _Atomic int failed;                 /* no collective after done_n will ever be done */
    _Atomic int stop;
    _Atomic uint64_t wait_ns, busy_ns;
    fw_comm_tally tally[FW_COMM_KIND_N];
} fw_progress;

struct fw_comm {
    fw_comm_options options;
    const fw_transport *transport;
    void *state;            /* the transport's */
    fw_control *control;    /* NULL for world 1 */
    fw_control_blame blame; /* of the meeting */
    fw_failure failure;
    _Atomic int agree_origin;            /* lowest rank that failed in fw_comm_agree; -1 */
    _Atomic int left[FW_COMM_MAX_WORLD]; /* ranks that have closed their group in an orderly way */
    _Atomic int awake;                   /* the transport can be woken */
    int spin_n;                          /* looks before sleeping; 0 when there are more ranks than CPUs */
    fw_progress progress;
};

/* Start and end of the background thread; harmless for transports that run inline. */
fw_status fw_progress_start(fw_comm *c);
void fw_progress_stop(fw_comm *c);

/* From now on the monitor thread of the control plane tells this group what happens to other ranks. */
fw_status fw_comm_watch(fw_comm *c);

static inline void fw_comm_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
