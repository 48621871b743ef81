/* What the attention kernels share: the call as a struct, tiles in shared memory, and fragments of tensor core products.
 *
 * Fast kernels (bf16, D 64, 96, 128, 256) have 4 warps. A tile is some rows of D elements of one head in shared memory;
 * its rows are D + 8 elements apart, an odd number of 16-byte chunks, so that the 8 rows which one step of ldmatrix reads
 * lie in 8 different groups of banks, and copies of whole rows write all banks in turn. Rows past the end of a tensor are
 * filled with its last row, so that every number is finite; masks keep them out of results. */
#ifndef FW_DEVICE_CUDA_KERNELS_CUDA_ATTENTION_CUH
#define FW_DEVICE_CUDA_KERNELS_CUDA_ATTENTION_CUH

#include "device/cuda/kernels/gpu.cuh"

/* A call; strides in elements. Forward uses q_offset, backward has 0 there. */
struct attention_call {
    const void *q, *k, *v;
    int64_t q_stride, k_stride, v_stride;
    const int32_t *first_N; /* NULL: 0 */
    int64_t N, q_offset, H, K, D;
    float scale;
    void *o;    /* forward: written; backward: read */
    float *lse; /* likewise; forward: may be NULL */
    const void *d_o;
    float *delta_NH; /* rowsum(do * o), made by the first kernel of backward */
    void *dq, *dk, *dv;
    int64_t dq_stride, dkv_stride;
};

/* For every D, type and alignment (cuda_attention_plain.cu). Return the launch's error. */
int attention_plain_forward(const fw_cuda_launch *l, const attention_call &c, fw_dtype t);
int attention_plain_backward(const fw_cuda_launch *l, const attention_call &c, fw_dtype t);
/* bf16, D 64, 96 or 128, tiled inputs; delta_NH is there (cuda_attention_queries.cu, cuda_attention_keys.cu). `part`: memory
 * for attention_part_bytes(...). */
int attention_queries(const fw_cuda_launch *l, const attention_call &c);
int attention_keys(const fw_cuda_launch *l, const attention_call &c, float *part);
size_t attention_part_bytes(int64_t N, int64_t H, int64_t D, int sm_n);

namespace {

enum { ATTENTION_WARPS = 4, ATTENTION_THREADS = 32 * ATTENTION_WARPS };
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

/* Whether rows start at 16-byte boundaries and offsets inside a tile fit 32 bits. */
inline bool is_tiled(const void *p, int64_t stride) { return is_packed<bf16>(p, 8, stride) && stride < 1 << 23; }

/* Start copying rows 0 .. ROWS - 1 from `from`, of which the last that exists is row `last`. */
template <int D, int ROWS>
__device__ __forceinline__ void copy_rows(bf16 *tile, const bf16 *from, int stride, int last) {
    enum { CHUNKS = D / 8, EACH = ROWS * CHUNKS / ATTENTION_THREADS };
    static_assert(EACH * ATTENTION_THREADS == ROWS * CHUNKS, "every thread copies as many chunks");
    if constexpr (ATTENTION_THREADS % CHUNKS == 0) { /* a thread stays in its column */
        const int row = (int)threadIdx.x / CHUNKS, at = (int)threadIdx.x % CHUNKS * 8, below = last - row;
        from += row * stride + at;
        tile += row * (D + 8) + at;
        FW_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int down = i * (ATTENTION_THREADS / CHUNKS);
            async_copy_16(tile + down * (D + 8), from + min(down, below) * stride);
        }
    } else {
        FW_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int chunk = (int)threadIdx.x + i * ATTENTION_THREADS, row = chunk / CHUNKS, at = chunk % CHUNKS * 8;
            async_copy_16(tile + row * (D + 8) + at, from + (min(row, last) * stride + at));
        }
    }
}

/* a: rows row .. row + 15, columns column .. column + 15 of a tile. */
template <int D>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const bf16 *tile, int row, int column, int lane) {
    load_matrices(a, tile + (row + lane % 16) * (D + 8) + column + lane / 16 * 8);
}
/* Two b's of a product with the transposed tile: columns of b are rows row .. row + 15, rows of b are columns of the tile. */
template <int D>
__device__ __forceinline__ void load_b_of_rows(uint32_t (&b)[4], const bf16 *tile, int row, int column, int lane) {
    load_matrices(b, tile + (row + lane % 8 + lane / 16 * 8) * (D + 8) + column + lane / 8 % 2 * 8);
}
/* Two b's of a product with the tile itself: rows row .. row + 15, columns column .. column + 15. */
template <int D>
__device__ __forceinline__ void load_b(uint32_t (&b)[4], const bf16 *tile, int row, int column, int lane) {
    load_matrices_transposed(b, tile + (row + lane % 16) * (D + 8) + column + lane / 16 * 8);
}
/* 16 x 16: d, next += a b for the two b's. */
__device__ __forceinline__ void mma_pair(float (&d)[4], float (&next)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[4]) {
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
    mma_bf16(d, a, low);
    mma_bf16(next, a, high);
}
/* Two neighbouring results of products as the a of the next product: the layouts agree. */
__device__ __forceinline__ void a_of_results(uint32_t (&a)[4], const float (&d)[4], const float (&next)[4]) {
    a[0] = pack_bf16(d[0], d[1]);
    a[1] = pack_bf16(d[2], d[3]);
    a[2] = pack_bf16(next[0], next[1]);
    a[3] = pack_bf16(next[2], next[3]);
}

