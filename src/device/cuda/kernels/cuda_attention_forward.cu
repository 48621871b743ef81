/* Attention, forward: o = softmax(scale * q k^T) v without storing scores (Dao 2023, FlashAttention-2).
 *
 * A block takes 64 or 128 query rows of a head, 16 or 32 a warp, and walks over tiles of 32 to 64 keys from
 * the first document's start to the diagonal. A warp keeps its rows' output (fp32), maximum and sum in registers:
 *   s = q k^T; m' = max(m, s); p = exp2(c s - c m'); o = o exp2(c m - c m') + p v, with c = scale * log2(e)
 * p stays in registers as well: the layout of a product's result is that of the next one's left factor. Tiles that no mask
 * touches skip it. The next keys are copied while p v is computed, values while q k^T is. Blocks with most keys come first.
 *
 * With few rows (generation) one block takes all query heads of a key/value head as rows of one tile, so that keys are read
 * once, and ranges of keys go to blocks of their own; combine() joins their results. The shape alone says how many.
 *
 * Work: 4 D flop for every query, head and key seen: N H (N + 1) / 2 of them for one document. Bytes: q and o once, k and v
 * once a tile of queries and head, from L2 as a rule. A warp's products (16 x 8 x 16) a load from shared memory (512 bytes):
 * 2.7 to 3.6 with 32 rows, 1.8 with 16; tensor cores ask for 2 (sm_80).
 * D, rows, keys, shared memory: 64, 128, 64, 36 KB; 96, 128, 64, 52 KB; 128, 128, 32, 51 KB; 256, 64, 32, 66 KB. Where two
 * blocks of 128 rows do not fit a multiprocessor (sm_86, 89, 120; D 96, 128), tiles have 64 rows and 39 and 43 KB.
 * Registers: 222 to 255, tiles of 64 rows 121 to 167; none spilled. So 2 blocks, 8 warps, a multiprocessor (1 for D = 256
 * on sm_86, 89, 120). */
#include "device/cuda/kernels/cuda_attention.cuh"

namespace {

enum { SPLIT_KEYS = 256, SPLIT_CAP = 32, FEW_ROWS = 64 };

struct forward_arguments {
    bf16 *o;
    float *lse;
    const bf16 *q, *k, *v;
    const int32_t *first_N;
    float *part_o, *part_lse; /* [splits, N, H, D] and [splits, N, H]; NULL: not split */
    int q_stride, k_stride, v_stride, N, q_offset, H;
    int group;          /* query heads of a key/value head */
    int rows_per_token; /* 1: a tile has one head; group: it has all heads of a group, row = token * group + head */
    int keys_per_split;
    float scale_log2;
};

/* Keys: as many as registers and two blocks a multiprocessor allow. */
template <int D, int M_TILES> struct tiles {
    enum {
        ROWS = ATTENTION_WARPS * 16 * M_TILES,
        KEYS = D == 256       ? 32
               : D < 128      ? 64
               : M_TILES == 1 ? 48
                              : 32,
        SHARED_BYTES = (ROWS + 2 * KEYS) * (D + 8) * (int)sizeof(bf16)
    };
};

template <int D, int M_TILES> __global__ void __launch_bounds__(ATTENTION_THREADS) forward(forward_arguments a) {
    enum { ROWS = tiles<D, M_TILES>::ROWS, KEYS = tiles<D, M_TILES>::KEYS, N_TILES = KEYS / 8, STRIDE = D + 8 };
    FW_DYNAMIC_SHARED(bf16, q_tile);
    bf16 *const k_tile = q_tile + ROWS * STRIDE, *const v_tile = k_tile + KEYS * STRIDE;
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16 * M_TILES;
    /* large tiles are never packed or split, and have no registers for it */
    const int per_token = M_TILES > 1 ? 1 : a.rows_per_token;
    const bool is_part = M_TILES == 1 && a.part_o != NULL;
    const int row_0 = (int)(gridDim.y - 1 - blockIdx.y) * ROWS, row_end = a.N * per_token;
    const int n_0 = row_0 / per_token, n_last = (min(row_0 + ROWS, row_end) - 1) / per_token;
    const int head = blockIdx.x * per_token, kv_at = head / a.group * D;
    const int first_of_last = a.first_N != NULL ? a.first_N[n_last] : 0;
    int key_0 = a.first_N != NULL ? a.first_N[n_0] : 0, key_end = a.q_offset + n_last + 1;
    if (is_part) {
        key_0 = max(key_0, (int)blockIdx.z * a.keys_per_split);
        key_end = min(key_end, ((int)blockIdx.z + 1) * a.keys_per_split);
    }
    const int unmasked_end = min(a.q_offset + n_0 + 1, key_end);

    for (int i = threadIdx.x; i < ROWS * (D / 8); i += ATTENTION_THREADS) {
        const int row = min(row_0 + i / (D / 8), row_end - 1), at = i % (D / 8) * 8;
        async_copy_16(q_tile + i / (D / 8) * STRIDE + at,
                      a.q + (int64_t)(row / per_token) * a.q_stride + (head + row % per_token) * D + at);
    }
    if (key_0 < key_end)
        copy_rows<D, KEYS>(k_tile, a.k + ((int64_t)key_0 * a.k_stride + kv_at), a.k_stride, key_end - 1 - key_0);
    async_commit();

    float o[M_TILES][D / 8][4], top[M_TILES][2], sum[M_TILES][2]; /* top: the maximum, times scale * log2(e) */
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) {
        clear(o[i]);
        FW_UNROLL
        for (int half = 0; half < 2; half++) top[i][half] = -INFINITY, sum[i][half] = 0.0f;
    }

