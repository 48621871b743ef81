/* The launcher's parts: starting one rank (launch_start.c), looking after all (launcher.c), telling those that wait for
 * a rank that it has ended (launch_announce.c). */
#ifndef FW_COMM_LAUNCH_INTERNAL_H
#define FW_COMM_LAUNCH_INTERNAL_H

#include "comm/comm.h"
#include "comm/launcher.h"

#include <signal.h>
#include <sys/types.h>

typedef struct fw_launch_job {
    const fw_launch_options *options;
    char *const *argv;
    char secret[FW_COMM_SECRET_BYTES];
    int listen_fd, port, null_fd; /* -1: closed */
    sigset_t outer_mask;          /* what a rank starts with */
    struct {
        pid_t pid;  /* 0: not started, or gone */
        int killed; /* by us */
    } rank[FW_COMM_MAX_WORLD];
    int alive_n;
    int handed_signal; /* 0: none yet */
    uint64_t handed_ns;
    uint64_t grace_end_ns; /* 0: no rank has failed */
    int failed_rank;       /* the first that did not end well */
    int own_code;          /* exit code for the first failure that a rank had a reason of its own for, 130 aside; -1 */
    int any_stopped;       /* a rank stopped in order (130) */
    int any_cut;           /* a rank was ended by the signal handed on */
    int hurried;           /* a second signal came */
    int any_followed;      /* a rank ended with 5: the reason is another rank's */
} fw_launch_job;

/* The listening socket, its port, the secret, /dev/null. */
fw_status fw_launch_prepare(fw_launch_job *job);
void fw_launch_release(fw_launch_job *job);
/* Fork and exec one rank; returns when the program runs. Errors: FW_ERR_OPTION when argv[0] cannot be started. */
fw_status fw_launch_start_rank(fw_launch_job *job, int rank);
/* Tell rank 0, if it still waits for the others, that this rank will not come. Never blocks. */
void fw_launch_announce_end(const fw_launch_job *job, int rank);

#endif
