/* What every kernel file starts with: one source for nvcc (a GPU) and for the host compiler (simt/simt.h).
 *
 * Conventions of kernels here:
 *   - a kernel is launched by FW_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...)
 *   - dynamic shared memory is FW_DYNAMIC_SHARED(type, name)
 *   - __shared__ arrays stand in functions that are no templates: elsewhere the emulation cannot find and poison them
 *   - functions of the C library (expf, logf, sqrtf) and fast_exp2 below, no __expf and the like: a GPU is to be as exact as
 *     the emulation, or the emulation's tests would prove too much
 *   - sums are carried in fp32 in an order that depends on the shape alone; no float atomics
 *   - tensors of the compute type are `const T *` with T float or bf16; to_float and from_float<T> convert
 *   - Pack<T> is 16 bytes of T: is_packed(...) says whether pointers and strides allow it, else elements go one by one
 */
#ifndef FW_DEVICE_CUDA_KERNELS_GPU_CUH
#define FW_DEVICE_CUDA_KERNELS_GPU_CUH

#include <stdint.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define FW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                                      \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define FW_DYNAMIC_SHARED(type, name)                                                                                  \
    extern __shared__ __align__(128) unsigned char fw_dynamic_shared[];                                                \
    type *name = reinterpret_cast<type *>(fw_dynamic_shared)
#define FW_UNROLL _Pragma("unroll")
#else
#include "device/simt/simt.h"
#define FW_UNROLL /* for loops over arrays that must stay in registers */
#endif

#include "device/cuda/cuda_kernels.h"

/* ---- the two compute types, and fp16, which is only cast */

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

static __device__ __forceinline__ float to_float(float x) { return x; }
static __device__ __forceinline__ float to_float(bf16 x) {
    uint32_t wide = (uint32_t)x.bits << 16;
#ifdef __CUDACC__
    return __uint_as_float(wide);
#else
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
#endif
}

static __device__ __forceinline__ float to_float(f16 x) {
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(x.bits));
#else
    return fw_f16_to_f32(x.bits);
#endif
}

/* Round to nearest, ties to even; NaN stays NaN. */
template <class T> static __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
#ifdef __CUDACC__
    return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    return bf16{fw_bf16_from_f32(x)};
#endif
}

template <> __device__ __forceinline__ f16 from_float<f16>(float x) {
#ifdef __CUDACC__
    return f16{__half_as_ushort(__float2half_rn(x))};
#else
    return f16{fw_f16_from_f32(x)};
#endif
}

/* What a value of type T becomes when it is stored and read again. */
template <class T> static __device__ __forceinline__ float rounded(float x) { return to_float(from_float<T>(x)); }

/* ---- 16 bytes at a time */

template <class T> struct __align__(16) Pack {
    enum { N = 16 / sizeof(T) };
    T v[N];
};

/* N elements of T, in one access where they are 16 bytes or less. */
template <class T, int N> struct __align__(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Chunk { T v[N]; };
template <int N, class T> static __device__ __forceinline__ Chunk<T, N> load_chunk(const T *p) {
    return *reinterpret_cast<const Chunk<T, N> *>(p);
}
/* To global memory. Of 16-bit elements the compiler would take some chunks apart and store them one by one. */
template <class T, int N> static __device__ __forceinline__ void store_chunk(T *p, const Chunk<T, N> &c) {
#ifdef __CUDACC__
    if constexpr (sizeof c % 8 == 0) {
        uint32_t word[sizeof c / 4];
        memcpy(word, &c, sizeof c);
        if constexpr (sizeof c % 16 == 0)
            for (unsigned i = 0; i < sizeof c / 4; i += 4)
                asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(reinterpret_cast<uint32_t *>(p) + i),
                             "r"(word[i]), "r"(word[i + 1]), "r"(word[i + 2]), "r"(word[i + 3])
                             : "memory");
        else
            asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(p), "r"(word[0]), "r"(word[1]) : "memory");
        return;
    }
#endif
    *reinterpret_cast<Chunk<T, N> *>(p) = c;
}

/* Element i of a chunk, and a chunk made of N values. On a GPU a chunk of 16-bit elements that is used by these alone stays
 * in registers as words of two, where each c.v[i] would take a register of its own. */
template <class T, int N> static __device__ __forceinline__ float element(const Chunk<T, N> &c, int i) {
#ifdef __CUDACC__
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        uint32_t word;
        memcpy(&word, reinterpret_cast<const unsigned char *>(&c) + i / 2 * 4, 4);
        return to_float(T{(uint16_t)(i % 2 == 0 ? word & 0xffffu : word >> 16)});
    }
