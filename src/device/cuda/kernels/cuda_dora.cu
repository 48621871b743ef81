/* DoRA: norm[o] = || W[o] + scale B[o] A ||, y = keep y + factor x m / norm + b, and dm += sum over rows of dy z / norm.
 *
 * Norms: a block takes 8 rows of W and walks along them, 4 columns a thread. For each of the R ranks a thread reads its 4
 * columns of A and, from shared memory, the 8 rows' numbers of B, and does 32 multiply-adds. W is read once, A by every
 * block (from the L2 cache: R x I is small). Ranks go in tiles of 256, of which there is one as a rule.
 * Scales: one thread a pack of a row; m, norm and b stay in caches, so the rows set the time.
 * Magnitudes: a sum of rows (sum_rows.cuh). */
#include "device/cuda/kernels/sum_rows.cuh"

namespace {

enum { BLOCK = 256, ROWS = 8, RANKS = 256 };

struct __align__(16) Tile {
    float of_rank[RANKS][ROWS];
};
__device__ __forceinline__ Tile *shared_tile() {
    __shared__ Tile tile;
    return &tile;
}
__device__ __forceinline__ float *shared_sums() {
    __shared__ float sums[32];
    return sums;
}

/* B[o .. o + ROWS - 1][r0 .. r0 + RANKS - 1], zeros past the end. */
template <class T>
__device__ __forceinline__ void load_tile(Tile *tile, const T *b_OR, int64_t o, int64_t r0, int64_t O, int64_t R) {
    for (int i = threadIdx.x; i < RANKS * ROWS; i += BLOCK) {
        const int k = i / RANKS, r = i % RANKS;
        tile->of_rank[r][k] = o + k < O && r0 + r < R ? to_float(b_OR[(o + k) * R + r0 + r]) : 0.0f;
    }
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    norms(float *norm_O, const T *w_OI, const T *a_RI, const T *b_OR, float scale, int64_t O, int64_t I, int64_t R) {
    Tile *tile = shared_tile();
    const int64_t o = (int64_t)blockIdx.x * ROWS;
    float squares[ROWS] = {};
    for (int64_t first = 0; first < I; first += BLOCK * N) {
        const int64_t i = first + threadIdx.x * N;
        float product[ROWS][N] = {};
        for (int64_t r0 = 0; r0 < R; r0 += RANKS) {
            if (first == 0 || R > RANKS) {
                __syncthreads();
                load_tile(tile, b_OR, o, r0, O, R);
                __syncthreads();
            }
            const int ranks = (int)min(R - r0, (int64_t)RANKS);
            for (int r = 0; r < ranks && i < I; r++) {
                const Chunk<T, N> a = load_chunk<N>(a_RI + (r0 + r) * I + i);
                FW_UNROLL for (int k = 0; k < ROWS; k++) {
                    const float b = tile->of_rank[r][k];
                    FW_UNROLL for (int j = 0; j < N; j++) product[k][j] += b * element(a, j);
                }
            }
        }
        FW_UNROLL for (int k = 0; k < ROWS; k++) {
            if (i >= I || o + k >= O) continue;
            const Chunk<T, N> w = load_chunk<N>(w_OI + (o + k) * I + i);
            FW_UNROLL for (int j = 0; j < N; j++) {
                const float value = element(w, j) + scale * product[k][j];
                squares[k] += value * value;
            }
        }
    }
    FW_UNROLL for (int k = 0; k < ROWS; k++) {
        const float sum = block_sum(squares[k], shared_sums());
        if (threadIdx.x == 0 && o + k < O) norm_O[o + k] = sqrtf(sum);
    }
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    scale_columns(T *y_at, int64_t y_stride, float keep, const T *x_at, int64_t x_stride, float factor, const T *m_O,
                  const float *norm_O, const T *b_O, int64_t pack_n, int64_t O) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= pack_n) return;
    int64_t o;
    const int64_t n = divide(i * N, O, &o);
    const Chunk<T, N> x = load_chunk<N>(x_at + n * x_stride + o);
    float value[N];
    for (int k = 0; k < N; k++) value[k] = factor * element(x, k);
    if (m_O != nullptr) {
        const Chunk<T, N> m = load_chunk<N>(m_O + o);
        for (int k = 0; k < N; k++) value[k] *= element(m, k) / norm_O[o + k];
    }
    if (b_O != nullptr) {
        const Chunk<T, N> b = load_chunk<N>(b_O + o);
        for (int k = 0; k < N; k++) value[k] += element(b, k);
    }
    T *to = y_at + n * y_stride + o;
    if (keep != 0.0f) {
        const Chunk<T, N> y = load_chunk<N>(to);
        for (int k = 0; k < N; k++) value[k] += keep * element(y, k);
    }
    store_chunk(to, chunk_of<T>(value));
}

template <class T> struct Magnitudes {
    const T *dy_at, *z_at;
    int64_t dy_stride, z_stride;
    const float *norm_O;
    template <int N> __device__ __forceinline__ void add(float (&sum)[N], int64_t n, int64_t o) const {
        const Chunk<T, N> dy = load_chunk<N>(dy_at + n * dy_stride + o), z = load_chunk<N>(z_at + n * z_stride + o);
        for (int k = 0; k < N; k++) sum[k] += element(dy, k) * element(z, k) / norm_O[o + k];
    }
};

template <class T>
int run_norm(const fw_cuda_launch *l, float *norm, const T *w, const T *a, const T *b, float scale, int64_t O,
             int64_t I, int64_t R) {
    const unsigned grid = (unsigned)blocks_of(O, ROWS);
    if (is_chunked<T, 4>(w, I, I) && is_chunked<T, 4>(a, I, I))
        FW_LAUNCH((norms<T, 4>), grid, BLOCK, 0, stream_of(l), norm, w, a, b, scale, O, I, R);
    else
        FW_LAUNCH((norms<T, 1>), grid, BLOCK, 0, stream_of(l), norm, w, a, b, scale, O, I, R);
    return launch_status();
}

template <class T, int N>
int launch_scale(const fw_cuda_launch *l, T *y, int64_t y_stride, float keep, const T *x, int64_t x_stride,
                 float factor, const T *m, const float *norm, const T *b, int64_t rows, int64_t O) {
    FW_LAUNCH((scale_columns<T, N>), (unsigned)blocks_of(rows * O / N, BLOCK), BLOCK, 0, stream_of(l), y, y_stride,
              keep, x, x_stride, factor, m, norm, b, rows * O / N, O);
    return launch_status();
}
template <class T>
int run_scale(const fw_cuda_launch *l, T *y, int64_t y_stride, float keep, const T *x, int64_t x_stride, float factor,
              const T *m, const float *norm, const T *b, int64_t rows, int64_t O) {
    enum { N = Pack<T>::N };
    if (is_packed<T>(y, O, y_stride) && is_packed<T>(x, O, x_stride) && is_packed<T>(m, O, O) && is_packed<T>(b, O, O))
        return launch_scale<T, N>(l, y, y_stride, keep, x, x_stride, factor, m, norm, b, rows, O);
    return launch_scale<T, 1>(l, y, y_stride, keep, x, x_stride, factor, m, norm, b, rows, O);
}

template <class T>
int run_backward_m(const fw_cuda_launch *l, float *dm, const T *dy, int64_t dy_stride, const T *z, int64_t z_stride,
                   const float *norm, int64_t rows, int64_t O) {
    const Magnitudes<T> magnitudes = {dy, z, dy_stride, z_stride, norm};
    if (is_packed<T>(dy, O, dy_stride) && is_packed<T>(z, O, z_stride))
        return launch_sum_rows<Pack<T>::N>(l, dm, magnitudes, rows, O);
    return launch_sum_rows<1>(l, dm, magnitudes, rows, O);
}

} // namespace

int fw_cuda_dora_norm(const fw_cuda_launch *l, float *norm, const void *w, const void *a, const void *b, float scale,
                      int64_t O, int64_t I, int64_t R, fw_dtype t) {
    FW_BY_TYPE(t, return run_norm(l, norm, (const T *)w, (const T *)a, (const T *)b, scale, O, I, R));
}

int fw_cuda_dora_scale(const fw_cuda_launch *l, void *y, int64_t y_stride, float keep, const void *x, int64_t x_stride,
                       float factor, const void *m, const float *norm, const void *b, int64_t N, int64_t O,
                       fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return run_scale(l, (T *)y, y_stride, keep, (const T *)x, x_stride, factor, (const T *)m, norm,
                                   (const T *)b, N, O));
}

size_t fw_cuda_scratch_dora_backward_m(const fw_cuda_limits *limits) { return sum_rows_scratch(limits); }

int fw_cuda_dora_backward_m(const fw_cuda_launch *l, float *dm, const void *dy, int64_t dy_stride, const void *z,
                            int64_t z_stride, const float *norm, int64_t N, int64_t O, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return run_backward_m(l, dm, (const T *)dy, dy_stride, (const T *)z, z_stride, norm, N, O));
}
