/* y = keep ? x / (1 - p) : 0, or that added to y. What is kept is a function of the row's key, the salt and the channel
 * (device/dropout.h).
 *
 * One thread a pack of a row. It mixes the row's key itself, 3 multiplications of 64 bits, and 2 of 32 bits for each
 * element: less than the memory takes for 16 bytes in and 16 out. */
#include "device/cuda/kernels/gpu.cuh"
#include "device/dropout.h"

namespace {

enum { BLOCK = 256 };

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    drop(T *y_NC, const T *x_NC, bool add, const uint64_t *key_N, uint64_t salt, uint32_t threshold, float scale,
         int64_t pack_n, int64_t C) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= pack_n) return;
    int64_t c;
    const uint64_t row = fw_dropout_row(key_N[divide(i * N, C, &c)], salt);
    const Chunk<T, N> x = load_chunk<N>(x_NC + i * N);
    float value[N];
    for (int k = 0; k < N; k++)
        value[k] = fw_dropout_bits(row, (uint32_t)(c + k)) >= threshold ? element(x, k) * scale : 0.0f;
    if (add) {
        const Chunk<T, N> y = load_chunk<N>(y_NC + i * N);
        for (int k = 0; k < N; k++) value[k] += element(y, k);
    }
    store_chunk(y_NC + i * N, chunk_of<T>(value));
}

template <class T, int N>
int launch(const fw_cuda_launch *l, T *y, const T *x, bool add, const uint64_t *key, uint64_t salt, float p,
           int64_t rows, int64_t C) {
    FW_LAUNCH((drop<T, N>), (unsigned)blocks_of(rows * C / N, BLOCK), BLOCK, 0, stream_of(l), y, x, add, key, salt,
              fw_dropout_threshold(p), fw_dropout_scale(p), rows * C / N, C);
    return launch_status();
}

template <class T>
int run(const fw_cuda_launch *l, T *y, const T *x, bool add, const uint64_t *key, uint64_t salt, float p, int64_t rows,
        int64_t C) {
    if (is_packed<T>(y, C, C) && is_packed<T>(x, C, C))
        return launch<T, Pack<T>::N>(l, y, x, add, key, salt, p, rows, C);
    return launch<T, 1>(l, y, x, add, key, salt, p, rows, C);
}

} // namespace

int fw_cuda_dropout(const fw_cuda_launch *l, void *y, const void *x, int add, const uint64_t *key, uint64_t salt,
                    float p, int64_t N, int64_t C, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return run(l, (T *)y, (const T *)x, add != 0, key, salt, p, N, C));
}
