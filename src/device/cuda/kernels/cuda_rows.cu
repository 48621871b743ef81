/* Rows by number: y[i] = x[row[i]] (gather, which is also the embedding's forward) and y[row[i]] = x[i] in a y of zeros.
 * Also spread: compact rows into rows that are further apart.
 *
 * One thread a pack of a row. Elements are only moved, so rows are bytes here: 16 at a time where alignment allows, else
 * 4 or 2. Scatter writes zeros first and rows afterwards, n rows twice: to know the rows that get nothing would take a
 * table of N numbers, and the second write of a row as a rule meets the first in the cache. */
#include "device/cuda/kernels/flat.cuh"

namespace {

enum { BLOCK = 256 };

template <class Word>
__global__ void __launch_bounds__(BLOCK) gather(Word *y, const Word *x, const int32_t *row_n, int64_t n, int64_t C) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= n * C) return;
    int64_t at;
    const int64_t row = divide(i, C, &at);
    y[i] = x[(int64_t)row_n[row] * C + at];
}

template <class Word>
__global__ void __launch_bounds__(BLOCK) scatter(Word *y, const Word *x, const int32_t *row_n, int64_t n, int64_t C) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= n * C) return;
    int64_t at;
    const int64_t row = divide(i, C, &at);
    y[(int64_t)row_n[row] * C + at] = x[i];
}

template <class Word>
__global__ void __launch_bounds__(BLOCK) spread(Word *y, int64_t y_stride, const Word *x, int64_t n, int64_t C) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= n * C) return;
    int64_t at;
    const int64_t row = divide(i, C, &at);
    y[row * y_stride + at] = x[i];
}

template <class Word> struct Zero {
    Word *y;
    template <int N> __device__ __forceinline__ void at(int64_t i) const { y[i] = Word{}; }
};

/* C in words. */
template <class Word>
int launch_gather(const fw_cuda_launch *l, void *y, const void *x, const int32_t *row_n, int64_t n, int64_t C) {
    FW_LAUNCH((gather<Word>), (unsigned)blocks_of(n * C, BLOCK), BLOCK, 0, stream_of(l), (Word *)y, (const Word *)x,
              row_n, n, C);
    return launch_status();
}
template <class Word>
int launch_scatter(const fw_cuda_launch *l, void *y, const void *x, const int32_t *row_n, int64_t n, int64_t N,
                   int64_t C) {
    const int status = launch_flat<1>(l, Zero<Word>{(Word *)y}, N * C, false);
    if (status != 0 || n == 0) return status;
    FW_LAUNCH((scatter<Word>), (unsigned)blocks_of(n * C, BLOCK), BLOCK, 0, stream_of(l), (Word *)y, (const Word *)x,
              row_n, n, C);
    return launch_status();
}

template <class Word>
int launch_spread(const fw_cuda_launch *l, void *y, int64_t y_stride, const void *x, int64_t n, int64_t C) {
    FW_LAUNCH((spread<Word>), (unsigned)blocks_of(n * C, BLOCK), BLOCK, 0, stream_of(l), (Word *)y, y_stride,
              (const Word *)x, n, C);
    return launch_status();
}

template <class T> bool is_packed_both(const void *y, const void *x, int64_t C) {
    return is_packed<T>(y, C, C) && is_packed<T>(x, C, C);
}

} // namespace

int fw_cuda_gather_rows(const fw_cuda_launch *l, void *y, const void *x, const int32_t *row_n, int64_t n, int64_t C,
                        fw_dtype t) {
    if (n == 0) return 0;
    FW_BY_TYPE(t, if (is_packed_both<T>(y, x, C)) return launch_gather<uint4>(l, y, x, row_n, n, C / Pack<T>::N);
               return launch_gather<T>(l, y, x, row_n, n, C));
}

int fw_cuda_scatter_rows(const fw_cuda_launch *l, void *y, const void *x, const int32_t *row_n, int64_t n, int64_t N,
                         int64_t C, fw_dtype t) {
    FW_BY_TYPE(t, if (is_packed_both<T>(y, x, C)) return launch_scatter<uint4>(l, y, x, row_n, n, N, C / Pack<T>::N);
               return launch_scatter<T>(l, y, x, row_n, n, N, C));
}

int fw_cuda_spread_rows(const fw_cuda_launch *l, void *y, int64_t y_stride, const void *x, int64_t n, int64_t C,
                        fw_dtype t) {
    FW_BY_TYPE(t, if (is_packed<T>(y, C, y_stride) && is_packed<T>(x, C, C)) return launch_spread<uint4>(
                      l, y, y_stride / Pack<T>::N, x, n, C / Pack<T>::N);
               return launch_spread<T>(l, y, y_stride, x, n, C));
}
