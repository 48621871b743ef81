#include "comm/comm_failure.h"

#include <stdio.h>

void fw_failure_init(fw_failure *f) {
    atomic_init(&f->failed, 0);
    pthread_mutex_init(&f->lock, NULL);
    f->origin = -1;
}

void fw_failure_fini(fw_failure *f) { pthread_mutex_destroy(&f->lock); }

int fw_failure_set(fw_failure *f, int origin, int told, fw_status status, const char *message) {
    pthread_mutex_lock(&f->lock);
    int first = !atomic_load_explicit(&f->failed, memory_order_relaxed);
    if (first) {
        f->origin = origin;
        f->told = told;
        f->status = status;
        snprintf(f->message, sizeof f->message, "%s", message);
        atomic_store_explicit(&f->failed, 1, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
    return first;
}

fw_status fw_failure_report(fw_failure *f, int rank) {
    /* No lock: nothing changes once `failed` is seen to be set. */
    if (f->origin == rank) return fw_fail(f->status, "%s", f->message);
    return fw_fail(FW_ERR_RANK, f->told ? "rank %d failed: %s" : "rank %d %s", f->origin, f->message);
}
