/* Attention, backward: dq = scale * sum over keys of ds k.
 *
 * A block takes 64 query rows of a head (128 for D = 64), 16 or 32 a warp, with q and do as fragments in registers, and walks
 * over tiles of 32 keys from the first document's start to the diagonal, the next ones being copied meanwhile:
 *   p = exp2(c q k^T - lse log2(e)), c = scale * log2(e); ds = p (do v^T - delta); dq += ds k
 * ds goes from results to left factor in registers, rounded to bf16. Blocks with most keys come first.
 *
 * Work: 6 D flop for every query, head and key seen. Products a load from shared memory: 2, and 4 for D = 64.
 * Shared memory: 36, 26, 34 KB for D 64, 96, 128; q and do pass through it once, before the keys do. Registers: up to 255, 206,
 * 233, none spilled: 2 blocks, 8 warps, a multiprocessor. */
#include "device/cuda/kernels/cuda_attention.cuh"

namespace {

template <int D> struct tiles {
    enum {
        M_TILES = D == 64 ? 2 : 1,
        ROWS = ATTENTION_WARPS * 16 * M_TILES,
        KEYS = 32,
        AREA = (ROWS > 2 * KEYS ? ROWS : 2 * KEYS) * (D + 8), /* two tiles of keys or one of rows */
        SHARED_BYTES = 2 * AREA * (int)sizeof(bf16)
    };
};

template <int D> __global__ void __launch_bounds__(ATTENTION_THREADS, 2) queries(attention_call c, bool packed) {
    enum { M_TILES = tiles<D>::M_TILES, ROWS = tiles<D>::ROWS, KEYS = tiles<D>::KEYS, TILE = KEYS * (D + 8) };
    FW_DYNAMIC_SHARED(bf16, k_tile);
    bf16 *const v_tile = k_tile + tiles<D>::AREA;
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16 * M_TILES;
    const int N = (int)c.N, H = (int)c.H, head = blockIdx.x, row_0 = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int n_last = min(row_0 + ROWS, N) - 1, k_stride = (int)c.k_stride, v_stride = (int)c.v_stride;
    const int first_of_last = c.first_N != NULL ? c.first_N[n_last] : 0;
    const int kv_at = head / (H / (int)c.K) * D;
    int key_0 = c.first_N != NULL ? c.first_N[row_0] : 0;

    copy_rows<D, ROWS>(k_tile, (const bf16 *)c.q + (row_0 * c.q_stride + head * D), (int)c.q_stride, N - 1 - row_0);
    copy_rows<D, ROWS>(v_tile, (const bf16 *)c.d_o + ((int64_t)row_0 * H + head) * D, H * D, N - 1 - row_0);
    async_commit();
    float lse_log2[M_TILES][2], delta[M_TILES][2], dq[M_TILES][D / 8][4];
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) {
        clear(dq[i]);
        FW_UNROLL
        for (int half = 0; half < 2; half++) {
            const int64_t at = (int64_t)min(row_0 + warp_row + 16 * i + 8 * half + lane / 4, N - 1) * H + head;
            lse_log2[i][half] = c.lse[at] * LOG2_E;
            delta[i][half] = c.delta_NH[at];
        }
    }
    async_wait<0>();
    __syncthreads();
    uint32_t q[M_TILES][D / 16][4], d_o[M_TILES][D / 16][4];
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) {
        load_fragments<D>(q[i], k_tile, warp_row + 16 * i, lane);
        load_fragments<D>(d_o[i], v_tile, warp_row + 16 * i, lane);
    }
    __syncthreads(); /* everyone has them: keys may come */

    copy_rows<D, KEYS>(k_tile, (const bf16 *)c.k + ((int64_t)key_0 * k_stride + kv_at), k_stride, n_last - key_0);
    copy_rows<D, KEYS>(v_tile, (const bf16 *)c.v + ((int64_t)key_0 * v_stride + kv_at), v_stride, n_last - key_0);
    async_commit();
    const float scale_log2 = c.scale * LOG2_E;
    for (int at = 0; key_0 <= n_last; key_0 += KEYS, at = TILE - at) {
        const int next = key_0 + KEYS;
        if (next <= n_last) {
            copy_rows<D, KEYS>(k_tile + (TILE - at), (const bf16 *)c.k + ((int64_t)next * k_stride + kv_at), k_stride,
                               n_last - next);
            copy_rows<D, KEYS>(v_tile + (TILE - at), (const bf16 *)c.v + ((int64_t)next * v_stride + kv_at), v_stride,
                               n_last - next);
        }
        async_commit();
        async_wait<1>();
        __syncthreads();

        float s[M_TILES][KEYS / 8][4], dp[M_TILES][KEYS / 8][4];
        multiply_fragments<D>(s, q, k_tile + at, lane);
        multiply_fragments<D>(dp, d_o, v_tile + at, lane);
        const bool masked = next > row_0 + 1 || key_0 < first_of_last;
        FW_UNROLL
        for (int i = 0; i < M_TILES; i++) {
            FW_UNROLL
            for (int half = 0; half < 2; half++) {
                int first = 0, last = N;
                if (masked) {
                    last = min(row_0 + warp_row + 16 * i + 8 * half + lane / 4, N - 1);
                    first = c.first_N != NULL ? c.first_N[last] : 0;
                }
                FW_UNROLL
                for (int j = 0; j < KEYS / 8; j++) {
                    FW_UNROLL
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        const int key = key_0 + 8 * j + 2 * (lane % 4) + e % 2;
                        float p = fast_exp2(s[i][j][e] * scale_log2 - lse_log2[i][half]);
                        if (masked && (key < first || key > last)) p = 0.0f;
                        s[i][j][e] = p * (dp[i][j][e] - delta[i][half]);
                    }
                }
            }
        }
        add_product<D>(dq, s, k_tile + at, lane);
        __syncthreads(); /* the tile is read: the copy after the next one may begin */
    }
    async_wait<0>();
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++)
        write_rows<D>((bf16 *)c.dq + (row_0 * c.dq_stride + head * D), c.dq_stride, N - row_0, packed, dq[i], c.scale,
                      k_tile, warp_row + 16 * i, lane);
}

template <int D> int launch_queries(const fw_cuda_launch *l, const attention_call &c) {
    const int error = allow_shared(queries<D>, tiles<D>::SHARED_BYTES);
    if (error != 0) return error;
    FW_LAUNCH((queries<D>), dim3((unsigned)c.H, (unsigned)blocks_of(c.N, tiles<D>::ROWS)), dim3(ATTENTION_THREADS),
              (size_t)tiles<D>::SHARED_BYTES, stream_of(l), c, is_packed<bf16>(c.dq, D, c.dq_stride));
    return launch_status();
}

} // namespace

int attention_queries(const fw_cuda_launch *l, const attention_call &c) {
    return c.D == 64 ? launch_queries<64>(l, c) : c.D == 96 ? launch_queries<96>(l, c) : launch_queries<128>(l, c);
}
