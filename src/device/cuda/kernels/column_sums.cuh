/* y[c] += sum over p of partial[p][c]: the second half of sums over many rows, whose first half left P partial sums.
 *
 * A block takes 32 columns; its 16 warps take every 16th partial sum each, then one adds up what the 16 have. */
#ifndef FW_DEVICE_CUDA_KERNELS_COLUMN_SUMS_CUH
#define FW_DEVICE_CUDA_KERNELS_COLUMN_SUMS_CUH

#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { COLUMN_WARPS = 16 };

__global__ void __launch_bounds__(32 * COLUMN_WARPS)
    add_column_sums(float *y_C, const float *partial_PC, int P, int64_t C) {
    __shared__ float of_warp[COLUMN_WARPS][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t c = (int64_t)blockIdx.x * 32 + lane;
    float sum = 0;
    if (c < C)
        for (int p = warp; p < P; p += COLUMN_WARPS) sum += partial_PC[p * C + c];
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= C) return;
    sum = 0;
    for (int k = 0; k < COLUMN_WARPS; k++) sum += of_warp[k][lane];
    y_C[c] += sum;
}

int launch_column_sums(const fw_cuda_launch *l, float *y_C, const float *partial_PC, int P, int64_t C) {
    FW_LAUNCH(add_column_sums, (unsigned)blocks_of(C, 32), 32 * COLUMN_WARPS, 0, stream_of(l), y_C, partial_PC, P, C);
    return launch_status();
}

} // namespace

#endif
