#include "base/host.h"

#include "base/cgroup.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Whole CPUs of the cgroup's quota, rounded up; INT_MAX when there is none. */
static int quota_cpus(void) {
    const double quota = fw_cgroup_cpus("");
    return quota < 0 || quota >= INT_MAX ? INT_MAX : (int)ceil(quota);
}

int fw_host_cpus(int *cpus, int cpu_cap) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = 0, limit = quota_cpus();
    if (limit > cpu_cap) limit = cpu_cap;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE && n < limit; cpu++)
            if (CPU_ISSET((size_t)cpu, &set)) cpus[n++] = cpu;
    if (n == 0) cpus[n++] = 0;
    return n;
}

/* "Key:   123 kB" in a /proc file, as bytes; 0 when absent. */
static uint64_t proc_kb(const char *path, const char *key) {
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    char line[256];
    uint64_t value = 0;
    size_t key_bytes = strlen(key);
    while (value == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, key_bytes) == 0 && line[key_bytes] == ':')
            value = strtoull(line + key_bytes + 1, NULL, 10) * 1024;
    fclose(f);
    return value;
}

uint64_t fw_host_memory_available(void) {
    uint64_t available = proc_kb("/proc/meminfo", "MemAvailable"), limit, left;
    return fw_cgroup_memory("", &limit, &left) && left < available ? left : available;
}

uint64_t fw_host_resident_bytes(void) { return proc_kb("/proc/self/status", "VmRSS"); }
uint64_t fw_host_peak_resident_bytes(void) { return proc_kb("/proc/self/status", "VmHWM"); }
uint64_t fw_host_shared_resident_bytes(void) { return proc_kb("/proc/self/status", "RssShmem"); }

void fw_host_take_pages(void *block, size_t bytes) {
    if (bytes == 0) return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)block + bytes;
    const uintptr_t first = (uintptr_t)block / page * page, last = (end + page - 1) / page * page;
#if defined(MADV_POPULATE_WRITE)
    if (madvise((void *)first, last - first, MADV_POPULATE_WRITE) == 0) return;
#endif
    /* Linux before 5.14: a write to each page that changes nothing and loses nothing that others write meanwhile. */
    for (uintptr_t at = first; at < end; at += page)
        __atomic_fetch_or((unsigned char *)(at < (uintptr_t)block ? (uintptr_t)block : at), 0, __ATOMIC_RELAXED);
}

uint64_t fw_host_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
