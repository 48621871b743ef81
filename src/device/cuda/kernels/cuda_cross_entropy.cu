/* Cross entropy of rows of V fp32 logits: loss = log(sum exp(x)) - x[label], dlogits = scale * (softmax - onehot).
 *
 * A block takes a row. First pass: each thread keeps the maximum m of what it has seen and the sum of exp(x - m), scaled anew
 * when m grows, so logits are read once for both. Second pass: the gradient, from the row's end to its start. With 152 k
 * logits a row has 600 KB, and the rows that a GPU works on at a time more than its cache: what the first pass read last
 * is still there, what it read first is not, and going back meets the former before the writes drive it out. For this
 * the rows under way are kept few: a block that asks for 8 chunks a thread at once fills a multiprocessor. At least 4
 * bytes read and 2 written for a logit and a bf16 gradient; with half a row found in the cache 8 in all. */
#include "device/cuda/kernels/gpu.cuh"

#include <float.h>

namespace {

enum { SMALL_BLOCK = 128, LARGE_BLOCK = 1024, LARGE_V = 8192, STEPS = 8 };

__device__ __forceinline__ float *shared_sums() {
    __shared__ float sums[32];
    return sums;
}

/* The chunks of N logits at first, first + BLOCK * N, ...; -infinity, which adds nothing, behind the row's end. */
template <int N, int BLOCK>
__device__ __forceinline__ void load_steps(Chunk<float, N> (&x)[STEPS], const float *row, int64_t first, int64_t V) {
    for (int s = 0; s < STEPS; s++) {
        const int64_t at = first + s * BLOCK * N;
        for (int k = 0; k < N; k++) x[s].v[k] = -INFINITY;
        if (at < V) x[s] = load_chunk<N>(row + at);
    }
}

template <class T, int N, int BLOCK>
__global__ void __launch_bounds__(BLOCK) cross_entropy(float *loss_N, T *dlogits_NV, const float *logits_NV,
                                                       const int32_t *label_N, int64_t V, float scale) {
    const int64_t n = blockIdx.x, label = label_N[n], step = (int64_t)STEPS * BLOCK * N, own = threadIdx.x * N;
    const float *row = logits_NV + n * V;
    float maximum = -FLT_MAX, sum = 0; /* finite, so that -infinity less it is no NaN */
    Chunk<float, N> x[STEPS];
    for (int64_t first = 0; first < V; first += step) {
        load_steps<N, BLOCK>(x, row, first + own, V);
        float largest = maximum;
        for (int s = 0; s < STEPS; s++)
            for (int k = 0; k < N; k++) largest = fmaxf(largest, x[s].v[k]);
        if (largest > maximum) {
            sum *= expf(maximum - largest);
            maximum = largest;
        }
        for (int s = 0; s < STEPS; s++)
            for (int k = 0; k < N; k++) sum += expf(x[s].v[k] - maximum);
    }
    const float row_maximum = block_max(maximum, shared_sums());
    const float row_sum = block_sum(sum * expf(maximum - row_maximum), shared_sums());
    if (threadIdx.x == 0) loss_N[n] = logf(row_sum) + (row_maximum - row[label]);
    if (dlogits_NV == nullptr) return;
    __syncthreads(); /* dlogits may be logits, and thread 0 has read one that another will write */

    T *gradient = dlogits_NV + n * V;
    const float one_over_sum = 1.0f / row_sum;
    for (int64_t first = (V - 1) / step * step; first >= 0; first -= step) {
        load_steps<N, BLOCK>(x, row, first + own, V);
        for (int s = STEPS - 1; s >= 0; s--) {
            const int64_t at = first + own + s * BLOCK * N;
            float value[N];
            for (int k = 0; k < N; k++) {
                const float p = expf(x[s].v[k] - row_maximum) * one_over_sum;
                value[k] = scale * (at + k == label ? p - 1.0f : p);
            }
            if (at < V) store_chunk(gradient + at, chunk_of<T>(value));
        }
    }
}

template <class T, int N>
int launch(const fw_cuda_launch *l, float *loss, T *dlogits, const float *logits, const int32_t *label, int64_t rows,
           int64_t V, float scale) {
    if (V >= LARGE_V)
        FW_LAUNCH((cross_entropy<T, N, LARGE_BLOCK>), (unsigned)rows, LARGE_BLOCK, 0, stream_of(l), loss, dlogits,
                  logits, label, V, scale);
    else
        FW_LAUNCH((cross_entropy<T, N, SMALL_BLOCK>), (unsigned)rows, SMALL_BLOCK, 0, stream_of(l), loss, dlogits,
                  logits, label, V, scale);
    return launch_status();
}

template <class T>
int launch_aligned(const fw_cuda_launch *l, float *loss, T *dlogits, const float *logits, const int32_t *label,
                   int64_t rows, int64_t V, float scale) {
    enum { N = Pack<float>::N };
    if (is_chunked<float, N>(logits, V, V) && is_chunked<T, N>(dlogits, V, V))
        return launch<T, N>(l, loss, dlogits, logits, label, rows, V, scale);
    return launch<T, 1>(l, loss, dlogits, logits, label, rows, V, scale);
}

} // namespace

int fw_cuda_cross_entropy(const fw_cuda_launch *l, float *loss, void *dlogits, const float *logits,
                          const int32_t *label, int64_t N, int64_t V, float scale, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return launch_aligned(l, loss, (T *)dlogits, logits, label, N, V, scale));
}