#endif
    return to_float(c.v[i]);
}
template <class T, int N> static __device__ __forceinline__ Chunk<T, N> chunk_of(const float (&value)[N]) {
    Chunk<T, N> c;
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        for (int i = 0; i < N; i += 2) {
            const uint32_t word = (uint32_t)from_float<T>(value[i]).bits | (uint32_t)from_float<T>(value[i + 1]).bits
                                                                               << 16;
            memcpy(reinterpret_cast<unsigned char *>(&c) + 2 * i, &word, 4);
        }
    } else {
        for (int i = 0; i < N; i++) c.v[i] = from_float<T>(value[i]);
    }
    return c;
}
/* Between two uses of a chunk: has its elements converted again rather than kept as floats, in twice the registers. */
template <class T, int N> static __device__ __forceinline__ void keep_packed(Chunk<T, N> &c) {
#ifdef __CUDACC__
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        uint32_t word[N / 2];
        memcpy(word, &c, sizeof word);
        for (int i = 0; i < N / 2; i++) asm volatile("" : "+r"(word[i]));
        memcpy(&c, word, sizeof word);
    }
#else
    (void)c;
#endif
}

/* Whether rows of n elements of T, the first at p and the others a multiple of stride on, can be read as Chunk<T, N>. */
template <class T, int N> static inline bool is_chunked(const void *p, int64_t n, int64_t stride) {
    return (uintptr_t)p % alignof(Chunk<T, N>) == 0 && n % N == 0 && stride % N == 0;
}
template <class T> static inline bool is_packed(const void *p, int64_t n, int64_t stride) {
    return is_chunked<T, Pack<T>::N>(p, n, stride);
}

/* ---- which thread does what */

/* The number of this thread in a grid of blocks of BLOCK threads, both of one dimension. */
template <int BLOCK> static __device__ __forceinline__ int64_t thread_of_grid() {
    return (int64_t)blockIdx.x * BLOCK + threadIdx.x;
}
/* i / n and i % n for i >= 0, n > 0: in 64 bits a division takes several times as long as in 32. */
static __device__ __forceinline__ int64_t divide(int64_t i, int64_t n, int64_t *rest) {
    if ((uint64_t)(i | n) >> 32 == 0) {
        const uint32_t quotient = (uint32_t)i / (uint32_t)n;
        *rest = (uint32_t)i - quotient * (uint32_t)n;
        return quotient;
    }
    *rest = i % n;
    return i / n;
}

/* A bound that the host promised does not hold: a bug. The GPU stops; the message is the emulation's only. */
static __device__ __forceinline__ void refuse(const char *what) {
#ifdef __CUDACC__
    (void)what;
    __trap();
#else
    fw_simt::stop(what);
#endif
}

/* ---- warps and blocks; block sizes are multiples of 32 */

static __device__ __forceinline__ float warp_sum(float x) {
    for (int bits = 16; bits > 0; bits >>= 1) x += __shfl_xor_sync(0xffffffffu, x, bits);
    return x;
}
static __device__ __forceinline__ float warp_max(float x) {
    for (int bits = 16; bits > 0; bits >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bits));
    return x;
}
/* The sum over the block, on every thread. `scratch`: 32 floats of shared memory, free again when it returns. */
static __device__ __forceinline__ float block_sum(float x, float *scratch) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_n = blockDim.x / 32;
    x = warp_sum(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_sum(lane < warp_n ? scratch[lane] : 0.0f);
    __syncthreads();
    return x;
}
static __device__ __forceinline__ float block_max(float x, float *scratch) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_n = blockDim.x / 32;
    x = warp_max(x);
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = warp_max(lane < warp_n ? scratch[lane] : -INFINITY);
    __syncthreads();
    return x;
}

/* 2^x, subnormal results flushed; -infinity gives 0. The one function that is coarser on a GPU than in the emulation: off
 * by 2^-22 of the result at most, whatever x is (PTX: ex2.approx.ftz), 4 of the 8 roundings that the bounds of
 * tests/support/op_bounds.c allow an exponential. What errs with its argument (__expf) is not used anywhere. */
static __device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* ---- tensor cores and asynchronous copies */

/* 16 bytes from global to shared memory, visible after async_wait of its group and a barrier. */
static __device__ __forceinline__ void async_copy_16(void *shared, const void *global) {
#ifdef __CUDACC__
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(global));
#else
    fw_simt::async_copy(shared, global, 16);
#endif
}
/* The same for 4 bytes. */
static __device__ __forceinline__ void async_copy_4(void *shared, const void *global) {
#ifdef __CUDACC__
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(global));
#else
    fw_simt::async_copy(shared, global, 4);
#endif
}
static __device__ __forceinline__ void async_commit() {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;\n" ::);
#else
    fw_simt::async_commit();
#endif
}
template <int GROUPS_LEFT> static __device__ __forceinline__ void async_wait() {
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;\n" ::"n"(GROUPS_LEFT));
#else
    fw_simt::async_wait(GROUPS_LEFT);
#endif
}

/* Four 8 x 8 matrices of 16-bit elements from shared memory: lane l gives the address of row l % 8 of matrix l / 8
 * (16 bytes, aligned), and gets in r[i] two elements of matrix i: row l / 4, columns 2 (l % 4) and the next; with TURNED,
 * which reads each matrix transposed, rows 2 (l % 4) and the next, column l / 4. */
