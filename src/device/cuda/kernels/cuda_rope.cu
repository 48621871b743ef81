/* RoPE, in place: a' = a cos - b sin, b' = b cos + a sin for the pairs (x[e], x[e + E]) of every head, E = D / 2.
 *
 * One thread a pack of pairs: it reads and writes each element once. The rows of the tables, 8 bytes a pair, come from the
 * first-level cache but for the first head of a token: a block's threads are those of neighbouring heads. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 256 };

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    rope(T *x, int64_t x_stride, const float *cos_PE, const float *sin_PE, const int32_t *position_N, int64_t chunk_n,
         int64_t G, int64_t E, float sign) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= chunk_n) return;
    int64_t e, g;
    const int64_t n = divide(divide(i, E / N, &e), G, &g);
    e *= N;
    const int64_t table = position_N[n] * E + e;
    T *first = x + n * x_stride + g * 2 * E + e;
    Chunk<T, N> a = load_chunk<N>(first), b = load_chunk<N>(first + E);
    const Chunk<float, N> cosine = load_chunk<N>(cos_PE + table), sine = load_chunk<N>(sin_PE + table);
    for (int k = 0; k < N; k++) {
        const float a_k = to_float(a.v[k]), b_k = to_float(b.v[k]), s = sign * sine.v[k];
        a.v[k] = from_float<T>(a_k * cosine.v[k] - b_k * s);
        b.v[k] = from_float<T>(b_k * cosine.v[k] + a_k * s);
    }
    store_chunk(first, a);
    store_chunk(first + E, b);
}

template <class T, int N>
int launch(const fw_cuda_launch *l, T *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
           const int32_t *position_N, int64_t rows, int64_t G, int64_t E, float sign) {
    const int64_t chunk_n = rows * G * (E / N);
    FW_LAUNCH((rope<T, N>), (unsigned)blocks_of(chunk_n, BLOCK), BLOCK, 0, stream_of(l), x, x_stride, cos_PE, sin_PE,
              position_N, chunk_n, G, E, sign);
    return launch_status();
}

template <class T>
int launch_aligned(const fw_cuda_launch *l, T *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                   const int32_t *position_N, int64_t rows, int64_t G, int64_t E, float sign) {
    enum { N = Pack<T>::N };
    if (is_packed<T>(x, E, x_stride) && is_chunked<float, N>(cos_PE, E, E) && is_chunked<float, N>(sin_PE, E, E))
        return launch<T, N>(l, x, x_stride, cos_PE, sin_PE, position_N, rows, G, E, sign);
    return launch<T, 1>(l, x, x_stride, cos_PE, sin_PE, position_N, rows, G, E, sign);
}

} // namespace

int fw_cuda_rope(const fw_cuda_launch *l, void *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                 const int32_t *position_N, int64_t N, int64_t G, int64_t D, int direction, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return launch_aligned<T>(l, (T *)x, x_stride, cos_PE, sin_PE, position_N, N, G, D / 2,
                                           direction < 0 ? -1.0f : 1.0f));
}
