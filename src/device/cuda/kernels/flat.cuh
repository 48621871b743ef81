/* An operation on n elements that each stand for themselves: one thread a chunk of N elements, and one thread for each of
 * the n % N that remain.
 *
 * An operation is a struct with `template <int N> __device__ void at(int64_t i) const` for elements i .. i + N - 1. All
 * its pointers must be aligned for chunks of N when the launch says so; else the elements go one by one. There are a few
 * instructions to an element, so memory sets the time: each thread asks for 16 bytes of each input, and a multiprocessor
 * with all its threads has 32 KiB and more under way. */
#ifndef FW_DEVICE_CUDA_KERNELS_FLAT_CUH
#define FW_DEVICE_CUDA_KERNELS_FLAT_CUH

#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { FLAT_BLOCK = 256 };

template <int N, class Operation> __global__ void __launch_bounds__(FLAT_BLOCK) flat(Operation operation, int64_t n) {
    const int64_t i = thread_of_grid<FLAT_BLOCK>(), chunk_n = n / N;
    if (i < chunk_n)
        operation.template at<N>(i * N);
    else if (i < chunk_n + n % N)
        operation.template at<1>(chunk_n * N + (i - chunk_n));
}

template <int N, class Operation>
int launch_flat(const fw_cuda_launch *l, Operation operation, int64_t n, bool chunked) {
    if (n == 0) return 0;
    if (chunked)
        FW_LAUNCH((flat<N, Operation>), (unsigned)blocks_of(n / N + n % N, FLAT_BLOCK), FLAT_BLOCK, 0, stream_of(l),
                  operation, n);
    else
        FW_LAUNCH((flat<1, Operation>), (unsigned)blocks_of(n, FLAT_BLOCK), FLAT_BLOCK, 0, stream_of(l), operation, n);
    return launch_status();
}

} // namespace

#endif
