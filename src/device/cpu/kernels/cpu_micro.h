/* The inner loop of every matrix product: MR rows by NR columns of C in registers, one column of A times
 * one row of B at a time.
 *
 * A(r, k) lies at a + r * a_row + k * a_k (both constants where this is inlined), B(k, j) at b + k * b_k + j.
 * MR and NR fill the register file: accumulators, one row of B, one broadcast. */
#ifndef FW_DEVICE_CPU_KERNELS_MICRO_H
#define FW_DEVICE_CPU_KERNELS_MICRO_H

#include "device/cpu/kernels/cpu_vec.h"

#if FW_WIDTH == 16
enum { FW_MR = 12, FW_NR = 32 }; /* 24 + 2 + 1 of 32 registers */
#elif FW_WIDTH == 8
enum { FW_MR = 6, FW_NR = 16 }; /* 12 + 2 + 1 of 16 */
#elif defined(__aarch64__)
enum { FW_MR = 6, FW_NR = 16 }; /* 24 + 4 + 1 of 32 */
#else
enum { FW_MR = 2, FW_NR = 16 }; /* 8 + 4 + 1 of 16 */
#endif
enum { FW_NV = FW_NR / FW_WIDTH };

FW_INLINE void fw_micro(fw_vn c[FW_MR][FW_NV], const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t b_k,
                        int64_t K) {
    FW_UNROLL for (int r = 0; r < FW_MR; r++) { FW_UNROLL for (int j = 0; j < FW_NV; j++) c[r][j] = (fw_vn){0}; }
    for (int64_t k = 0; k < K; k++) {
        fw_vn row[FW_NV];
        FW_UNROLL for (int j = 0; j < FW_NV; j++) row[j] = vn_load(b + j * FW_WIDTH);
        FW_UNROLL for (int r = 0; r < FW_MR; r++) {
            fw_vn value = vn_set(a[r * a_row]);
            FW_UNROLL for (int j = 0; j < FW_NV; j++) c[r][j] += value * row[j];
        }
        a += a_k;
        b += b_k;
    }
}

#endif
