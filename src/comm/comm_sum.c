#include "comm/comm_sum.h"

#include "comm/kernels/comm_sum_loops.h"

#include <stdatomic.h>

static int runs(const fw_comm_loops *loops) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (loops == &fw_comm_loops_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (loops == &fw_comm_loops_avx2) return __builtin_cpu_supports("avx2");
#endif
    (void)loops;
    return 1;
}

static const fw_comm_loops *const variants[] = {
#if defined(__x86_64__)
    &fw_comm_loops_avx512,
    &fw_comm_loops_avx2,
#endif
    &fw_comm_loops_base,
};

const fw_comm_loops *fw_comm_loops_variant(const char *name) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if ((name == NULL || strcmp(variants[i]->name, name) == 0) && runs(variants[i])) return variants[i];
    return NULL;
}

static const fw_comm_loops *loops(void) {
    static const fw_comm_loops *_Atomic best;
    const fw_comm_loops *found = atomic_load_explicit(&best, memory_order_relaxed);
    if (found == NULL) {
        found = fw_comm_loops_variant(NULL);
        atomic_store_explicit(&best, found, memory_order_relaxed);
    }
    return found;
}

void fw_comm_sum(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype) {
    loops()->sum(out, out_n, in, in_n, n, dtype);
}

void fw_comm_copy(void *to, const void *from, size_t bytes) {
    if (to == from || bytes == 0) return;
    if (bytes < FW_COMM_PAST_CACHE_BYTES)
        memcpy(to, from, bytes);
    else
        loops()->copy_past_cache(to, from, bytes);
}
