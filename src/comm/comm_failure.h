/* The one failure of a job, as this rank knows it: the first one stands. Set by the monitor thread, the progress
 * thread or the caller's; read by everybody who waits. */
#ifndef FW_COMM_COMM_FAILURE_H
#define FW_COMM_COMM_FAILURE_H

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fw_failure {
    _Atomic int failed; /* set last, under the lock */
    pthread_mutex_t lock;
    int origin;       /* the rank it began with */
    int told;         /* the origin said why; else its end was noticed */
    fw_status status; /* what the origin's function returned */
    char message[FW_TRAIL_MESSAGE_BYTES];
} fw_failure;

void fw_failure_init(fw_failure *f);
void fw_failure_fini(fw_failure *f);

/* Returns 1 when this is the first failure, 0 when another one stands already. */
int fw_failure_set(fw_failure *f, int origin, int told, fw_status status, const char *message);

static inline int fw_failure_is_set(const fw_failure *f) {
    return atomic_load_explicit(&f->failed, memory_order_acquire);
}

/* Starts a trail for the failure: on the origin its own status and message, elsewhere FW_ERR_RANK and
 * "rank 1 failed: why" or "rank 1 died (connection closed)". */
fw_status fw_failure_report(fw_failure *f, int rank);

#endif
