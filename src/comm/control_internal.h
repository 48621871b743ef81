/* The control plane as its own files see it. */
#ifndef FW_COMM_CONTROL_INTERNAL_H
#define FW_COMM_CONTROL_INTERNAL_H

#include "comm/control.h"
#include "comm/control_door.h"
#include "comm/control_wire.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fw_control_peer {
    int fd; /* -1: no connection */
    int pid;
    int left; /* said good-bye */
    uint64_t heard_ns;
    fw_frame_reader reader;
    char host_id[48], host_name[48];
} fw_control_peer;

struct fw_control {
    fw_comm_options options;
    fw_control_blame *blame;                 /* the caller's */
    fw_door door;                            /* rank 0 */
    fw_control_peer peer[FW_COMM_MAX_WORLD]; /* rank 0: one for each other rank; else only peer[0] */
    pthread_mutex_t send_lock;               /* frames of two threads must not mix, peers' fds must not vanish */
    _Atomic int aborted;                     /* this rank said that it failed */
    pthread_t monitor;
    int monitor_runs;
    int wake_fd; /* an eventfd: the monitor must stop */
    fw_control_hooks hooks;
    int failed; /* the monitor has told its rank; only it looks at this */
};

/* Send to all peers but `except` (-1: to all). */
void fw_control_send_all(fw_control *control, int except, fw_frame_kind kind, int rank, fw_status status, int told,
                         const void *payload, size_t bytes);

/* The other ranks' way in (control_join.c). */
fw_status fw_control_join(fw_control *control, uint64_t deadline_ns);

#endif
