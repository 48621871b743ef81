/* What this machine offers this process: cores, memory, time. Limits of the container count: CPU
 * affinity, cgroup CPU quota and cgroup memory limit (v1 and v2). */
#ifndef FW_BASE_HOST_H
#define FW_BASE_HOST_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* CPU numbers this process may run on, at most cpu_cap of them; returns how many (at least 1).
 * A cgroup quota below the affinity count shortens the list. */
int fw_host_cpus(int *cpus, int cpu_cap);
/* Memory that could still be taken: MemAvailable, or what the cgroup leaves if that is less. */
uint64_t fw_host_memory_available(void);
/* Resident memory of this process now, and the most it ever had. */
uint64_t fw_host_resident_bytes(void);
uint64_t fw_host_peak_resident_bytes(void);
/* Shared memory (memfd, shm) among the resident bytes: the pages that this process has touched so far. */
uint64_t fw_host_shared_resident_bytes(void);
/* Give [block, block + bytes) its pages now, for writing; what is in them stays, and other threads may be using them.
 * Otherwise the system gives a page when it is first written, at the price of one interruption each: asking for many at
 * once is cheaper by a third. Needs no answer: what this does not do, the first write does. */
void fw_host_take_pages(void *block, size_t bytes);
/* Monotonic, nanoseconds. */
uint64_t fw_host_now_ns(void);

#endif
