/* Embedding: y[n] = w[id[n]], which is a gather, and dw[id[n]] += dy[n] in order of n.
 *
 * Backward in two kernels, without atomics. The first sorts the tokens by id, equal ids by n: a thread counts for its token
 * how many come before it, N^2 comparisons of numbers in shared memory. That is a few microseconds for 8192 tokens and
 * about 0.1 ms for 32768, whatever V is, less than the gradients take to be read. The second has a row of blocks for each
 * place in that order; those at the first place of an id add up its rows one after the other, 16 of them (of bf16)
 * asked for at a time, the others end at once. dy is read once, rows of dw that have a token are read and written once. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { SORT_BLOCK = 256, TILE = 1024, SUM_BLOCK = 128 };

typedef Chunk<int32_t, 2> Token; /* id, n */

__global__ void __launch_bounds__(SORT_BLOCK) sort_tokens(Token *sorted_N, const int32_t *id_N, int64_t N) {
    __shared__ __align__(16) int32_t tile[TILE];
    const int64_t first_n = (int64_t)blockIdx.x * SORT_BLOCK, n = first_n + threadIdx.x;
    const int32_t id = n < N ? id_N[n] : 0;
    int before = 0;
    for (int64_t start = 0; start < N; start += TILE) {
        __syncthreads();
        for (int i = threadIdx.x; i < TILE; i += SORT_BLOCK) tile[i] = start + i < N ? id_N[start + i] : INT32_MAX;
        __syncthreads();
        if (start <= first_n && first_n < start + TILE) { /* the tile that this block's tokens are in */
            const int mine = (int)(n - start);
            for (int i = 0; i < TILE; i++) before += tile[i] < id || (tile[i] == id && i < mine);
        } else {
            const int32_t limit = start < first_n ? id + 1 : id; /* equal ids count where they come earlier */
            for (int i = 0; i < TILE; i += 4) {
                const Chunk<int32_t, 4> part = load_chunk<4>(tile + i);
                for (int k = 0; k < 4; k++) before += part.v[k] < limit;
            }
        }
    }
    if (n < N) sorted_N[before] = Token{{id, (int32_t)n}};
}

template <class T, int N>
__global__ void __launch_bounds__(SUM_BLOCK)
    add_rows(float *dw_VC, const T *dy_NC, const Token *sorted, int64_t token_n, int64_t C) {
    enum { ROWS_AT_ONCE = 32 / sizeof(T) };
    const int64_t first = blockIdx.x, c = ((int64_t)blockIdx.y * SUM_BLOCK + threadIdx.x) * N;
    const int32_t id = sorted[first].v[0];
    if ((first > 0 && sorted[first - 1].v[0] == id) || c >= C) return;
    float *dw = dw_VC + id * C + c;
    Chunk<float, N> sum = load_chunk<N>(dw);
    bool is_last_mine = true;
    for (int64_t at = first; is_last_mine; at += ROWS_AT_ONCE) {
        Chunk<T, N> dy[ROWS_AT_ONCE] = {};
        int mine_n = 0;
        for (int r = 0; r < ROWS_AT_ONCE; r++) {
            const Token token = at + r < token_n ? sorted[at + r] : Token{{-1, 0}};
            if (token.v[0] != id) continue;
            dy[r] = load_chunk<N>(dy_NC + token.v[1] * C + c);
            mine_n = r + 1;
        }
        for (int r = 0; r < ROWS_AT_ONCE; r++)
            if (r < mine_n)
                for (int k = 0; k < N; k++) sum.v[k] += element(dy[r], k);
        is_last_mine = mine_n == ROWS_AT_ONCE;
    }
    store_chunk(dw, sum);
}

template <class T, int N>
int launch_rows(const fw_cuda_launch *l, float *dw, const T *dy, const Token *sorted, int64_t token_n, int64_t C) {
    FW_LAUNCH((add_rows<T, N>), dim3((unsigned)token_n, (unsigned)blocks_of(C, SUM_BLOCK * N)), SUM_BLOCK, 0,
              stream_of(l), dw, dy, sorted, token_n, C);
    return launch_status();
}

template <class T>
int run_backward(const fw_cuda_launch *l, float *dw, const T *dy, const int32_t *id_N, int64_t token_n, int64_t C) {
    enum { N = Pack<float>::N };
    Token *sorted = (Token *)l->scratch;
    FW_LAUNCH(sort_tokens, (unsigned)blocks_of(token_n, SORT_BLOCK), SORT_BLOCK, 0, stream_of(l), sorted, id_N,
              token_n);
    const int status = launch_status();
    if (status != 0) return status;
    if (is_chunked<float, N>(dw, C, C) && is_chunked<T, N>(dy, C, C))
        return launch_rows<T, N>(l, dw, dy, sorted, token_n, C);
    return launch_rows<T, 1>(l, dw, dy, sorted, token_n, C);
}

} // namespace

size_t fw_cuda_scratch_embedding_backward(const fw_cuda_limits *limits) { return (size_t)limits->N * sizeof(Token); }

int fw_cuda_embedding_forward(const fw_cuda_launch *l, void *y, const void *w, const int32_t *id_N, int64_t N,
                              int64_t C, int64_t V, fw_dtype t) {
    (void)V;
    return fw_cuda_gather_rows(l, y, w, id_N, N, C, t);
}

int fw_cuda_embedding_backward(const fw_cuda_launch *l, float *dw, const void *dy, const int32_t *id_N, int64_t N,
                               int64_t C, int64_t V, fw_dtype t) {
    (void)V;
    if (N == 0) return 0;
    FW_BY_TYPE(t, return run_backward(l, dw, (const T *)dy, id_N, N, C));
}
