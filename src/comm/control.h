/* The control plane: a TCP star around rank 0. It brings the ranks together (with a hello that holds the job's secret,
 * version, world and rank), hands out rank 0's ticket to the data plane, and from then on tells every rank when one
 * fails, dies, falls silent or leaves. Nothing of the training's speed depends on it.
 *
 * Whatever else connects to the port (a scanner, another job) is turned away and costs nothing but its own time.
 * The secret keeps jobs apart that meet by accident; it goes over the wire in the clear.
 * Numbers on the wire are little-endian, as both supported CPUs keep them. */
#ifndef FW_COMM_CONTROL_H
#define FW_COMM_CONTROL_H

#include "comm/comm.h"

typedef struct fw_control fw_control;

/* Called by the monitor thread. told: the origin said why (message is its own), else its end was noticed. */
typedef struct fw_control_hooks {
    void (*failed)(void *context, int origin, int told, fw_status status, const char *message);
    void (*left)(void *context, int rank);
    void *context;
} fw_control_hooks;

/* Whose failure ended a meeting, when it was another rank's. */
typedef struct fw_control_blame {
    int rank; /* -1: this rank's own, or nobody's in particular */
    int told; /* it said why */
} fw_control_blame;

/* Meet the other ranks until deadline_ns. Errors: FW_ERR_RANK by name, FW_ERR_IO, FW_ERR_NOMEM.
 * On failure every rank that has come is told the reason. *blame is borrowed until fw_control_watch. */
fw_status fw_control_meet(fw_control **out, const fw_comm_options *options, uint64_t deadline_ns,
                          fw_control_blame *blame);

/* ticket = rank 0's, on every rank; bytes <= 512. Before fw_control_watch only. */
fw_status fw_control_share_ticket(fw_control *control, void *ticket, size_t bytes, uint64_t deadline_ns);

/* Start the monitor thread. */
fw_status fw_control_watch(fw_control *control, const fw_control_hooks *hooks);

/* This rank failed: tell the others. Never blocks, any thread. */
void fw_control_abort(fw_control *control, fw_status status, const char *message);

/* Say good-bye (unless this rank aborted), end the monitor, free all. Takes NULL. */
void fw_control_close(fw_control *control);

#endif
