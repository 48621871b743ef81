/* y[i] = map[code] * scale: weights from 4 bits, each product rounded to fp32 and then to the type of y.
 *
 * One thread takes 8 codes, which are 4 bytes, and writes one or two packs. The map stands in shared memory, 16 words in 16
 * banks, so any 32 look-ups are one access. Scales that are in 8 bits themselves are made again by every thread of a block
 * of numbers: a byte, an entry, a multiplication and an addition for 8 results, where half a byte of codes and 2 bytes of
 * results an element set the time. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 256 };

__device__ __forceinline__ float *shared_map() {
    __shared__ float map[16];
    return map;
}

/* fw_quant_scale; product and sum are rounded one by one. */
__device__ __forceinline__ float scale_of(const fw_quant_scales &s, int64_t b) {
    if (s.absmax != nullptr) return s.absmax[b];
#ifdef __CUDACC__
    return __fadd_rn(__fmul_rn(s.map8[s.scale_code[b]], s.nested[b / s.nested_block]), *s.offset);
#else
    return fw_quant_scale(&s, b);
#endif
}

__device__ __forceinline__ float product(float a, float b) {
#ifdef __CUDACC__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    unpack(T *y_n, const uint8_t *code, const float *map_16, fw_quant_scales scales, int64_t chunk_n) {
    float *map = shared_map();
    if (threadIdx.x < 16) map[threadIdx.x] = map_16[threadIdx.x];
    __syncthreads();
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= chunk_n) return;
    int64_t rest;
    const float scale = scale_of(scales, divide(i * N, scales.block, &rest));
    if constexpr (N == 1) {
        const uint8_t byte = code[i / 2];
        y_n[i] = from_float<T>(product(map[i % 2 == 0 ? byte >> 4 : byte & 15], scale));
    } else {
        const Chunk<uint8_t, N / 2> bytes = load_chunk<N / 2>(code + i * (N / 2));
        enum { PACK = Pack<T>::N };
        FW_UNROLL for (int from = 0; from < N; from += PACK) {
            float value[PACK];
            FW_UNROLL for (int k = 0; k < PACK; k++) {
                const uint8_t byte = bytes.v[(from + k) / 2];
                value[k] = product(map[k % 2 == 0 ? byte >> 4 : byte & 15], scale);
            }
            store_chunk(y_n + i * N + from, chunk_of<T>(value));
        }
    }
}

template <class T, int N>
int launch(const fw_cuda_launch *l, T *y, const uint8_t *code, const float *map, const fw_quant_scales *scales,
           int64_t n) {
    FW_LAUNCH((unpack<T, N>), (unsigned)blocks_of(n / N, BLOCK), BLOCK, 0, stream_of(l), y, code, map, *scales, n / N);
    return launch_status();
}

template <class T>
int run(const fw_cuda_launch *l, T *y, const uint8_t *code, const float *map, const fw_quant_scales *scales,
        int64_t n) {
    if (n % 8 == 0 && scales->block % 8 == 0 && is_packed<T>(y, n, n) && is_chunked<uint8_t, 4>(code, n / 2, n / 2))
        return launch<T, 8>(l, y, code, map, scales, n);
    return launch<T, 1>(l, y, code, map, scales, n);
}

} // namespace

int fw_cuda_unpack_4bit(const fw_cuda_launch *l, void *y, const uint8_t *code, const float *map_16,
                        const fw_quant_scales *scales, int64_t n, fw_dtype t) {
    if (n == 0) return 0;
    FW_BY_TYPE(t, return run(l, (T *)y, code, map_16, scales, n));
}
