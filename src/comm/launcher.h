/* Start the ranks of one job on this host, and look after them until the last one has ended.
 *
 * Each rank is a process of its own with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR=127.0.0.1,
 * MASTER_PORT, FINEWIRE_JOB_SECRET, and (rank 0) FINEWIRE_LISTEN_FD: the launcher opens the listening socket and hands
 * it over, so two jobs started at once can never pick the same port. Ranks read from /dev/null.
 *
 * Signals: each rank leads a process group of its own, so Ctrl-C on a terminal reaches the launcher only. SIGINT,
 * SIGTERM and SIGHUP (the latter two unless ignored at the start) are handed to every rank exactly once; a second one kills at once.
 * SIGUSR1, a batch system's warning, is handed on too and counts as no first one.
 * When one rank fails, the others get grace_s to stop by themselves (the control plane tells them; the launcher
 * tells rank 0 while it waits for others), then SIGKILL.
 * When a signal handed on ends a rank that does not handle it yet, the others get 1 s: they cannot go on without it.
 * Ranks are killed by the kernel when the launcher itself is (PR_SET_PDEATHSIG).
 *
 * Nothing is printed here: events go to a callback. */
#ifndef FW_COMM_LAUNCHER_H
#define FW_COMM_LAUNCHER_H

#include "base/status.h"

typedef enum fw_launch_event_kind {
    FW_LAUNCH_STARTED, /* rank, pid */
    FW_LAUNCH_EXITED,  /* rank, pid, exit_code, signal, message */
    FW_LAUNCH_SIGNAL,  /* signal was handed to all ranks; message says what a second one does */
    FW_LAUNCH_KILLED,  /* ranks that had not stopped were killed; message says why, "" after a signal */
} fw_launch_event_kind;

typedef struct fw_launch_event {
    fw_launch_event_kind kind;
    int rank;      /* -1: not about one rank */
    int pid;       /* 0: not about one rank */
    int exit_code; /* EXITED: what the process returned; 128 + signal when a signal ended it */
    int signal;    /* EXITED: the signal that ended it, 0 for none; SIGNAL: the one handed on */
    int expected;  /* EXITED: 1 when it follows from another rank's end, a signal handed on, or the launcher's kill */
    const char *message; /* one line without a newline; "" when there is nothing to say: the rank spoke for itself */
} fw_launch_event;

typedef struct fw_launch_options {
    int process_n;
    double grace_s;                                                /* after the first failure; 0: 5 */
    void (*on_event)(void *context, const fw_launch_event *event); /* may be NULL */
    void *context;
    int keeps_nothing; /* ranks have nothing to save when a signal stops them: for what is said then */
} fw_launch_options;

/* Run process_n ranks of argv (argv[0] is looked up in PATH; NULL-terminated); returns when none is left.
 * *exit_code of the job: 0 if all returned 0. Else that of the first rank that failed for a reason of its own (any
 * code but 5 and 130): 2, 3, 4 and 6 are passed on, everything else is 5. Else 130 if the signal handed on ended a
 * rank, and no second one came. Else 5 if a rank returned 5 or had to be killed by the launcher. Else 130: a rank
 * returned it.
 * Call it from the main thread, before other threads are started.
 * Errors: FW_ERR_OPTION (process_n, or argv cannot be started, by name), FW_ERR_IO, FW_ERR_NOMEM; no rank is left. */
fw_status fw_launch(const fw_launch_options *options, char *const argv[], int *exit_code);

/* This rank's even share of the CPUs of the host: cpus[*first .. *first + *n). At least one; ranks share a CPU when
 * there are more ranks than CPUs. 0 <= local_rank < local_world, cpu_n >= 1. */
void fw_comm_cpu_share(int local_rank, int local_world, int cpu_n, int *first, int *n);

#endif