    for (; key_0 < key_end; key_0 += KEYS) {
        async_wait<0>();
        __syncthreads(); /* keys are there, and nobody reads the values before them any more */
        copy_rows<D, KEYS>(v_tile, a.v + ((int64_t)key_0 * a.v_stride + kv_at), a.v_stride, key_end - 1 - key_0);
        async_commit();
        float s[M_TILES][N_TILES][4];
        multiply_rows<D>(s, q_tile, warp_row, k_tile, lane);
        async_wait<0>();
        __syncthreads(); /* values are there, keys are read */
        if (key_0 + KEYS < key_end)
            copy_rows<D, KEYS>(k_tile, a.k + ((int64_t)(key_0 + KEYS) * a.k_stride + kv_at), a.k_stride,
                               key_end - 1 - key_0 - KEYS);
        async_commit();

        if (key_0 + KEYS > unmasked_end || key_0 < first_of_last) {
            FW_UNROLL
            for (int i = 0; i < M_TILES; i++) {
                FW_UNROLL
                for (int half = 0; half < 2; half++) {
                    const int n = min(row_0 + warp_row + 16 * i + 8 * half + lane / 4, row_end - 1) / per_token;
                    const int last = min(a.q_offset + n, key_end - 1), first = a.first_N != NULL ? a.first_N[n] : 0;
                    FW_UNROLL
                    for (int j = 0; j < N_TILES; j++) {
                        FW_UNROLL
                        for (int e = 0; e < 2; e++) {
                            const int key = key_0 + 8 * j + 2 * (lane % 4) + e;
                            if (key < first || key > last) s[i][j][2 * half + e] = -INFINITY;
                        }
                    }
                }
            }
        }

        FW_UNROLL
        for (int i = 0; i < M_TILES; i++) {
            FW_UNROLL
            for (int half = 0; half < 2; half++) {
                float most = -INFINITY;
                FW_UNROLL
                for (int j = 0; j < N_TILES; j++) most = fmaxf(most, fmaxf(s[i][j][2 * half], s[i][j][2 * half + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                most = fmaxf(most * a.scale_log2, top[i][half]);
                const float shift = most == -INFINITY ? 0.0f : most; /* a row without keys so far */
                const float fade = fast_exp2(top[i][half] - shift);
                top[i][half] = most;
                sum[i][half] *= fade;
                FW_UNROLL
                for (int j = 0; j < N_TILES; j++) {
                    FW_UNROLL
                    for (int e = 2 * half; e < 2 * half + 2; e++) {
                        s[i][j][e] = fast_exp2(s[i][j][e] * a.scale_log2 - shift);
                        sum[i][half] += s[i][j][e];
                    }
                }
                FW_UNROLL
                for (int j = 0; j < D / 8; j++) o[i][j][2 * half] *= fade, o[i][j][2 * half + 1] *= fade;
            }
        }
        add_product<D>(o, s, v_tile, lane);
    }
    async_wait<0>();

    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) {
        FW_UNROLL
        for (int half = 0; half < 2; half++) {
            float total = sum[i][half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            const int tile_row = warp_row + 16 * i + 8 * half + lane / 4, row = row_0 + tile_row;
            const float share = total > 0.0f ? 1.0f / total : 0.0f;
            const int64_t at = (int64_t)(row / per_token) * a.H + head + row % per_token; /* in [N, H] */
            const float lse = top[i][half] * LN_2 + logf(total); /* -infinity for a part without keys */
            if (is_part) {
                const int64_t part = (int64_t)blockIdx.z * a.N * a.H + at;
                if (row < row_end) {
                    if (lane % 4 == 0) a.part_lse[part] = lse;
                    FW_UNROLL
                    for (int j = 0; j < D / 8; j++)
                        *(float2 *)(a.part_o + part * D + 8 * j + 2 * (lane % 4)) =
                            float2{o[i][j][2 * half] * share, o[i][j][2 * half + 1] * share};
                }
                continue;
            }
            if (a.lse != NULL && lane % 4 == 0 && row < row_end) a.lse[at] = lse;
            FW_UNROLL
            for (int j = 0; j < D / 8; j++) /* the warp's rows of q are read: its output takes their place */
                *(uint32_t *)(q_tile + tile_row * STRIDE + 8 * j + 2 * (lane % 4)) =
                    pack_bf16(o[i][j][2 * half] * share, o[i][j][2 * half + 1] * share);
        }
    }
    if (is_part) return;
    __syncwarp();
    for (int i = lane; i < 16 * M_TILES * (D / 8); i += 32) {
        const int tile_row = warp_row + i / (D / 8), row = row_0 + tile_row, at = i % (D / 8) * 8;
        if (row < row_end)
            *(uint4 *)(a.o + ((int64_t)(row / per_token) * a.H + head + row % per_token) * D + at) =
                *(const uint4 *)(q_tile + tile_row * STRIDE + at);
    }
}

/* One warp a row of [N, H]: o = sum of parts weighted by exp(lse of the part - maximum). Lane i holds part i's weight. */
template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    combine(bf16 *o, float *lse, const float *part_o, const float *part_lse, int row_n, int split_n) {
    const int row = blockIdx.x * ATTENTION_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= row_n) return;
    const float mine = lane < split_n ? part_lse[(int64_t)lane * row_n + row] : -INFINITY, most = warp_max(mine);
    const float weight = expf(mine - most), total = warp_sum(weight);
    if (lse != NULL && lane == 0) lse[row] = most + logf(total);
    float y[D / 32];
    for (int i = 0; i < D / 32; i++) y[i] = 0.0f;
    for (int split = 0; split < split_n; split++) {
        const float w = __shfl_sync(0xffffffffu, weight, split);
        for (int i = 0; i < D / 32; i++) y[i] += w * part_o[((int64_t)split * row_n + row) * D + 32 * i + lane];
    }
    for (int i = 0; i < D / 32; i++) o[(int64_t)row * D + 32 * i + lane] = from_float<bf16>(y[i] / total);
}

/* Multiples of 64 keys; 0: not split. */
int64_t split_keys(int64_t key_n) {
    if (key_n <= SPLIT_KEYS) return 0;
    const int64_t each = blocks_of(key_n, SPLIT_CAP);
    return max(blocks_of(each, 64) * 64, (int64_t)SPLIT_KEYS);
}

template <int D, int M_TILES> int launch_tiles(const fw_cuda_launch *l, const forward_arguments &a, dim3 grid) {
    const size_t bytes = tiles<D, M_TILES>::SHARED_BYTES;
    const int error = allow_shared(forward<D, M_TILES>, bytes);
    if (error != 0) return error;
    FW_LAUNCH((forward<D, M_TILES>), grid, dim3(ATTENTION_THREADS), bytes, stream_of(l), a);
    return launch_status();
}

template <int D> int launch_forward(const fw_cuda_launch *l, const attention_call &c) {
    enum { M_TILES = D == 256 ? 1 : 2 };
    const int64_t group = c.H / c.K, key_n = c.q_offset + c.N;
    const bool few = c.N * group <= FEW_ROWS;
    forward_arguments a = {};
    a.o = (bf16 *)c.o;
    a.lse = c.lse;
    a.q = (const bf16 *)c.q;
    a.k = (const bf16 *)c.k;
    a.v = (const bf16 *)c.v;
    a.first_N = c.first_N;
    a.q_stride = (int)c.q_stride;
    a.k_stride = (int)c.k_stride;
    a.v_stride = (int)c.v_stride;
    a.N = (int)c.N;
    a.q_offset = (int)c.q_offset;
    a.H = (int)c.H;
    a.group = (int)group;
    a.rows_per_token = few ? (int)group : 1;
    a.scale_log2 = c.scale * LOG2_E;
    if (few) {
        a.keys_per_split = (int)split_keys(key_n);
        const int split_n = a.keys_per_split > 0 ? (int)blocks_of(key_n, a.keys_per_split) : 1, row_n = a.N * a.H;
        if (split_n > 1) {
            a.part_o = (float *)l->scratch;
            a.part_lse = a.part_o + (int64_t)split_n * row_n * D;
        }
        const int error = launch_tiles<D, 1>(l, a, dim3((unsigned)c.K, 1, (unsigned)split_n));
        if (error != 0 || split_n == 1) return error;
        FW_LAUNCH((combine<D>), (unsigned)blocks_of(row_n, ATTENTION_WARPS), ATTENTION_THREADS, 0, stream_of(l), a.o,
                  a.lse, a.part_o, a.part_lse, row_n, split_n);
        return launch_status();
    }
    const size_t bytes = tiles<D, M_TILES>::SHARED_BYTES;
    if (M_TILES == 1 || c.N <= 64 || 2 * (bytes + 1024) > shared_per_multiprocessor())
        return launch_tiles<D, 1>(l, a, dim3((unsigned)c.H, (unsigned)blocks_of(c.N, 64)));
    return launch_tiles<D, M_TILES>(l, a, dim3((unsigned)c.H, (unsigned)blocks_of(c.N, 64 * M_TILES)));
}

} // namespace

int fw_cuda_attention_forward(const fw_cuda_launch *l, void *o_NHD, float *lse_NH, const void *q, int64_t q_stride,
                              const void *k, int64_t k_stride, const void *v, int64_t v_stride, const int32_t *first_N,
                              int64_t N, int64_t q_offset, int64_t H, int64_t K, int64_t D, float scale, fw_dtype t) {
    if (N == 0) return 0;
    attention_call c = {};
    c.q = q, c.k = k, c.v = v;
    c.q_stride = q_stride, c.k_stride = k_stride, c.v_stride = v_stride;
    c.first_N = first_N;
    c.N = N, c.q_offset = q_offset, c.H = H, c.K = K, c.D = D;
    c.scale = scale;
    c.o = o_NHD, c.lse = lse_NH;
    const bool fast = t == FW_BF16 && scale > 0 && is_tiled(q, q_stride) && is_tiled(k, k_stride) &&
                      is_tiled(v, v_stride) && is_tiled(o_NHD, D) && q_offset + N < 1 << 21;
    if (fast && D == 64) return launch_forward<64>(l, c);
    if (fast && D == 96) return launch_forward<96>(l, c);
    if (fast && D == 128) return launch_forward<128>(l, c);
    if (fast && D == 256) return launch_forward<256>(l, c);
    return attention_plain_forward(l, c, t);
}

size_t fw_cuda_scratch_attention(const fw_cuda_limits *limits) {
    /* a split call has at most FEW_ROWS rows a key/value head, or fewer where N is smaller */
    const int64_t heads = max(limits->H, limits->K), rows = min(FEW_ROWS * limits->K, limits->N * heads);
    const int64_t splits = min(blocks_of(limits->N, SPLIT_KEYS), (int64_t)SPLIT_CAP);
    const int64_t split = splits > 1 ? splits * rows * (limits->D + 1) : 0, delta = limits->N * heads;
    return max((size_t)split * sizeof(float),
               (size_t)delta * sizeof(float) + 256 + attention_part_bytes(limits->N, heads, limits->D, limits->sm_n));
}
