/* Small kernels for tests of the emulation itself (device/simt): what each computes is beside it; the faulty ones hold
 * one error each. */
#ifndef FW_TESTS_SUPPORT_SIMT_KERNELS_H
#define FW_TESTS_SUPPORT_SIMT_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FW_SIMT_LAB_SHUFFLES = 4 };

/* out[thread] = {block x, y, z, thread x, y, z} by linear index of all, for a 2 x 2 x 2 grid of 8 x 4 x 2 threads. */
void fw_simt_lab_places(int32_t *out);
/* in, out: 64 doubles. out[k][i], k of FW_SIMT_LAB_SHUFFLES: lane i xor 5, lane i + 3 (own value at the end), lane 7,
 * lane (i * 11) % 32, each of the own warp. */
void fw_simt_lab_shuffles(double *out, const double *in);
/* out[i]: the ballot of odd in[i] over the warp of i; 64 threads. */
void fw_simt_lab_ballot(uint32_t *out, const int32_t *in);
/* out[i]: the ballot of the first 8 lanes only, a sum over them by shuffles after it; 32 threads, the rest writes 0. */
void fw_simt_lab_part_of_warp(int32_t *out, const int32_t *in);
/* out[2 b], out[2 b + 1]: sum and largest of in[n b .. n b + n - 1], a block of n threads each. */
void fw_simt_lab_block_sums(float *out, const float *in, int n, int block_n);
/* out[lane][i]: what the lane gets from four 8 x 8 matrices in[i][row][column], plain or transposed. */
void fw_simt_lab_matrices(uint16_t (*out)[8], const uint16_t *in, int transposed);
/* d[16][8] = a[16][16] b[8][16]^T + d, bf16 from shared memory by ldmatrix, as attention has it. */
void fw_simt_lab_product(float *d, const uint16_t *a, const uint16_t *b);
/* Two groups of cp.async, 32 x 4 floats each: out[0 .. 127] the first group after wait<1>, out[128 .. 255] the second
 * after wait<0>. in: 256 floats. */
void fw_simt_lab_async(float *out, const float *in);

/* ---- faulty ones; `out` and `in` have 256 floats */
void fw_simt_lab_missing_barrier(float *out, const float *in);      /* reads a neighbour's element of shared memory */
void fw_simt_lab_early_overwrite(float *out, const float *in);      /* 64 threads, sums of 4 tiles of 64 floats */
void fw_simt_lab_early_read(float *out, const float *in);           /* 64 threads, a tile of 64 floats backwards */
void fw_simt_lab_early_reuse(float *out, const float *in);          /* 256 threads, three times the sum of in */
void fw_simt_lab_missing_warp_barrier(float *out, const float *in); /* 32 threads, in backwards */
void fw_simt_lab_unread_async(float *out, const float *in);         /* no wait before the data is used */
void fw_simt_lab_divergent_collective(float *out);                  /* even and odd lanes at two shuffles */
void fw_simt_lab_missing_lane(float *out);                          /* lane 31 goes by the shuffle */
void fw_simt_lab_foreign_mask(float *out);                          /* lanes call with a mask they are not in */
void fw_simt_lab_foreign_source(float *out);                        /* reads from a lane outside the mask */
void fw_simt_lab_divergent_barrier(float *out);                     /* two __syncthreads on two sides of an if */
void fw_simt_lab_barrier_after_exit(float *out);                    /* half of the threads have returned */
void fw_simt_lab_barrier_and_collective(float *out);          /* one warp at a shuffle with one lane at a barrier */
void fw_simt_lab_endless_groups(float *out, const float *in); /* cp.async groups never waited for */
void fw_simt_lab_async_to_global(float *out, const float *in);
void fw_simt_lab_async_unaligned(float *out, const float *in);
void fw_simt_lab_matrices_from_global(float *out, const float *in);
void fw_simt_lab_reads_behind(float *out, const float *in, int64_t n); /* out[0] = in[0] + in[n] */
void fw_simt_lab_writes_behind(float *out, int64_t n);                 /* element n of out */
void fw_simt_lab_shared_behind(float *out);                            /* an element behind dynamic shared memory */
void fw_simt_lab_deep_stack(float *out);                               /* more stack than a thread has */
void fw_simt_lab_launch(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared_bytes);

#ifdef __cplusplus
}
#endif

#endif
