#include "support/simt_kernels.h"

#include "device/cuda/kernels/gpu.cuh"

namespace {

const unsigned ALL = 0xffffffffu;

__global__ void places(int32_t *out) {
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int size = blockDim.x * blockDim.y * blockDim.z;
    int32_t *mine = out + 6 * (block * size + thread);
    mine[0] = blockIdx.x, mine[1] = blockIdx.y, mine[2] = blockIdx.z;
    mine[3] = threadIdx.x, mine[4] = threadIdx.y, mine[5] = threadIdx.z;
}

__global__ void shuffles(double *out, const double *in) {
    const int i = threadIdx.x;
    const double x = in[i];
    out[i] = __shfl_xor_sync(ALL, x, 5);
    out[64 + i] = __shfl_down_sync(ALL, x, 3);
    out[128 + i] = __shfl_sync(ALL, x, 7);
    out[192 + i] = __shfl_sync(ALL, x, i * 11 % 32);
}

__global__ void ballot(uint32_t *out, const int32_t *in) {
    out[threadIdx.x] = __ballot_sync(ALL, in[threadIdx.x] % 2 != 0);
}

__global__ void part_of_warp(int32_t *out, const int32_t *in) {
    const int i = threadIdx.x;
    if (i >= 8) {
        out[i] = 0;
        return;
    }
    const int odd = (int)__ballot_sync(0xffu, in[i] % 2 != 0);
    int sum = in[i];
    for (int bits = 4; bits > 0; bits >>= 1) sum += __shfl_xor_sync(0xffu, sum, bits);
    out[i] = 1000 * odd + sum;
}

__global__ void block_sums(float *out, const float *in) {
    __shared__ float scratch[32];
    const float x = in[blockIdx.x * blockDim.x + threadIdx.x];
    const float sum = block_sum(x, scratch), most = block_max(x, scratch);
    if (threadIdx.x == blockDim.x - 1) out[2 * blockIdx.x] = sum, out[2 * blockIdx.x + 1] = most;
}

__global__ void matrices(uint16_t (*out)[8], const uint16_t *in, int transposed) {
    FW_DYNAMIC_SHARED(uint16_t, tile);
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = in[i];
    __syncthreads();
    uint32_t r[4];
    if (transposed)
        load_matrices_transposed(r, tile + 8 * threadIdx.x);
    else
        load_matrices(r, tile + 8 * threadIdx.x);
    for (int i = 0; i < 8; i++) out[threadIdx.x][i] = (uint16_t)(r[i / 2] >> (16 * (i % 2)));
}

__global__ void product(float *d, const uint16_t *a, const uint16_t *b) {
    __shared__ __align__(16) uint16_t A[16][16], B[8][16];
    const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (int i = lane; i < 256; i += 32) A[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32) B[i / 16][i % 16] = b[i];
    __syncthreads();
    uint32_t fa[4], four[4];
    load_matrices(fa, &A[lane % 16][8 * (lane / 16)]);
    load_matrices(four, &B[lane % 8][8 * (lane / 8 % 2)]); /* the third and fourth are the first two once more */
    const uint32_t fb[2] = {four[0], four[1]};
    float sum[4];
    for (int i = 0; i < 4; i++) sum[i] = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
    mma_bf16(sum, fa, fb);
    for (int i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = sum[i];
}

__global__ void async(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tile);
    const int i = 4 * threadIdx.x;
    async_copy_16(tile + i, in + i);
    async_commit();
    async_copy_16(tile + 128 + i, in + 128 + i);
    async_commit();
    async_wait<1>();
    for (int k = 0; k < 4; k++) out[i + k] = tile[i + k];
    async_wait<0>();
    for (int k = 0; k < 4; k++) out[128 + i + k] = tile[128 + i + k];
}

/* ---- faulty */

/* Tiles come by turns into two halves; a warp that runs ahead overwrites the half that others still read. */
__global__ void early_overwrite(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tiles);
    const int i = threadIdx.x, tile_n = 4;
    float sum = 0;
    if (i < 16) async_copy_16(tiles + 4 * i, in + 4 * i);
    async_commit();
    for (int t = 0; t < tile_n; t++) {
        if (t + 1 < tile_n && i < 16) async_copy_16(tiles + (t + 1) % 2 * 64 + 4 * i, in + (t + 1) * 64 + 4 * i);
        async_commit();
        async_wait<1>();
        __syncthreads();
        sum += tiles[t % 2 * 64 + (i + 32) % 64]; /* of the other warp's part; a barrier is missing behind it */
    }
    out[i] = sum;
    async_wait<0>();
}

