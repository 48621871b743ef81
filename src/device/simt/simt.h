/* CUDA C++ kernels compiled by the host compiler: what the language and its headers give, as far as our kernels use it.
 *
 * Included by cuda/kernels/gpu.cuh instead of the CUDA headers; needs no CUDA toolkit. Each CUDA thread of a block runs
 * as a fiber (simt_runtime.cc); blocks run one after the other. What is checked, with a message that names kernel, block,
 * thread and line, and the end of the process:
 *
 *   - a warp collective whose lanes come with different masks, at different lines, or not at all
 *   - __syncthreads that some threads of the block do not come to, or that they come to at different lines
 *   - shared memory that two threads touch, one of them writing, with no barrier between (simt_races.h)
 *   - shared memory read before it was written: it holds NaN at the start of every block
 *   - cp.async data read before the wait that makes it visible: it may arrive only there
 *   - cp.async and ldmatrix addresses that are not shared memory or not aligned
 *   - a launch with a bad configuration; out-of-bounds and misaligned access through ASan and UBSan
 *
 * The environment's FW_SIMT_SEED=n picks the schedule. In step: each thread in turn goes on to its next barrier or warp
 * collective. Ahead: a warp goes on until it waits at a barrier, then the next warp does.
 *
 *   n               threads                            data of cp.async arrives
 *   0               in step, ascending                 at the wait for it
 *   1, 5, 9, ...    warps ahead, ascending             at once
 *   2, 6, 10, ...   warps ahead, descending            at once
 *   3, 7, 11, ...   warps ahead, in random order       at once or at the wait
 *   4, 8, 12, ...   in step, in random order           at the wait
 *
 * A kernel whose results differ between seeds lacks a barrier. Not covered: what happens between blocks that run at
 * once, speed, and instructions that are not emulated here (wgmma, TMA). */
#ifndef FW_DEVICE_SIMT_SIMT_H
#define FW_DEVICE_SIMT_SIMT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
/* Of one block at a time, so one copy is enough; the section lets the runtime fill all of it with NaN. */
#define __shared__ static __attribute__((section("fw_simt_shared")))
#define __launch_bounds__(...)
#define __constant__ static const
#define __align__(n) __attribute__((aligned(n)))

typedef void *cudaStream_t;

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};

namespace fw_simt {

/* The thread that runs. */
struct thread_place {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    int linear, lane; /* in the block, in the warp */
};
extern thread_place *here;

void *dynamic_shared();
void block_barrier(int line);
/* Every lane of mask gives `bytes` (16 at most). Returns 32 slots of 16 bytes, valid until warp_leave. */
const unsigned char *warp_meet(unsigned mask, const void *value, size_t bytes, int kind, int line);
void warp_leave();
/* cp.async: copies wait in groups until they are waited for. */
void async_copy(void *to, const void *from, size_t bytes);
void async_commit();
void async_wait(int groups_left);
[[noreturn]] void stop(const char *what);
/* Stops with `what` unless the bytes lie in the block's shared memory, aligned to their number. */
void check_shared(const void *p, size_t bytes, const char *what);

void run(const char *name, dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void *), void *arguments);

template <class Kernel, class... Arguments>
static inline void launch(const char *name, Kernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                          Arguments... arguments) {
    auto body = [&]() { kernel(arguments...); };
    using body_type = decltype(body);
    run(
        name, grid, block, shared_bytes, [](void *b) { (*static_cast<body_type *>(b))(); }, &body);
}

enum { KIND_SHUFFLE = 1, KIND_SYNC, KIND_BALLOT, KIND_MMA_A, KIND_MMA_B, KIND_LDMATRIX };

template <class T> static inline T shuffle(unsigned mask, T value, int source, int line) {
    static_assert(sizeof(T) <= 16, "a lane gives at most 16 bytes");
    const unsigned char *slots = warp_meet(mask, &value, sizeof value, KIND_SHUFFLE, line);
    T result;
    memcpy(&result, slots + 16 * (source & 31), sizeof result);
    if (!((mask >> (source & 31)) & 1)) stop("a shuffle reads from a lane outside its mask");
    warp_leave();
    return result;
}

static inline unsigned ballot(unsigned mask, bool predicate, int line) {
    unsigned char mine = predicate;
    const unsigned char *slots = warp_meet(mask, &mine, 1, KIND_BALLOT, line);
    unsigned all = 0;
    for (int lane = 0; lane < 32; lane++)
        if (((mask >> lane) & 1) && slots[16 * lane]) all |= 1u << lane;
    warp_leave();
    return all;
}

} // namespace fw_simt

#define threadIdx (fw_simt::here->thread)
#define blockIdx (fw_simt::here->block)
#define blockDim (fw_simt::here->block_dim)
#define gridDim (fw_simt::here->grid_dim)
#define warpSize 32
#define __syncthreads() fw_simt::block_barrier(__LINE__)
#define __syncwarp() (fw_simt::warp_meet(0xffffffffu, "", 1, fw_simt::KIND_SYNC, __LINE__), fw_simt::warp_leave())
#define __shfl_sync(mask, value, source) fw_simt::shuffle(mask, value, source, __LINE__)
#define __shfl_xor_sync(mask, value, bits) fw_simt::shuffle(mask, value, fw_simt::here->lane ^ (bits), __LINE__)
#define __shfl_down_sync(mask, value, n)                                                                               \
    fw_simt::shuffle(mask, value,                                                                                      \
                     fw_simt::here->lane + (int)(n) > 31 ? fw_simt::here->lane : fw_simt::here->lane + (int)(n),       \
                     __LINE__)
#define __ballot_sync(mask, predicate) fw_simt::ballot(mask, predicate, __LINE__)

template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

/* The launch is over when it returns; arguments are evaluated once. */
#define FW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    ((void)(stream), fw_simt::launch(#kernel, kernel, dim3(grid), dim3(block), shared_bytes, __VA_ARGS__))
#define FW_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(fw_simt::dynamic_shared())

#endif
