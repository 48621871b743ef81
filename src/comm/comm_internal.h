/* Groups and the job they belong to, as the files of this room see them. */
#ifndef FW_COMM_COMM_INTERNAL_H
#define FW_COMM_COMM_INTERNAL_H

#include "base/host.h"
#include "comm/comm.h"
#include "comm/comm_failure.h"
#include "comm/control.h"
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FW_COMM_QUEUE_N = 256 }; /* collectives started and not yet done; starting more waits */

/* The queue of started collectives, of the group of all ranks and of the groups made of it, and the thread that works
 * on it (comm_queue.c). */
typedef struct fw_progress {
    pthread_t thread;
    int thread_runs;
    pthread_mutex_t lock;
    pthread_cond_t work;     /* something was queued, or stop */
    pthread_cond_t finished; /* done_n went up, or the queue failed */
    fw_comm_op op[FW_COMM_QUEUE_N];
    _Atomic uint64_t started_n, done_n; /* started_n is changed under the lock by the caller, done_n by the thread */
    _Atomic int failed;                 /* no collective after done_n will ever be done */
    int taken;                          /* somebody works on collective done_n + 1; under the lock */
    int naps;                           /* the thread rests for a moment only; under the lock */
    _Atomic int stop;
    _Atomic uint64_t caller_ticket; /* the caller's thread is blocked until this one is done; 0: it is not */
} fw_progress;

/* What all groups of this rank have in common. Owned by the group of all ranks. */
typedef struct fw_job {
    fw_comm *all;           /* the group of all ranks */
    fw_control *control;    /* NULL for world 1 */
    fw_control_blame blame; /* of the meeting */
    fw_failure failure;
    _Atomic int agree_origin;            /* lowest rank that failed in fw_comm_agree; -1 */
    _Atomic int left[FW_COMM_MAX_WORLD]; /* ranks that have closed their group in an orderly way */
    _Atomic int awake;                   /* the transport can be woken */
    int host_ranks;                      /* the most ranks of one host */
    uint32_t spin_ns;                    /* how long to look before sleeping; 0 when there are more ranks than CPUs */
    fw_progress progress;
    pthread_mutex_t group_lock; /* of the list */
    fw_comm *group;             /* the groups made of `all`, the newest first */
    int32_t group_n;            /* groups made so far: the same on every rank */
    struct fw_device *device;   /* by fw_comm_use_device; NULL: memory of the host */
    int ranks_on_gpu;
    struct fw_nccl *nccl; /* transport "nccl" only */
} fw_job;

/* What one kind of collective has moved so far: fw_comm_traffic, counted by one thread and read by any. */
typedef struct fw_comm_tally {
    _Atomic uint64_t call_n, sent_bytes, received_bytes;
} fw_comm_tally;

struct fw_comm {
    fw_comm_options options; /* rank and world: in this group */
    const fw_transport *transport;
    void *state;                   /* the transport's */
    struct fw_nccl_part *gpu_part; /* transport "nccl" only */
    fw_job *job;
    fw_comm *next;      /* in job->group */
    int first, stride;  /* rank r here is rank first + r * stride of the job */
    int32_t id;         /* 0: all ranks; else the number of the fw_comm_group call */
    uint64_t started_n; /* collectives of this group, by the caller's thread */
    uint64_t last_ticket;
    uint64_t barrier_n; /* of a group; transport "mpi" only */
    fw_comm_tally tally[FW_COMM_KIND_N];
    _Atomic uint64_t wait_ns, busy_ns;
    size_t allocated_bytes; /* by fw_comm_alloc */
};

static inline int fw_comm_job_rank(const fw_comm *c, int rank) { return c->first + rank * c->stride; }
static inline int fw_comm_is_group(const fw_comm *c) { return c != c->job->all; }
/* The failure of the job as this rank's: FW_ERR_RANK, or its own status. Between GPUs the message about a rank that died
 * also says which collective it started last. */
fw_status fw_comm_report_failure(const fw_comm *c);

/* "all_reduce 12 (layers.3) [ranks 0, 2]": a call for messages. label may be NULL; ranks only for groups. */
enum { FW_COMM_TITLE_BYTES = 160 };
const char *fw_comm_title(char out[FW_COMM_TITLE_BYTES], const fw_comm *c, const char *call, const char *label,
                          uint64_t number);

/* For fw_comm_alloc of transports: all ranks ask for the same; a host has it for so many ranks. Errors: FW_ERR_RANK with both
 * wishes; FW_ERR_NOMEM. */
fw_status fw_comm_agree_on_memory(fw_comm *c, size_t bytes, const char *what);
fw_status fw_comm_check_host_memory(size_t bytes, int ranks, const char *what);

/* FW_ERR_INTERNAL on a group: `call` is for the group of all ranks. */
fw_status fw_comm_refuse_group(const fw_comm *c, const char *call);
/* Whoever waits, in any group, must look again. Any thread. */
void fw_comm_wake(fw_job *job);
/* fw_comm_destroy of a group. */
void fw_comm_close_group(fw_comm *group);
/* Groups that are left, or that were closed while the queue still knew them; after the queue has stopped. */
void fw_comm_drop_groups(fw_job *job);

/* Start and end of the background thread; harmless for transports that run inline. */
fw_status fw_progress_start(fw_job *job);
void fw_progress_stop(fw_job *job);
/* Whether the queue has nothing more to do with this ticket and those before it. */
int fw_progress_is_past(fw_job *job, uint64_t ticket);

/* From now on the monitor thread of the control plane tells this job what happens to other ranks. */
fw_status fw_comm_watch(fw_comm *c);

/* Whether it is time to sleep rather than look again: `look_n` counts the looks so far. */
static inline int fw_comm_looked_long(uint32_t look_n, uint64_t *since_ns, uint32_t spin_ns) {
    if (look_n % 16 != 0) return 0;
    uint64_t now_ns = fw_host_now_ns();
    if (look_n == 0) *since_ns = now_ns;
    return now_ns - *since_ns >= spin_ns;
}

static inline void fw_comm_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
