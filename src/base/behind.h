/* One piece of work behind the caller's back, which computes meanwhile.
 *
 * The thread may run on all CPUs of the pool, the caller being pinned to one of them, and has a smaller share of a CPU than
 * those that compute: where they use every core they would all wait for the one that it holds up. Not the smallest share:
 * on a busy machine the work would never be done. */
#ifndef FW_BASE_BEHIND_H
#define FW_BASE_BEHIND_H

#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef fw_status (*fw_behind_fn)(void *context);

/* Stays where it is from start to wait. */
typedef struct fw_behind {
    pthread_t thread;
    bool started, joinable;
    atomic_bool done;
    fw_behind_fn fn;
    void *context;
    fw_status status;
    fw_trail trail;
} fw_behind;

/* None may be started and not waited for. Where no thread is to be had the work is done at once. The pool may go before
 * the wait. */
void fw_behind_start(fw_behind *b, fw_behind_fn fn, void *context, const fw_threads *pool);
static inline bool fw_behind_is_started(const fw_behind *b) { return b->started; }
/* There is nothing that wait would wait for. */
bool fw_behind_is_done(const fw_behind *b);
/* What fn returned, with its trail; FW_OK when nothing was started. Takes a zeroed one. */
fw_status fw_behind_wait(fw_behind *b);

#endif
