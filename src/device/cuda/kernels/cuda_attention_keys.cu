/* Attention, backward: dk = scale * sum of ds^T q and dv = sum of p^T do, over queries and the heads of a group.
 *
 * A block takes 64 keys of a key/value head, 16 a warp, and walks over the query heads of the group and, for each, tiles of
 * 32 queries from the diagonal to the last one that sees a key of the block, the next ones being copied meanwhile:
 *   p^T = exp2(c k q^T - lse log2(e)), c = scale * log2(e); ds^T = p^T (v do^T - delta); dv += p^T do; dk += ds^T q
 * Keys are rows, so p^T and ds^T go from results to left factors in registers, rounded to bf16, and dk and dv stay there
 * (fp32). k and v are fragments in registers, too, but for D = 128, where they are read from shared memory again.
 *
 * With few key/value heads there are few blocks, and the first ones have most queries. Then the heads of a group are dealt
 * out to several blocks, whose fp32 parts add_parts() sums in order. The shape says how many: up to 4 blocks a multiprocessor.
 *
 * Work: 8 D flop for every query, head and key seen. Products a load from shared memory: 2, and 1.6 for D = 128.
 * Shared memory: 18, 26, 68 KB for D 64, 96, 128. Registers: up to 200, 250, 244, none spilled: 2 blocks, 8 warps, a
 * multiprocessor (1 for D = 128 on sm_86, 89, 120). */
#include "device/cuda/kernels/cuda_attention.cuh"

