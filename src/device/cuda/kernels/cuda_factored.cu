/* Adafactor's second moments by rows and columns (device/device.h, factored_sums and below). Sums have an order that depends on
 * the shape alone: a warp makes a row's, a thread a column's; the mean over rows is one thread block's. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / 32 };

__device__ __forceinline__ float square(float g, float scale, float epsilon) {
    const float gradient = g * scale;
    return gradient * gradient + epsilon;
}

/* Of elements [first, first + n) of the matrix, row r has the columns [*begin, *end). */
__device__ __forceinline__ void columns_of(int64_t r, int64_t first, int64_t n, int64_t C, int64_t *begin,
                                           int64_t *end) {
    const int64_t from = first - r * C, to = first + n - r * C;
    *begin = from > 0 ? from : 0;
    *end = to < C ? to : C;
}

__global__ void __launch_bounds__(BLOCK)
    sum_rows(float *row, const float *g, int64_t first, int64_t n, int64_t R, int64_t C, float scale, float epsilon) {
    const int64_t r = (int64_t)blockIdx.x * WARPS + (int64_t)(threadIdx.x / 32);
    if (r >= R) return;
    int64_t begin, end;
    columns_of(r, first, n, C, &begin, &end);
    float sum = 0;
    for (int64_t c = begin + (int64_t)(threadIdx.x % 32); c < end; c += 32)
        sum += square(g[r * C + c - first], scale, epsilon);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) row[r] = sum;
}

/* A long column is carried in fp64. */
__global__ void __launch_bounds__(BLOCK) sum_columns(float *col, const float *g, int64_t first, int64_t n, int64_t R,
                                                     int64_t C, float scale, float epsilon) {
    const int64_t c = thread_of_grid<BLOCK>();
    if (c >= C) return;
    double sum = 0;
    for (int64_t r = first / C; r < R && r * C < first + n; r++) {
        const int64_t i = r * C + c - first;
        if (i >= 0 && i < n) sum += (double)square(g[i], scale, epsilon);
    }
    col[c] = (float)sum;
}

__global__ void __launch_bounds__(BLOCK)
    moments_of_rows(float *row, float *sum, int64_t R, int64_t C, float beta2, float rest) {
    __shared__ float part[WARPS];
    float total = 0;
    for (int64_t r = (int64_t)threadIdx.x; r < R; r += BLOCK) {
        row[r] = beta2 * row[r] + rest * (sum[r] / (float)C);
        total += row[r];
    }
    total = warp_sum(total);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0;
    for (int i = 0; i < WARPS; i++) total += part[i];
    const float mean = total / (float)R;
    for (int64_t r = (int64_t)threadIdx.x; r < R; r += BLOCK) sum[r] = sqrtf(mean / row[r]);
}

__global__ void __launch_bounds__(BLOCK)
    moments_of_columns(float *col, float *sum, int64_t R, int64_t C, float beta2, float rest) {
    const int64_t c = thread_of_grid<BLOCK>();
    if (c >= C) return;
    col[c] = beta2 * col[c] + rest * (sum[c] / (float)R);
    sum[c] = 1.0f / sqrtf(col[c]);
}

__global__ void __launch_bounds__(BLOCK)
    scale_by_factors(float *g, const float *factor, int64_t first, int64_t n, int64_t R, int64_t C, float scale) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= n) return;
    int64_t c;
    const int64_t r = divide(first + i, C, &c);
    g[i] *= factor[r] * scale * factor[R + c];
}

} // namespace

int fw_cuda_factored_sums(const fw_cuda_launch *l, float *row, float *col, const float *g, int64_t first, int64_t n,
                          int64_t R, int64_t C, float grad_scale, float epsilon) {
    FW_LAUNCH((sum_rows), (unsigned)blocks_of(R, WARPS), BLOCK, 0, stream_of(l), row, g, first, n, R, C, grad_scale,
              epsilon);
    FW_LAUNCH((sum_columns), (unsigned)blocks_of(C, BLOCK), BLOCK, 0, stream_of(l), col, g, first, n, R, C, grad_scale,
              epsilon);
    return launch_status();
}

int fw_cuda_factored_moments(const fw_cuda_launch *l, float *row, float *col, float *sum, int64_t R, int64_t C,
                             float beta2) {
    const float rest = (float)(1 - (double)beta2);
    FW_LAUNCH((moments_of_rows), 1u, BLOCK, 0, stream_of(l), row, sum, R, C, beta2, rest);
    FW_LAUNCH((moments_of_columns), (unsigned)blocks_of(C, BLOCK), BLOCK, 0, stream_of(l), col, sum + R, R, C, beta2,
              rest);
    return launch_status();
}

int fw_cuda_factored_direction(const fw_cuda_launch *l, float *g, const float *factor, int64_t first, int64_t n,
                               int64_t R, int64_t C, float grad_scale) {
    FW_LAUNCH((scale_by_factors), (unsigned)blocks_of(n, BLOCK), BLOCK, 0, stream_of(l), g, factor, first, n, R, C,
              grad_scale);
    return launch_status();
}
