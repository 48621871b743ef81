/* Partial sums of squares, in fp64: what is above or below fp32's range as a square still counts.
 *
 * Pieces of 4096 numbers are dealt to at most 2048 blocks in turn, so the order of the sum depends on n alone. A thread
 * adds up what it reads, a block its threads in a tree. One conversion and one product a number are within what GPUs
 * with few fp64 units can do while memory delivers 4 bytes. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 256, PIECE = 4096, BLOCKS_MAX = 2048, N = Pack<float>::N };

__device__ __forceinline__ double warp_sum_wide(double x) {
    for (int bits = 16; bits > 0; bits >>= 1) x += __shfl_xor_sync(0xffffffffu, x, bits);
    return x;
}

__global__ void __launch_bounds__(BLOCK) sum_squares(double *partial, const float *x, int64_t n, int is_aligned) {
    double sum = 0;
    for (int64_t piece = (int64_t)blockIdx.x * PIECE; piece < n; piece += (int64_t)gridDim.x * PIECE) {
        if (is_aligned && piece + PIECE <= n) {
            for (int i = 0; i < PIECE; i += BLOCK * N) {
                const Chunk<float, N> part = load_chunk<N>(x + piece + i + threadIdx.x * N);
                for (int k = 0; k < N; k++) sum += (double)part.v[k] * (double)part.v[k];
            }
        } else { /* the same numbers in the same order, wherever x begins */
            for (int i = 0; i < PIECE; i += BLOCK * N)
                for (int k = 0; k < N; k++) {
                    const int64_t at = piece + i + threadIdx.x * N + k;
                    const double value = at < n ? (double)x[at] : 0.0;
                    sum += value * value;
                }
        }
    }
    __shared__ double of_warp[BLOCK / 32];
    sum = warp_sum_wide(sum);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    sum = 0;
    for (int k = 0; k < BLOCK / 32; k++) sum += of_warp[k];
    partial[blockIdx.x] = sum;
}

} // namespace

int64_t fw_cuda_sum_squares_blocks(int64_t n) { return min(blocks_of(n, PIECE), (int64_t)BLOCKS_MAX); }

int fw_cuda_sum_squares(const fw_cuda_launch *l, double *partial, const float *x, int64_t n) {
    if (n == 0) return 0;
    FW_LAUNCH(sum_squares, (unsigned)fw_cuda_sum_squares_blocks(n), BLOCK, 0, stream_of(l), partial, x, n,
              (int)is_packed<float>(x, 0, 0));
    return launch_status();
}
