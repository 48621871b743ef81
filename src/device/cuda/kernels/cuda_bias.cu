/* y += b for every row (for products without an epilogue), and its gradient db += sum over rows of dy.
 *
 * Backward, a block takes a slice of the rows and 32 packs of columns: each lane one pack, each warp every 8th row of the
 * slice. It leaves a row of partial sums; a second kernel adds these up. About 1000 blocks share the work, whatever the
 * width; the number of slices depends on the shape alone, and so does the order of the sums. dy is read once. */
#include "device/cuda/kernels/column_sums.cuh"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / 32, BLOCKS_WANTED = 1024, SLICE_ROWS_MIN = 4 * WARPS };

template <class T_y, class T_b, int N>
__global__ void __launch_bounds__(BLOCK) forward(T_y *y_NO, const T_b *b_O, int64_t chunk_n, int64_t O) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= chunk_n) return;
    int64_t o;
    divide(i * N, O, &o);
    const Chunk<T_y, N> y = load_chunk<N>(y_NO + i * N);
    const Chunk<T_b, N> b = load_chunk<N>(b_O + o);
    float sum[N];
    for (int k = 0; k < N; k++) sum[k] = element(y, k) + element(b, k);
    store_chunk(y_NO + i * N, chunk_of<T_y>(sum));
}

__device__ __forceinline__ float *shared_of_warps() {
    __shared__ float of_warp[WARPS * 32 * Pack<bf16>::N];
    return of_warp;
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    backward(float *partial_SO, const T *dy_NO, int64_t rows, int64_t slice_rows, int64_t O) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t first_o = (int64_t)blockIdx.x * 32 * N, o = first_o + lane * N;
    const int64_t first = blockIdx.y * slice_rows, end = min(first + slice_rows, rows);
    float sum[N] = {};
    if (o < O) {
        for (int64_t n = first + warp; n < end; n += WARPS) {
            const Chunk<T, N> dy = load_chunk<N>(dy_NO + n * O + o);
            for (int k = 0; k < N; k++) sum[k] += element(dy, k);
        }
    }
    float *of_warp = shared_of_warps();
    for (int k = 0; k < N; k++) of_warp[(warp * 32 + lane) * N + k] = sum[k];
    __syncthreads();
    for (int column = threadIdx.x; column < 32 * N; column += BLOCK) {
        float total = 0;
        for (int k = 0; k < WARPS; k++) total += of_warp[k * 32 * N + column];
        if (first_o + column < O) partial_SO[blockIdx.y * O + first_o + column] = total;
    }
}

/* Slices of the rows when a block takes `width` of O columns. */
int64_t slices_of(int64_t rows, int64_t O, int64_t width) {
    const int64_t wanted = BLOCKS_WANTED / blocks_of(O, width);
    return max(min(wanted, blocks_of(rows, SLICE_ROWS_MIN)), (int64_t)1);
}

template <class T_y, class T_b>
int launch_forward(const fw_cuda_launch *l, T_y *y, const T_b *b, int64_t rows, int64_t O) {
    enum { N = 16 / (sizeof(T_y) < sizeof(T_b) ? sizeof(T_y) : sizeof(T_b)) };
    if (is_chunked<T_y, N>(y, O, O) && is_chunked<T_b, N>(b, O, O))
        FW_LAUNCH((forward<T_y, T_b, N>), (unsigned)blocks_of(rows * O / N, BLOCK), BLOCK, 0, stream_of(l), y, b,
                  rows * O / N, O);
    else
        FW_LAUNCH((forward<T_y, T_b, 1>), (unsigned)blocks_of(rows * O, BLOCK), BLOCK, 0, stream_of(l), y, b, rows * O,
                  O);
    return launch_status();
}

template <class T, int N>
int launch_backward(const fw_cuda_launch *l, float *db, const T *dy, int64_t rows, int64_t O) {
    const int64_t slices = slices_of(rows, O, 32 * N), slice_rows = blocks_of(rows, slices);
    const int64_t used = blocks_of(rows, slice_rows);
    float *partial = (float *)l->scratch;
    FW_LAUNCH((backward<T, N>), dim3((unsigned)blocks_of(O, 32 * N), (unsigned)used), BLOCK, 0, stream_of(l), partial,
              dy, rows, slice_rows, O);
    const int status = launch_status();
    return status != 0 ? status : launch_column_sums(l, db, partial, (int)used, O);
}

template <class T> int run_backward(const fw_cuda_launch *l, float *db, const T *dy, int64_t rows, int64_t O) {
    if (is_packed<T>(dy, O, O)) return launch_backward<T, Pack<T>::N>(l, db, dy, rows, O);
    return launch_backward<T, 1>(l, db, dy, rows, O);
}

} // namespace

/* A slice more than fits is never made: slices * O <= BLOCKS_WANTED * width, or O when one slice is all. */
size_t fw_cuda_scratch_bias_backward(const fw_cuda_limits *limits) {
    const int64_t by_blocks = (int64_t)BLOCKS_WANTED * 32 * Pack<bf16>::N;
    const int64_t by_rows = blocks_of(max(limits->N, (int64_t)1), SLICE_ROWS_MIN) * limits->dim;
    return (size_t)max(min(by_blocks, by_rows), limits->dim) * sizeof(float);
}

int fw_cuda_bias_forward(const fw_cuda_launch *l, void *y, const void *b, int64_t N, int64_t O, fw_dtype t_b,
                         fw_dtype t_y) {
    if (N == 0) return 0;
    if (t_b == FW_F32) FW_BY_TYPE(t_y, return launch_forward(l, (T *)y, (const float *)b, N, O));
    FW_BY_TYPE(t_y, return launch_forward(l, (T *)y, (const bf16 *)b, N, O));
}

int fw_cuda_bias_backward(const fw_cuda_launch *l, float *db, const void *dy, int64_t N, int64_t O, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return run_backward(l, db, (const T *)dy, N, O));
}
