/* Collectives between GPUs, one process a GPU, all on one host.
 *
 * The meeting, small exchanges, barriers and the marks of who is at long work of its own stay with the transport of the
 * host (shm), which was there before; collectives on memory of a GPU go through NCCL. They are ordered on the GPU: a
 * collective begins when the operations issued before it are done, and operations issued after fw_comm_wait begin when
 * the collective is done. The host waits for neither, so nothing is queued here: a start hands over to NCCL at once.
 *
 * Failure: NCCL notices neither a rank that died on this host nor one that does not come. The control plane does the
 * first; a watchdog thread does the second, by the age of the oldest collective that is not done, and on any failure
 * aborts all links of this rank, so that the GPU is free and the host's waits end. */
#ifndef FW_COMM_NCCL_NCCL_INTERNAL_H
#define FW_COMM_NCCL_NCCL_INTERNAL_H

#include "comm/comm_internal.h"
#include "comm/nccl/nccl_plugin.h"
#include "device/device.h"
#include "machine/machine.h"

enum { FW_NCCL_BLOCK_N = 16 };

/* What a rank has started last, for those who wait for it; one a rank, in shared memory. */
typedef struct fw_nccl_progress {
    _Alignas(64) _Atomic uint64_t started_n; /* collectives of this rank, in all groups */
    char title[FW_COMM_TITLE_BYTES];         /* of the last one */
    /* Of the oldest one that is not done on the GPU, as the watchdog saw it last; 0: all are. */
    _Atomic uint64_t unfinished_ticket;
    char unfinished[FW_COMM_TITLE_BYTES];
} fw_nccl_progress;

/* A collective that was handed over. */
typedef struct fw_nccl_issue {
    uint64_t ticket, start_ns;
    char title[FW_COMM_TITLE_BYTES];
} fw_nccl_issue;

/* One group's communicator. */
typedef struct fw_nccl_part {
    fw_nccl_link *link;
    void *window[FW_NCCL_BLOCK_N]; /* of the blocks */
    struct fw_nccl_part *next;     /* in fw_nccl.part */
} fw_nccl_part;

/* Of the job; owned by the group of all ranks. */
typedef struct fw_nccl {
    const fw_nccl_plugin *plugin;
    const fw_transport *host; /* the transport that was there before */
    fw_nccl_gpu *gpu;
    fw_nccl_progress *progress; /* of rank 0; the others' at multiples of progress_step_bytes */
    size_t progress_step_bytes;
    struct {
        void *memory;
        size_t bytes;
    } block[FW_NCCL_BLOCK_N];
    int block_n;
    pthread_mutex_t lock; /* of what follows, and of every use of a link: the watchdog aborts them */
    fw_nccl_part *part;
    fw_nccl_issue issue[FW_NCCL_MARK_N];
    uint64_t issue_n, passed_n; /* handed over; known to be done */
    int aborted;
    pthread_cond_t changed; /* stop or a failure */
    int stop;
    pthread_t watchdog;
    int watchdog_runs;
} fw_nccl;

static inline fw_nccl *fw_nccl_of(const fw_comm *c) { return c->job->nccl; }
static inline fw_nccl_part *fw_nccl_part_of(const fw_comm *c) { return c->gpu_part; }
static inline fw_nccl_progress *fw_nccl_progress_of(const fw_nccl *n, int rank) {
    return (fw_nccl_progress *)(void *)((char *)n->progress + (size_t)rank * n->progress_step_bytes);
}

extern const fw_transport fw_nccl_transport;

/* Until NCCL is done with the last call on this link. Errors: FW_ERR_RANK: NCCL's, a failure of the job, or `what` took
 * longer than timeout_s. */
fw_status fw_nccl_settle(fw_comm *c, fw_nccl_link *link, const char *what, double timeout_s);
/* Make c's communicator known to the watchdog; registers the blocks with it. */
fw_status fw_nccl_add_part(fw_comm *c, fw_nccl_part *part);

/* fw_transport.unfinished. */
const char *fw_nccl_unfinished(const fw_comm *all, int rank);

fw_status fw_nccl_start_watchdog(fw_comm *all);
void fw_nccl_stop_watchdog(fw_comm *all);

/* Warn of each variable that changes what NCCL does, with the speed that was measured under it; returns how many there
 * were. */
int fw_nccl_warn_settings(const fw_machine *m, double bytes_per_s);
/* Which way data goes between ranks whose GPUs have these bus ids (machine/nccl_ways.h); nothing when m knows none of
 * them. Appends to *out. Errors: FW_ERR_NOMEM. */
fw_status fw_nccl_ways_of_ranks(fw_strbuf *out, const fw_machine *m, const char (*pci_id)[FW_MACHINE_PCI_BYTES],
                                int rank_n);

#endif
