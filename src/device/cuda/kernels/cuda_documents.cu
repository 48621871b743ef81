/* Where the packed documents of a micro-batch begin, from the first row of each row's document:
 *
 *   start[i] = i-th row n with first[n] = n;  length[i] = start[i + 1] - start[i], the last up to row N
 *   offset[s][i] = start[i] * stride[s]
 *
 * for i < document_n; documents that are not there begin at N and have length 0. Cut from the same rows for every layer,
 * since an operation keeps nothing between calls: one block, for 32,000 rows a few microseconds beside milliseconds of
 * attention. A thread takes a run of rows, counts the documents that begin there, finds by a sum over the threads before
 * it which number its first one has, and writes them. The order is that of the rows, so equal calls give equal bits. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 1024 };

struct offsets {
    int64_t stride[FW_CUDA_DOCUMENT_STRIDES];
};

/* The sum of x over the threads before this one; of_warp: 32 numbers of shared memory. */
__device__ __forceinline__ int sum_before(int x, int *of_warp) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = x;
    for (int d = 1; d < 32; d *= 2) {
        const int before = __shfl_sync(0xffffffffu, sum, lane >= d ? lane - d : lane);
        if (lane >= d) sum += before;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int all = 0;
    for (int w = 0; w < warp; w++) all += of_warp[w];
    return all + sum - x;
}

__global__ void __launch_bounds__(BLOCK)
    find_documents(int32_t *table, int64_t row_n, const int32_t *first_N, int N, int document_n, int longest_n,
                   offsets o) {
    __shared__ int of_warp[32];
    int32_t *const start = table, *const length = table + (1 + FW_CUDA_DOCUMENT_STRIDES) * row_n;
    const int each = (N + BLOCK - 1) / BLOCK, from = min(N, (int)threadIdx.x * each), to = min(N, from + each);
    for (int i = threadIdx.x; i <= document_n; i += BLOCK) start[i] = N;
    int begin_n = 0;
    for (int n = from; n < to; n++) begin_n += first_N != NULL ? first_N[n] == n : n == 0;
    int i = sum_before(begin_n, of_warp);
    if (i + begin_n > document_n) refuse("more documents than the plan has room for");
    __syncthreads(); /* N stands everywhere: starts may be written over it */
    for (int n = from; n < to; n++)
        if (first_N != NULL ? first_N[n] == n : n == 0) start[i++] = n;
    __syncthreads();
    for (int i = threadIdx.x; i <= document_n; i += BLOCK) {
        const int at = start[i];
        for (int s = 0; s < FW_CUDA_DOCUMENT_STRIDES; s++)
            table[(1 + s) * row_n + i] = (int32_t)(at * o.stride[s]);
        if (i == document_n) break;
        length[i] = start[i + 1] - at;
        if (length[i] > longest_n) refuse("a longer document than the plan has room for");
    }
}

} // namespace

int64_t fw_cuda_documents_pitch(int64_t document_n) { return (document_n + 1 + 3) / 4 * 4; }

int fw_cuda_documents(const fw_cuda_launch *l, int32_t *table, const int32_t *first_N, int64_t N, int64_t document_n,
                      int64_t longest_n, const int64_t *stride) {
    offsets o;
    for (int s = 0; s < FW_CUDA_DOCUMENT_STRIDES; s++) o.stride[s] = stride[s];
    FW_LAUNCH(find_documents, 1, BLOCK, 0, stream_of(l), table, fw_cuda_documents_pitch(document_n), first_N, (int)N,
              (int)document_n, (int)longest_n, o);
    return launch_status();
}