namespace {

enum { ROWS = 16 * ATTENTION_WARPS, QUERIES = 32, BLOCKS_PER_SM = 4 };

template <int D> struct tiles {
    enum {
        IN_REGISTERS = D < 128,
        AREA = 2 * QUERIES * (D + 8), /* two tiles of queries, or one of keys */
        COLUMN_BYTES = 3 * 2 * QUERIES * 4,
        SHARED_BYTES = (IN_REGISTERS ? 2 : 4) * AREA * (int)sizeof(bf16) + COLUMN_BYTES
    };
    static_assert(2 * QUERIES == ROWS, "keys take the place of queries");
};

template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS, 2)
    keys(attention_call c, int heads_each, float *part, bool packed) {
    enum { TILE = QUERIES * (D + 8), AREA = tiles<D>::AREA };
    constexpr bool IN_REGISTERS = tiles<D>::IN_REGISTERS;
    FW_DYNAMIC_SHARED(bf16, q_tile);
    bf16 *const do_tile = q_tile + AREA;
    bf16 *const k_tile = IN_REGISTERS ? q_tile : do_tile + AREA, *const v_tile = k_tile + AREA;
    float *const lse = (float *)(v_tile + AREA), *const delta = lse + 2 * QUERIES; /* of the two tiles */
    int32_t *const first = (int32_t *)(delta + 2 * QUERIES);
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
    const int N = (int)c.N, H = (int)c.H, K = (int)c.K, kv_head = blockIdx.x, key_0 = blockIdx.y * ROWS;
    const int key_last = min(key_0 + ROWS, N) - 1, q_stride = (int)c.q_stride;

    copy_rows<D, ROWS>(k_tile, (const bf16 *)c.k + (key_0 * c.k_stride + kv_head * D), (int)c.k_stride, N - 1 - key_0);
    copy_rows<D, ROWS>(v_tile, (const bf16 *)c.v + (key_0 * c.v_stride + kv_head * D), (int)c.v_stride, N - 1 - key_0);
    async_commit();

    int n_end = N; /* the first query whose document starts behind the block's keys: starts do not decrease */
    if (c.first_N != NULL) {
        int low = key_last + 1;
        while (low < n_end) {
            const int middle = low + (n_end - low) / 2;
            if (c.first_N[middle] > key_last)
                n_end = middle;
            else
                low = middle + 1;
        }
    }
    const int head_0 = kv_head * (H / K) + (int)blockIdx.z * heads_each;
    const int head_end = min(head_0 + heads_each, (kv_head + 1) * (H / K));

    async_wait<0>();
    __syncthreads();
    uint32_t k[1][IN_REGISTERS ? D / 16 : 1][4], v[1][IN_REGISTERS ? D / 16 : 1][4];
    if constexpr (IN_REGISTERS) {
        load_fragments<D>(k[0], k_tile, warp_row, lane);
        load_fragments<D>(v[0], v_tile, warp_row, lane);
        __syncthreads(); /* everyone has them: queries may come */
    }
    auto copy_queries = [&](int which, int head, int n_0) {
        copy_rows<D, QUERIES>(q_tile + which * TILE, (const bf16 *)c.q + ((int64_t)n_0 * q_stride + head * D), q_stride,
                              N - 1 - n_0);
        copy_rows<D, QUERIES>(do_tile + which * TILE, (const bf16 *)c.d_o + ((int64_t)n_0 * H + head) * D, H * D,
                              N - 1 - n_0);
        const int n = min(n_0 + lane, N - 1), to = which * QUERIES + lane;
        if (threadIdx.x < 32)
            async_copy_4(lse + to, c.lse + (int64_t)n * H + head);
        else if (threadIdx.x < 64)
            async_copy_4(delta + to, c.delta_NH + (int64_t)n * H + head);
        else if (threadIdx.x < 96 && c.first_N != NULL)
            async_copy_4(first + to, c.first_N + n);
    };
    copy_queries(0, head_0, key_0);
    async_commit();

    float dk[1][D / 8][4], dv[1][D / 8][4];
    clear(dk[0]);
    clear(dv[0]);
    const float scale_log2 = c.scale * LOG2_E;
    int which = 0;
    for (int head = head_0, n_0 = key_0; head < head_end; which ^= 1) {
        int next_head = head, next = n_0 + QUERIES;
        if (next >= n_end) next_head++, next = key_0;
        if (next_head < head_end) copy_queries(which ^ 1, next_head, next);
        async_commit();
        async_wait<1>();
        __syncthreads();

        float p[1][QUERIES / 8][4], ds[1][QUERIES / 8][4];
        const bf16 *const q = q_tile + which * TILE, *const d_o = do_tile + which * TILE;
        if constexpr (IN_REGISTERS) {
            multiply_fragments<D>(p, k, q, lane);
            multiply_fragments<D>(ds, v, d_o, lane);
        } else {
            multiply_rows<D>(p, k_tile, warp_row, q, lane);
            multiply_rows<D>(ds, v_tile, warp_row, d_o, lane);
        }
        const bool documents = c.first_N != NULL && first[which * QUERIES + QUERIES - 1] > key_0;
        const bool masked = n_0 < key_last || n_0 + QUERIES > N || documents;
        FW_UNROLL
        for (int j = 0; j < QUERIES / 8; j++) {
            FW_UNROLL
            for (int e = 0; e < 2; e++) {
                const int column = 8 * j + 2 * (lane % 4) + e, n = n_0 + column;
                const float lse_log2 = lse[which * QUERIES + column] * LOG2_E, d = delta[which * QUERIES + column];
                const int from = documents ? first[which * QUERIES + column] : 0;
                FW_UNROLL
                for (int half = 0; half < 2; half++) {
                    const int key = key_0 + warp_row + 8 * half + lane / 4, at = 2 * half + e;
                    float y = fast_exp2(p[0][j][at] * scale_log2 - lse_log2);
                    if (masked && (key > n || key < from || n >= N)) y = 0.0f;
                    p[0][j][at] = y;
                    ds[0][j][at] = y * (ds[0][j][at] - d);
                }
            }
        }
        add_product<D>(dv, p, d_o, lane);
        add_product<D>(dk, ds, q, lane);
        __syncthreads(); /* the tile is read: the copy after the next one may begin */
        head = next_head;
        n_0 = next;
    }
    async_wait<0>();

    if (part != NULL) { /* [blocks of a group, dk and dv, N, K, D] */
        float *const dk_part = part + ((int64_t)blockIdx.z * 2 * N + key_0) * K * D + kv_head * D;
        FW_UNROLL
        for (int half = 0; half < 2; half++) {
            const int row = warp_row + 8 * half + lane / 4;
            if (key_0 + row >= N) continue;
            float *const to = dk_part + (int64_t)row * K * D + 2 * (lane % 4);
            FW_UNROLL
            for (int j = 0; j < D / 8; j++) {
                *(float2 *)(to + 8 * j) = float2{dk[0][j][2 * half], dk[0][j][2 * half + 1]};
                *(float2 *)(to + (int64_t)N * K * D + 8 * j) = float2{dv[0][j][2 * half], dv[0][j][2 * half + 1]};
            }
        }
        return;
    }
    const int64_t at = key_0 * c.dkv_stride + kv_head * D;
    write_rows<D>((bf16 *)c.dk + at, c.dkv_stride, N - key_0, packed, dk[0], c.scale, q_tile, warp_row, lane);
    write_rows<D>((bf16 *)c.dv + at, c.dkv_stride, N - key_0, packed, dv[0], 1.0f, do_tile, warp_row, lane);
}

