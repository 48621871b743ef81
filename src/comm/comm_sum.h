/* Summation over ranks: out[i] = in[0][i] + in[1][i] + ... in this order, carried in fp32, rounded once at the end.
 * Every rank that sums the same inputs gets the same bits, whichever variant of the loops its CPU runs. And copies. */
#ifndef FW_COMM_COMM_SUM_H
#define FW_COMM_COMM_SUM_H

#include "base/dtype.h"

/* in_n >= 1 sources of n elements of FW_F32 or FW_BF16; the result goes to all out_n places. A place may be one of the
 * sources (exactly; no partial overlap). */
void fw_comm_sum(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype);

/* memcpy that takes to == from. From this size on it goes past the caches: measured 1.4 times as fast for 16 to 64 MiB,
 * while reading the result afterwards costs the same; below, the result is better kept in them. */
enum { FW_COMM_PAST_CACHE_BYTES = 16 << 20 };
void fw_comm_copy(void *to, const void *from, size_t bytes);

/* The loops of one CPU variant ("base", "avx2", "avx512"), or the best with NULL; NULL when this CPU does not run it. */
const struct fw_comm_loops *fw_comm_loops_variant(const char *name);

#endif
