/* The loops behind comm_sum.h, compiled once per CPU variant. All variants give the same bits: sums are made in the
 * order of `in`, element by element, and rounded as base/dtype.h does. */
#ifndef FW_COMM_KERNELS_COMM_SUM_LOOPS_H
#define FW_COMM_KERNELS_COMM_SUM_LOOPS_H

#include "base/dtype.h"

typedef struct fw_comm_loops {
    const char *name;
    /* As fw_comm_sum. */
    void (*sum)(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype);
    /* As memcpy, past the caches: for results that are larger than those. */
    void (*copy_past_cache)(void *to, const void *from, size_t bytes);
} fw_comm_loops;

extern const fw_comm_loops fw_comm_loops_base; /* SSE2, NEON, or what the compiler makes of it */
#if defined(__x86_64__)
extern const fw_comm_loops fw_comm_loops_avx2, fw_comm_loops_avx512;
#endif

#endif