/* dk and dv from parts, one thread an element. */
__global__ void __launch_bounds__(256)
    add_parts(bf16 *dk, bf16 *dv, int64_t stride, const float *part, int part_n, int64_t N, int64_t KD, float scale) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= N * KD) return;
    float y = 0.0f, z = 0.0f;
    for (int k = 0; k < part_n; k++) {
        y += part[2 * k * N * KD + i];
        z += part[(2 * k + 1) * N * KD + i];
    }
    const int64_t to = i / KD * stride + i % KD;
    dk[to] = from_float<bf16>(scale * y);
    dv[to] = from_float<bf16>(z);
}

template <int D> int launch_keys(const fw_cuda_launch *l, const attention_call &c, float *part) {
    const int64_t group = c.H / c.K, tile_n = blocks_of(c.N, ROWS);
    const int64_t heads_each = blocks_of(group, min(group, max(BLOCKS_PER_SM * l->sm_n / (tile_n * c.K), (int64_t)1)));
    const int part_n = (int)blocks_of(group, heads_each);
    const bool packed = is_packed<bf16>(c.dk, D, c.dkv_stride) && is_packed<bf16>(c.dv, D, c.dkv_stride);
    const int error = allow_shared(keys<D>, tiles<D>::SHARED_BYTES);
    if (error != 0) return error;
    FW_LAUNCH((keys<D>), dim3((unsigned)c.K, (unsigned)tile_n, (unsigned)part_n), dim3(ATTENTION_THREADS),
              (size_t)tiles<D>::SHARED_BYTES, stream_of(l), c, (int)heads_each, part_n > 1 ? part : NULL, packed);
    const int keys_error = launch_status();
    if (keys_error != 0 || part_n == 1) return keys_error;
    FW_LAUNCH((add_parts), (unsigned)blocks_of(c.N * c.K * D, 256), 256, 0, stream_of(l), (bf16 *)c.dk, (bf16 *)c.dv,
              c.dkv_stride, part, part_n, c.N, c.K * D, c.scale);
    return launch_status();
}

} // namespace

int attention_keys(const fw_cuda_launch *l, const attention_call &c, float *part) {
    return c.D == 64   ? launch_keys<64>(l, c, part)
           : c.D == 96 ? launch_keys<96>(l, c, part)
                       : launch_keys<128>(l, c, part);
}

size_t attention_part_bytes(int64_t N, int64_t H, int64_t D, int sm_n) {
    const int64_t rows = min(N * H, (int64_t)BLOCKS_PER_SM * sm_n * ROWS);
    return (size_t)(rows * 2 * min(D, (int64_t)128)) * sizeof(float);
}
