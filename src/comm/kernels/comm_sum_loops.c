/* See comm_sum_loops.h. Written with the vector types of gcc and clang: WIDTH floats at a time. */
#include "comm/kernels/comm_sum_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { WIDTH = 16 };
#elif defined(__AVX2__)
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif

/* Of any alignment, and of any type behind the pointer. */
typedef float vf __attribute__((vector_size(WIDTH * 4), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(WIDTH * 4), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* bf16 is worked on in pairs: a 32-bit lane holds element 2i in its lower half and 2i + 1 in its upper half (both
 * kinds of CPU are little-endian), and either half becomes an fp32 without moving between lanes. */
INLINE vf even_of(vu pairs) { return (vf)(pairs << 16); }
INLINE vf odd_of(vu pairs) { return (vf)(pairs & 0xffff0000u); }

/* fw_bf16_from_f32 in the upper half of each lane; the lower half is left over. */
INLINE vu round_high(vf x) {
    vu bits = (vu)x, is_nan = (vu)(x != x);
    vu rounded = bits + 0x7fffu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    return (is_nan & quiet) | (~is_nan & rounded);
}

INLINE vu round_pairs(vf even, vf odd) { return (round_high(even) >> 16) | (round_high(odd) & 0xffff0000u); }

INLINE float load_one(const void *x, int64_t i, fw_dtype dtype) {
    return dtype == FW_F32 ? ((const float *)x)[i] : fw_bf16_to_f32(((const fw_bf16 *)x)[i]);
}

INLINE void store_one(void *x, int64_t i, float value, fw_dtype dtype) {
    if (dtype == FW_F32)
        ((float *)x)[i] = value;
    else
        ((fw_bf16 *)x)[i] = fw_bf16_from_f32(value);
}

INLINE void sum_rest(void *const *out, int out_n, const void *const *in, int in_n, int64_t i, int64_t n,
                     fw_dtype dtype) {
    for (; i < n; i++) {
        float sum = load_one(in[0], i, dtype);
        for (int r = 1; r < in_n; r++) sum += load_one(in[r], i, dtype);
        for (int r = 0; r < out_n; r++) store_one(out[r], i, sum, dtype);
    }
}

/* in_n sources, known to the compiler, in one pass. */
INLINE void sum_pass(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype) {
    int64_t i = 0;
    if (dtype == FW_F32) {
        for (; i + WIDTH <= n; i += WIDTH) {
            vf sum = *(const vf *)((const float *)in[0] + i);
            for (int r = 1; r < in_n; r++) sum += *(const vf *)((const float *)in[r] + i);
            for (int r = 0; r < out_n; r++) *(vf *)((float *)out[r] + i) = sum;
        }
    } else {
        for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
            vu x = *(const vu *)((const fw_bf16 *)in[0] + i);
            vf even = even_of(x), odd = odd_of(x);
            for (int r = 1; r < in_n; r++) {
                x = *(const vu *)((const fw_bf16 *)in[r] + i);
                even += even_of(x);
                odd += odd_of(x);
            }
            x = round_pairs(even, odd);
            for (int r = 0; r < out_n; r++) *(vu *)((fw_bf16 *)out[r] + i) = x;
        }
    }
    sum_rest(out, out_n, in, in_n, i, n, dtype);
}

/* Any number of sources: 8 KiB of sums stay in the first cache while one source after the other is added. bf16 sums
 * are kept as WIDTH even ones, then the WIDTH odd ones beside them. */
enum { CHUNK_N = 2048 };
INLINE void add_source(float *sum, const void *x, int first, int64_t n, fw_dtype dtype) {
    if (dtype == FW_F32) {
        for (int64_t i = 0; i < n; i += WIDTH) {
            vf v = *(const vf *)((const float *)x + i);
            if (!first) v = *(vf *)(sum + i) + v;
            *(vf *)(sum + i) = v;
        }
    } else {
        for (int64_t i = 0; i < n; i += 2 * WIDTH) {
            vu pairs = *(const vu *)((const fw_bf16 *)x + i);
            vf even = even_of(pairs), odd = odd_of(pairs);
            if (!first) even = *(vf *)(sum + i) + even;
            if (!first) odd = *(vf *)(sum + i + WIDTH) + odd;
            *(vf *)(sum + i) = even;
            *(vf *)(sum + i + WIDTH) = odd;
        }
    }
}

INLINE void sum_chunks(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype) {
    float sum[CHUNK_N];
    fw_bf16 rounded[CHUNK_N];
    const size_t size = dtype == FW_F32 ? 4 : 2;
    const int64_t whole_n = n / (2 * WIDTH) * (2 * WIDTH);
    for (int64_t at = 0; at < whole_n; at += CHUNK_N) {
        int64_t now_n = whole_n - at < CHUNK_N ? whole_n - at : CHUNK_N;
        add_source(sum, (const char *)in[0] + (size_t)at * size, 1, now_n, dtype);
        for (int r = 1; r < in_n; r++) add_source(sum, (const char *)in[r] + (size_t)at * size, 0, now_n, dtype);
        if (dtype == FW_BF16)
            for (int64_t i = 0; i < now_n; i += 2 * WIDTH)
                *(vu *)(rounded + i) = round_pairs(*(vf *)(sum + i), *(vf *)(sum + i + WIDTH));
        const void *from = dtype == FW_F32 ? (const void *)sum : rounded;
        for (int r = 0; r < out_n; r++) memcpy((char *)out[r] + (size_t)at * size, from, (size_t)now_n * size);
    }
    sum_rest(out, out_n, in, in_n, whole_n, n, dtype);
}

INLINE void sum_typed(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype) {
    void *const to[4] = {out[0], out[out_n > 1], out[out_n > 2 ? 2 : 0], out[out_n > 3 ? 3 : 0]};
    const void *const from[4] = {in[0], in[in_n > 1], in[in_n > 2 ? 2 : 0], in[in_n > 3 ? 3 : 0]};
    if (in_n == 2 && out_n == 2)
        sum_pass(to, 2, from, 2, n, dtype);
    else if (in_n == 2 && out_n == 1)
        sum_pass(to, 1, from, 2, n, dtype);
    else if (in_n == 3 && out_n == 3)
        sum_pass(to, 3, from, 3, n, dtype);
    else if (in_n == 3 && out_n == 1)
        sum_pass(to, 1, from, 3, n, dtype);
    else if (in_n == 4 && out_n == 4)
        sum_pass(to, 4, from, 4, n, dtype);
    else if (in_n == 4 && out_n == 1)
        sum_pass(to, 1, from, 4, n, dtype);
    else
        sum_chunks(out, out_n, in, in_n, n, dtype);
}

static void sum(void *const *out, int out_n, const void *const *in, int in_n, int64_t n, fw_dtype dtype) {
    if (dtype == FW_F32)
        sum_typed(out, out_n, in, in_n, n, FW_F32);
    else
        sum_typed(out, out_n, in, in_n, n, FW_BF16);
}

static void copy_past_cache(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
    char *y = to;
    const char *x = from;
    size_t head = (64 - (uintptr_t)y % 64) % 64;
    if (head > bytes) head = bytes;
    memcpy(y, x, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
#if defined(__AVX512F__)
        _mm512_stream_si512((void *)(y + i), _mm512_loadu_si512(x + i));
#elif defined(__AVX2__)
        for (size_t k = 0; k < 64; k += 32)
            _mm256_stream_si256((void *)(y + i + k), _mm256_loadu_si256((const void *)(x + i + k)));
#else
        for (size_t k = 0; k < 64; k += 16)
            _mm_stream_si128((void *)(y + i + k), _mm_loadu_si128((const void *)(x + i + k)));
#endif
    }
    _mm_sfence(); /* seen by the others before the barrier that follows */
    memcpy(y + i, x + i, bytes - i);
#else
    memcpy(to, from, bytes);
#endif
}

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
const fw_comm_loops JOINED(fw_comm_loops_, FW_COMM_VARIANT) = {
    .name = TEXT(FW_COMM_VARIANT), .sum = sum, .copy_past_cache = copy_past_cache};
