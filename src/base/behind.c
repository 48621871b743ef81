#include "base/behind.h"

#include <sys/resource.h>

enum { NICER = 5 }; /* about a quarter of a core beside a thread that computes on it */

static void *run(void *context) {
    fw_behind *b = context;
    if (b->joinable)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER); /* on Linux: of this thread alone */
    b->status = b->fn(b->context);
    if (b->status != FW_OK) fw_trail_copy(&b->trail);
    atomic_store(&b->done, true);
    return NULL;
}

void fw_behind_start(fw_behind *b, fw_behind_fn fn, void *context, const fw_threads *pool) {
    FW_ASSERT(!b->started);
    b->fn = fn;
    b->context = context;
    b->started = b->joinable = true;
    atomic_store(&b->done, false);
    if (pthread_create(&b->thread, NULL, run, b) == 0) {
        fw_threads_spread(pool, b->thread); /* here: the pool may be gone when the thread first runs */
        return;
    }
    b->joinable = false;
    run(b);
}

bool fw_behind_is_done(const fw_behind *b) { return !b->started || atomic_load(&b->done); }

fw_status fw_behind_wait(fw_behind *b) {
    if (!b->started) return FW_OK;
    if (b->joinable) pthread_join(b->thread, NULL);
    b->started = false;
    if (b->status != FW_OK) fw_trail_restore(&b->trail);
    return b->status;
}
