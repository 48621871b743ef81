/* y[o] += sum over rows n of something that is read once for each (n, o).
 *
 * A block takes a slice of the rows and 32 packs of columns: each lane one pack, each warp every 8th row of the slice. It
 * leaves a row of partial sums; a second kernel adds these up. About 1000 blocks share the work, whatever the width; the
 * number of slices depends on the shape alone, and so does the order of the sums.
 *
 * What is summed is a struct with `template <int N> __device__ void add(float (&sum)[N], int64_t n, int64_t o) const`, for
 * columns o .. o + N - 1 of row n. */
#ifndef FW_DEVICE_CUDA_KERNELS_SUM_ROWS_CUH
#define FW_DEVICE_CUDA_KERNELS_SUM_ROWS_CUH

#include "device/cuda/kernels/column_sums.cuh"

namespace {

enum { SUM_BLOCK = 256, SUM_WARPS = SUM_BLOCK / 32, SUM_BLOCKS_WANTED = 1024, SUM_SLICE_MIN = 4 * SUM_WARPS };

__device__ __forceinline__ float *shared_of_sum_warps() {
    __shared__ float of_warp[SUM_WARPS * 32 * Pack<bf16>::N];
    return of_warp;
}

template <int N, class Rows>
__global__ void __launch_bounds__(SUM_BLOCK)
    sum_slice(float *partial_SO, Rows what, int64_t rows, int64_t slice_rows, int64_t O) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t first_o = (int64_t)blockIdx.x * 32 * N, o = first_o + lane * N;
    const int64_t first = blockIdx.y * slice_rows, end = min(first + slice_rows, rows);
    float sum[N] = {};
    if (o < O)
        for (int64_t n = first + warp; n < end; n += SUM_WARPS) what.template add<N>(sum, n, o);
    float *of_warp = shared_of_sum_warps();
    for (int k = 0; k < N; k++) of_warp[(warp * 32 + lane) * N + k] = sum[k];
    __syncthreads();
    for (int column = threadIdx.x; column < 32 * N; column += SUM_BLOCK) {
        float total = 0;
        for (int k = 0; k < SUM_WARPS; k++) total += of_warp[k * 32 * N + column];
        if (first_o + column < O) partial_SO[blockIdx.y * O + first_o + column] = total;
    }
}

/* Slices of the rows when a block takes `width` of O columns. */
int64_t sum_slices(int64_t rows, int64_t O, int64_t width) {
    const int64_t wanted = SUM_BLOCKS_WANTED / blocks_of(O, width);
    return max(min(wanted, blocks_of(rows, SUM_SLICE_MIN)), (int64_t)1);
}

template <int N, class Rows>
int launch_sum_rows(const fw_cuda_launch *l, float *y, Rows what, int64_t rows, int64_t O) {
    const int64_t slices = sum_slices(rows, O, 32 * N), slice_rows = blocks_of(rows, slices);
    const int64_t used = blocks_of(rows, slice_rows);
    float *partial = (float *)l->scratch;
    FW_LAUNCH((sum_slice<N, Rows>), dim3((unsigned)blocks_of(O, 32 * N), (unsigned)used), SUM_BLOCK, 0, stream_of(l),
              partial, what, rows, slice_rows, O);
    const int status = launch_status();
    return status != 0 ? status : launch_column_sums(l, y, partial, (int)used, O);
}

/* A slice more than fits is never made: slices * O <= SUM_BLOCKS_WANTED * width, or O when one slice is all. */
size_t sum_rows_scratch(const fw_cuda_limits *limits) {
    const int64_t by_blocks = (int64_t)SUM_BLOCKS_WANTED * 32 * Pack<bf16>::N;
    const int64_t by_rows = blocks_of(max(limits->N, (int64_t)1), SUM_SLICE_MIN) * limits->dim;
    return (size_t)max(min(by_blocks, by_rows), limits->dim) * sizeof(float);
}

} // namespace

#endif
