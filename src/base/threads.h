/* A fixed pool of threads for data-parallel loops.
 *
 * fw_threads_run(pool, fn, context) calls fn(context, i, n) once on each of the n threads (the caller
 * is number 0) and returns when all are done. Work is divided by the callee from i and n alone, so
 * results do not depend on timing. Threads sleep between calls after a short spin. One caller at a time. */
#ifndef FW_BASE_THREADS_H
#define FW_BASE_THREADS_H

#include "base/status.h"

#include <pthread.h>
#include <stdint.h>

typedef struct fw_threads fw_threads;
typedef void (*fw_threads_fn)(void *context, int index, int thread_n);

/* cpus: one CPU number per thread to pin to, or NULL for no pinning. thread_n >= 1. */
fw_status fw_threads_create(fw_threads **out, int thread_n, const int *cpus);
/* One for each CPU that this process may use, not pinned. */
fw_status fw_threads_create_for_host(fw_threads **out);
void fw_threads_destroy(fw_threads *pool);                              /* takes NULL */
int fw_threads_n(const fw_threads *pool);                               /* NULL pool: 1 */
void fw_threads_run(fw_threads *pool, fw_threads_fn fn, void *context); /* NULL pool: calls fn(context, 0, 1) */

/* The thread may run on every CPU that threads of the pool are pinned to; without pinning, or NULL: as before. */
void fw_threads_spread(const fw_threads *pool, pthread_t thread);

/* The part of 0..total that thread index of n takes: contiguous, in multiples of `grain` but for the end. */
void fw_threads_split(int64_t *first, int64_t *last, int64_t total, int64_t grain, int index, int thread_n);

#endif
