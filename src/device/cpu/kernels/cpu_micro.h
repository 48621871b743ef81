/* The inner loop of every matrix product: MR rows by NR columns of C in registers, one column of A times
 * one row of B at a time.
 *
 * A(r, k) lies at a + r * a_row + k * a_k (constants where this is inlined, as MR and NR are), B(k, j) at
 * b + k * b_k + j. MR and NR fill the register file: accumulators, one row of B, one broadcast. */
#ifndef FW_DEVICE_CPU_KERNELS_MICRO_H
#define FW_DEVICE_CPU_KERNELS_MICRO_H

#include "device/cpu/kernels/cpu_vec.h"

#if FW_WIDTH == 16
enum { FW_MR = 8, FW_NR = 48 }; /* 24 + 3 + 1 of 32 registers */
#elif FW_WIDTH == 8
enum { FW_MR = 6, FW_NR = 16 }; /* 12 + 2 + 1 of 16 */
#elif defined(__aarch64__)
enum { FW_MR = 6, FW_NR = 16 }; /* 24 + 4 + 1 of 32 */
#else
enum { FW_MR = 2, FW_NR = 16 }; /* 8 + 4 + 1 of 16 */
#endif
enum { FW_NV = FW_NR / FW_WIDTH };

/* c[mr][nv], nv native registers wide. prefetch: rows of B to ask for ahead; pays where B comes from the
 * second-level cache. */
FW_INLINE void fw_micro(fw_vn *c, int mr, int nv, const float *a, int64_t a_row, int64_t a_k, const float *b,
                        int64_t b_k, int64_t K, int prefetch) {
    FW_UNROLL for (int r = 0; r < mr; r++) { FW_UNROLL for (int j = 0; j < nv; j++) c[r * nv + j] = (fw_vn){0}; }
    for (int64_t k = 0; k < K; k++) {
        fw_vn row[4];
        FW_UNROLL for (int j = 0; j < nv; j++) row[j] = vn_load(b + j * FW_WIDTH);
        if (prefetch > 0)
            FW_UNROLL for (int j = 0; j < nv * FW_WIDTH; j += 16) __builtin_prefetch(b + prefetch * b_k + j);
        FW_UNROLL for (int r = 0; r < mr; r++) {
            fw_vn value = vn_set(a[r * a_row]);
            FW_UNROLL for (int j = 0; j < nv; j++) c[r * nv + j] += value * row[j];
        }
        a += a_k;
        b += b_k;
    }
}

#endif