template <bool TURNED> static __device__ __forceinline__ void load_matrices_as(uint32_t (&r)[4], const void *row) {
#ifdef __CUDACC__
    const unsigned from = (unsigned)__cvta_generic_to_shared(row);
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from));
#else
    fw_simt::check_shared(row, 16, "ldmatrix from what is not shared memory, or not aligned to 16 bytes");
    const unsigned char *slots = fw_simt::warp_meet(0xffffffffu, &row, sizeof row, fw_simt::KIND_LDMATRIX, __LINE__);
    const int lane = fw_simt::here->lane;
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (int k = 0; k < 2; k++) {
            const int in_row = TURNED ? 2 * (lane % 4) + k : lane / 4, column = TURNED ? lane / 4 : 2 * (lane % 4) + k;
            const unsigned char *from;
            memcpy(&from, slots + 16 * (8 * i + in_row), sizeof from);
            memcpy(&pair[k], from + 2 * column, sizeof pair[k]);
        }
        memcpy(&r[i], pair, sizeof r[i]);
    }
    fw_simt::warp_leave();
#endif
}
static __device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *row) {
    load_matrices_as<false>(r, row);
}
static __device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void *row) {
    load_matrices_as<true>(r, row);
}

/* d += a b: a is 16 x 16 (rows), b 16 x 8 (columns) bf16, d 16 x 8 fp32, spread over the warp as PTX has it for
 * mma.m16n8k16: with g = lane / 4 and t = lane % 4, a[0] = rows g, a[1] = rows g + 8, columns 2t, 2t + 1; a[2], a[3] the
 * same 8 columns on; b[0] = rows 2t, 2t + 1 of column g, b[1] the same 8 rows on; d = (g, 2t), (g, 2t + 1), (g + 8, 2t),
 * (g + 8, 2t + 1). */
static __device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    /* Each lane takes the two rows of a and the two columns of b that its part of d is made of. */
    const int g = fw_simt::here->lane / 4, t = fw_simt::here->lane % 4;
    float A[2][16], B[2][16];
    auto value = [](uint32_t word, int half) { return to_float(bf16{(uint16_t)(word >> (16 * half))}); };
    const unsigned char *slots = fw_simt::warp_meet(0xffffffffu, a, sizeof a, fw_simt::KIND_MMA_A, __LINE__);
    for (int from = 0; from < 4; from++) {
        uint32_t word[4];
        memcpy(word, slots + 16 * (4 * g + from), sizeof word);
        for (int i = 0; i < 8; i++) A[i / 2 % 2][2 * from + i % 2 + 8 * (i / 4)] = value(word[i / 2], i % 2);
    }
    fw_simt::warp_leave();
    slots = fw_simt::warp_meet(0xffffffffu, b, sizeof b, fw_simt::KIND_MMA_B, __LINE__);
    for (int column = 0; column < 2; column++) {
        for (int from = 0; from < 4; from++) {
            uint32_t word[2];
            memcpy(word, slots + 16 * (4 * (2 * t + column) + from), sizeof word);
            for (int i = 0; i < 4; i++) B[column][2 * from + i % 2 + 8 * (i / 2)] = value(word[i / 2], i % 2);
        }
    }
    fw_simt::warp_leave();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) d[i] += A[i / 2][k] * B[i % 2][k];
#endif
}

/* Two floats as a word of two bf16, the first in the low half. */
static __device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
#ifdef __CUDACC__
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (uint32_t)from_float<bf16>(low).bits | (uint32_t)from_float<bf16>(high).bits << 16;
#endif
}

/* ---- launchers */

static inline int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }
/* What a launcher returns: the launch's error, 0 for none. */
static inline int launch_status() {
#ifdef __CUDACC__
    return (int)cudaGetLastError();
#else
    return 0; /* a bad launch has ended the process */
#endif
}
static inline cudaStream_t stream_of(const fw_cuda_launch *l) { return (cudaStream_t)l->stream; }

/* Lets a kernel have more than 48 KB of dynamic shared memory. Returns the error, 0 for none. */
template <class Kernel> static inline int allow_shared(Kernel kernel, size_t bytes) {
#ifdef __CUDACC__
    if (bytes <= 48 * 1024) return 0;
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
#else
    (void)kernel, (void)bytes;
    return 0;
#endif
}
/* Shared memory of a multiprocessor of the current device: says how many blocks it can hold at once. */
static inline size_t shared_per_multiprocessor() {
#ifdef __CUDACC__
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess)
        return 0;
    return (size_t)bytes;
#else
    return 228 * 1024;
#endif
}

/* Calls `call` with T as float or bf16. */
#define FW_BY_TYPE(t, call)                                                                                            \
    do {                                                                                                               \
        if ((t) == FW_F32) {                                                                                           \
            using T = float;                                                                                           \
            call;                                                                                                      \
        } else {                                                                                                       \
            using T = bf16;                                                                                            \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

#endif