/* A warp's own copies have come after its wait; those of others only behind a barrier, which is missing. */
__global__ void early_read(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tile);
    const int i = threadIdx.x;
    if (i < 16) async_copy_16(tile + 4 * i, in + 4 * i);
    async_commit();
    async_wait<0>();
    out[i] = tile[63 - i];
}

/* Sums of warps gather in a scratch that the next sum takes again: without the barrier behind the reads. */
__global__ void early_reuse(float *out, const float *in) {
    __shared__ float scratch[8];
    for (int turn = 0; turn < 2; turn++) {
        const float sum = warp_sum(in[threadIdx.x] * (float)(turn + 1));
        if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
        __syncthreads();
        float all = 0;
        for (int w = 0; w < 8; w++) all += scratch[w];
        out[threadIdx.x] = turn == 0 ? all : out[threadIdx.x] + all;
    }
}

/* Lanes of one warp, without a __syncwarp between writing and reading. */
__global__ void missing_warp_barrier(float *out, const float *in) {
    __shared__ float tile[32];
    tile[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = tile[31 - threadIdx.x];
}

__global__ void missing_barrier(float *out, const float *in) {
    __shared__ float tile[256];
    tile[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void unread_async(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tile);
    const int i = 4 * threadIdx.x;
    async_copy_16(tile + i, in + i);
    async_commit();
    __syncthreads();
    for (int k = 0; k < 4; k++) out[i + k] = tile[i + k];
    async_wait<0>();
}

__global__ void divergent_collective(float *out) {
    float x = 1;
    if (threadIdx.x % 2 == 0)
        x = __shfl_xor_sync(ALL, x, 1);
    else
        x = __shfl_xor_sync(ALL, x, 2);
    out[threadIdx.x] = x;
}

__global__ void missing_lane(float *out) {
    float x = 1;
    if (threadIdx.x % 32 != 31) x = __shfl_xor_sync(ALL, x, 1);
    out[threadIdx.x] = x;
}

__global__ void foreign_mask(float *out) { out[threadIdx.x] = __shfl_xor_sync(0xfffeu, 1.0f, 1); }

__global__ void foreign_source(float *out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, 1.0f, 8 + threadIdx.x);
}

__global__ void divergent_barrier(float *out) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void barrier_after_exit(float *out) {
    if (threadIdx.x >= 32) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void barrier_and_collective(float *out) {
    float x = 1;
    if (threadIdx.x == 40)
        __syncthreads();
    else
        x = __shfl_xor_sync(ALL, x, 1);
    out[threadIdx.x] = x;
}

__global__ void endless_groups(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tile);
    for (int i = 0; i < 64 && threadIdx.x == 0; i++) {
        async_copy_16(tile + 4 * i, in);
        async_commit();
    }
    out[0] = 1;
}

__global__ void async_to_global(float *out, const float *in) { async_copy_16(out, in); }

__global__ void async_unaligned(float *out, const float *in) {
    FW_DYNAMIC_SHARED(float, tile);
    async_copy_16(tile + 4, in + 1);
    out[0] = tile[0];
}

__global__ void matrices_from_global(float *out, const float *in) {
    uint32_t r[4];
    load_matrices(r, in);
    out[threadIdx.x] = (float)r[0];
}

__global__ void writes_behind(float *out, int64_t n) {
    if (threadIdx.x == 0) out[n] = 1;
}

__global__ void reads_behind(float *out, const float *in, int64_t n) {
    if (threadIdx.x == 0) out[0] = in[0] + in[n];
}

__global__ void shared_behind(float *out, int n) {
    FW_DYNAMIC_SHARED(float, tile);
    tile[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x + n];
}

__global__ void deep_stack(float *out) {
    volatile unsigned char much[200 * 1024];
    for (int i = (int)sizeof much - 1; i >= 0; i -= 512) much[i] = 1; /* down from the top, as calls would */
    out[0] = much[511];
}

__global__ void nothing(int) {}

} // namespace

