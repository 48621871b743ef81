/* y += b for every row (for products without an epilogue), and its gradient db += sum over rows of dy: a sum of rows
 * (sum_rows.cuh), which reads dy once. */
#include "device/cuda/kernels/sum_rows.cuh"

namespace {

enum { BLOCK = 256 };

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

template <class T> struct Gradients {
    const T *dy_NO;
    int64_t O;
    template <int N> __device__ __forceinline__ void add(float (&sum)[N], int64_t n, int64_t o) const {
        const Chunk<T, N> dy = load_chunk<N>(dy_NO + n * O + o);
        for (int k = 0; k < N; k++) sum[k] += element(dy, k);
    }
};

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

template <class T> int run_backward(const fw_cuda_launch *l, float *db, const T *dy, int64_t rows, int64_t O) {
    const Gradients<T> gradients = {dy, O};
    if (is_packed<T>(dy, O, O)) return launch_sum_rows<Pack<T>::N>(l, db, gradients, rows, O);
    return launch_sum_rows<1>(l, db, gradients, rows, O);
}

} // namespace

size_t fw_cuda_scratch_bias_backward(const fw_cuda_limits *limits) { return sum_rows_scratch(limits); }

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