template <int N_TILES> __device__ __forceinline__ void clear(float (&d)[N_TILES][4]) {
    FW_UNROLL
    for (int j = 0; j < N_TILES; j++) {
        FW_UNROLL
        for (int e = 0; e < 4; e++) d[j][e] = 0.0f;
    }
}

/* d[i][j] = rows 16 i .. of x times rows 8 j .. of y, transposed: the sum runs over D. The warp's rows of x start at x_row. */
template <int D, int M_TILES, int N_TILES>
__device__ __forceinline__ void multiply_rows(float (&d)[M_TILES][N_TILES][4], const bf16 *x, int x_row, const bf16 *y,
                                              int lane) {
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) clear(d[i]);
    FW_UNROLL
    for (int k = 0; k < D; k += 16) {
        uint32_t a[M_TILES][4], b[4];
        FW_UNROLL
        for (int i = 0; i < M_TILES; i++) load_a<D>(a[i], x, x_row + 16 * i, k, lane);
        FW_UNROLL
        for (int j = 0; j < N_TILES; j += 2) {
            load_b_of_rows<D>(b, y, 8 * j, k, lane);
            FW_UNROLL
            for (int i = 0; i < M_TILES; i++) mma_pair(d[i][j], d[i][j + 1], a[i], b);
        }
    }
}

/* The fragments a of rows row .. row + 15 of a tile, for multiply_fragments. */
template <int D>
__device__ __forceinline__ void load_fragments(uint32_t (&a)[D / 16][4], const bf16 *tile, int row, int lane) {
    FW_UNROLL
    for (int k = 0; k < D / 16; k++) load_a<D>(a[k], tile, row, 16 * k, lane);
}
/* multiply_rows with x in registers: more of them, fewer loads. */
template <int D, int M_TILES, int N_TILES>
__device__ __forceinline__ void multiply_fragments(float (&d)[M_TILES][N_TILES][4],
                                                   const uint32_t (&x)[M_TILES][D / 16][4], const bf16 *y, int lane) {
    FW_UNROLL
    for (int i = 0; i < M_TILES; i++) clear(d[i]);
    FW_UNROLL
    for (int k = 0; k < D / 16; k++) {
        FW_UNROLL
        for (int j = 0; j < N_TILES; j += 2) {
            uint32_t b[4];
            load_b_of_rows<D>(b, y, 8 * j, 16 * k, lane);
            FW_UNROLL
            for (int i = 0; i < M_TILES; i++) mma_pair(d[i][j], d[i][j + 1], x[i][k], b);
        }
    }
}

/* d += s y: s are results of multiply_rows, rounded to bf16; y has 8 N_TILES rows. */
template <int D, int M_TILES, int N_TILES>
__device__ __forceinline__ void add_product(float (&d)[M_TILES][D / 8][4], const float (&s)[M_TILES][N_TILES][4],
                                            const bf16 *y, int lane) {
    FW_UNROLL
    for (int k = 0; k < N_TILES; k += 2) {
        uint32_t a[M_TILES][4], b[4];
        FW_UNROLL
        for (int i = 0; i < M_TILES; i++) a_of_results(a[i], s[i][k], s[i][k + 1]);
        FW_UNROLL
        for (int j = 0; j < D / 8; j += 2) {
            load_b<D>(b, y, 8 * k, 8 * j, lane);
            FW_UNROLL
            for (int i = 0; i < M_TILES; i++) mma_pair(d[i][j], d[i][j + 1], a[i], b);
        }
    }
}

/* Write the warp's 16 rows of d, times factor, to rows row_0 + row .. of y, of which row_end exist: by way of the warp's
 * own rows of a tile, so that writes are 16 bytes where `packed` says y allows that. */
template <int D>
__device__ __forceinline__ void write_rows(bf16 *y, int64_t stride, int row_end, bool packed,
                                           const float (&d)[D / 8][4], float factor, bf16 *tile, int row, int lane) {
    FW_UNROLL
    for (int j = 0; j < D / 8; j++) {
        FW_UNROLL
        for (int half = 0; half < 2; half++)
            *(uint32_t *)(tile + (row + 8 * half + lane / 4) * (D + 8) + 8 * j + 2 * (lane % 4)) =
                pack_bf16(d[j][2 * half] * factor, d[j][2 * half + 1] * factor);
    }
    __syncwarp();
    if (packed) {
        for (int i = lane; i < 16 * (D / 8); i += 32) {
            const int at_row = row + i / (D / 8), at = i % (D / 8) * 8;
            if (at_row < row_end) *(uint4 *)(y + at_row * stride + at) = *(const uint4 *)(tile + at_row * (D + 8) + at);
        }
    } else {
        for (int i = lane; i < 16 * D; i += 32) {
            const int at_row = row + i / D, at = i % D;
            if (at_row < row_end) y[at_row * stride + at] = tile[at_row * (D + 8) + at];
        }
    }
}

} // namespace

#endif