void fw_simt_lab_places(int32_t *out) { FW_LAUNCH(places, dim3(2, 2, 2), dim3(8, 4, 2), 0, nullptr, out); }
void fw_simt_lab_shuffles(double *out, const double *in) { FW_LAUNCH(shuffles, 1, 64, 0, nullptr, out, in); }
void fw_simt_lab_ballot(uint32_t *out, const int32_t *in) { FW_LAUNCH(ballot, 1, 64, 0, nullptr, out, in); }
void fw_simt_lab_part_of_warp(int32_t *out, const int32_t *in) { FW_LAUNCH(part_of_warp, 1, 32, 0, nullptr, out, in); }
void fw_simt_lab_block_sums(float *out, const float *in, int n, int block_n) {
    FW_LAUNCH(block_sums, (unsigned)block_n, (unsigned)n, 0, nullptr, out, in);
}
void fw_simt_lab_matrices(uint16_t (*out)[8], const uint16_t *in, int transposed) {
    FW_LAUNCH(matrices, 1, 32, 512, nullptr, out, in, transposed);
}
void fw_simt_lab_product(float *d, const uint16_t *a, const uint16_t *b) {
    FW_LAUNCH(product, 1, 32, 0, nullptr, d, a, b);
}
void fw_simt_lab_async(float *out, const float *in) { FW_LAUNCH(async, 1, 32, 1024, nullptr, out, in); }

void fw_simt_lab_missing_barrier(float *out, const float *in) {
    FW_LAUNCH(missing_barrier, 1, 256, 0, nullptr, out, in);
}
void fw_simt_lab_early_overwrite(float *out, const float *in) {
    FW_LAUNCH(early_overwrite, 1, 64, 512, nullptr, out, in);
}
void fw_simt_lab_early_read(float *out, const float *in) { FW_LAUNCH(early_read, 1, 64, 256, nullptr, out, in); }
void fw_simt_lab_early_reuse(float *out, const float *in) { FW_LAUNCH(early_reuse, 1, 256, 0, nullptr, out, in); }
void fw_simt_lab_missing_warp_barrier(float *out, const float *in) {
    FW_LAUNCH(missing_warp_barrier, 1, 32, 0, nullptr, out, in);
}
void fw_simt_lab_unread_async(float *out, const float *in) { FW_LAUNCH(unread_async, 1, 32, 512, nullptr, out, in); }
void fw_simt_lab_divergent_collective(float *out) { FW_LAUNCH(divergent_collective, 1, 32, 0, nullptr, out); }
void fw_simt_lab_missing_lane(float *out) { FW_LAUNCH(missing_lane, 1, 64, 0, nullptr, out); }
void fw_simt_lab_foreign_mask(float *out) { FW_LAUNCH(foreign_mask, 1, 32, 0, nullptr, out); }
void fw_simt_lab_foreign_source(float *out) { FW_LAUNCH(foreign_source, 1, 32, 0, nullptr, out); }
void fw_simt_lab_divergent_barrier(float *out) { FW_LAUNCH(divergent_barrier, 1, 64, 0, nullptr, out); }
void fw_simt_lab_barrier_after_exit(float *out) { FW_LAUNCH(barrier_after_exit, 1, 64, 0, nullptr, out); }
void fw_simt_lab_barrier_and_collective(float *out) { FW_LAUNCH(barrier_and_collective, 1, 64, 0, nullptr, out); }
void fw_simt_lab_endless_groups(float *out, const float *in) {
    FW_LAUNCH(endless_groups, 1, 32, 1024, nullptr, out, in);
}
void fw_simt_lab_async_to_global(float *out, const float *in) {
    FW_LAUNCH(async_to_global, 1, 32, 16, nullptr, out, in);
}
void fw_simt_lab_async_unaligned(float *out, const float *in) {
    FW_LAUNCH(async_unaligned, 1, 32, 64, nullptr, out, in);
}
void fw_simt_lab_matrices_from_global(float *out, const float *in) {
    FW_LAUNCH(matrices_from_global, 1, 32, 512, nullptr, out, in);
}
void fw_simt_lab_writes_behind(float *out, int64_t n) { FW_LAUNCH(writes_behind, 1, 32, 0, nullptr, out, n); }
void fw_simt_lab_reads_behind(float *out, const float *in, int64_t n) {
    FW_LAUNCH(reads_behind, 1, 32, 0, nullptr, out, in, n);
}
void fw_simt_lab_shared_behind(float *out) { FW_LAUNCH(shared_behind, 1, 33, 33 * 4, nullptr, out, 1); }
void fw_simt_lab_deep_stack(float *out) { FW_LAUNCH(deep_stack, 1, 32, 0, nullptr, out); }
void fw_simt_lab_launch(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared_bytes) {
    FW_LAUNCH(nothing, dim3(grid_x, grid_y), dim3(block_x, 1, block_z), shared_bytes, nullptr, 0);
}
