/* Sixteen floats at a time, in the compiler's vector extensions: the same lane order on every CPU, so a
 * sum over lanes is added in one order whatever the register width.
 *
 * fw_v is 16 lanes as 1 (AVX-512), 2 (AVX) or 4 (SSE, NEON) native registers. Files that include this are
 * compiled once per CPU variant (src/device/room.cmake) with the flags of that variant. */
#ifndef FW_DEVICE_CPU_KERNELS_VEC_H
#define FW_DEVICE_CPU_KERNELS_VEC_H

#include "base/dtype.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h> /* for the few operations that vector extensions make long */
#endif

#if defined(__AVX512F__)
#define FW_WIDTH 16 /* lanes of a native register */
#elif defined(__AVX2__)
#define FW_WIDTH 8
#else
#define FW_WIDTH 4
#endif
#define FW_LANES 16
#define FW_PARTS (FW_LANES / FW_WIDTH)

typedef float fw_vn __attribute__((vector_size(4 * FW_WIDTH)));
typedef int32_t fw_vin __attribute__((vector_size(4 * FW_WIDTH)));
typedef uint32_t fw_vun __attribute__((vector_size(4 * FW_WIDTH)));
typedef uint16_t fw_vhn __attribute__((vector_size(2 * FW_WIDTH)));
/* The same for loads and stores at any address, of any object. */
typedef float fw_vn_any __attribute__((vector_size(4 * FW_WIDTH), aligned(4), may_alias));
typedef uint16_t fw_vhn_any __attribute__((vector_size(2 * FW_WIDTH), aligned(2), may_alias));

typedef struct fw_v {
    fw_vn p[FW_PARTS];
} fw_v;

#define FW_INLINE static inline __attribute__((always_inline))
#define FW_UNROLL _Pragma("GCC unroll 16")
#define FW_EACH(i) FW_UNROLL for (int i = 0; i < FW_PARTS; i++)

/* ---- native registers ---- */
FW_INLINE fw_vn vn_load(const float *x) { return *(const fw_vn_any *)x; }
FW_INLINE void vn_store(float *y, fw_vn v) { *(fw_vn_any *)y = v; }
FW_INLINE fw_vn vn_set(float value) { return value - (fw_vn){0}; } /* a broadcast; the subtraction folds away */
FW_INLINE fw_vn vn_select(fw_vin mask, fw_vn a, fw_vn b) { return (fw_vn)(((fw_vin)a & mask) | ((fw_vin)b & ~mask)); }
FW_INLINE fw_vn vn_max(fw_vn a, fw_vn b) { /* a > b ? a : b, so b when one is NaN */
#if FW_WIDTH == 16
    return _mm512_max_ps(a, b);
#elif FW_WIDTH == 8
    return _mm256_max_ps(a, b);
#elif defined(__x86_64__)
    return _mm_max_ps(a, b);
#else
    return vn_select(a > b, a, b);
#endif
}
FW_INLINE fw_vn vn_min(fw_vn a, fw_vn b) { /* a < b ? a : b, so b when one is NaN */
#if FW_WIDTH == 16
    return _mm512_min_ps(a, b);
#elif FW_WIDTH == 8
    return _mm256_min_ps(a, b);
#elif defined(__x86_64__)
    return _mm_min_ps(a, b);
#else
    return vn_select(a < b, a, b);
#endif
}
/* p * 2^n where `x` is at least -87.3 or NaN, else 0; n is a whole number from -126 to 127 there. */
FW_INLINE fw_vn vn_scale_or_vanish(fw_vn p, fw_vn n, fw_vn x) {
#if FW_WIDTH == 16
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, vn_set(-87.3f), _CMP_NLT_UQ), p, n);
#else
    const fw_vin exponent = ((fw_vin)(n + 0x1.8p23f) - 0x4b400000 + 127) << 23;
    return vn_select(x < -87.3f, vn_set(0), p * (fw_vn)exponent);
#endif
}
FW_INLINE fw_vn vn_load_bf16(const fw_bf16 *x) {
    return (fw_vn)(__builtin_convertvector((fw_vhn) * (const fw_vhn_any *)x, fw_vun) << 16);
}
/* Round to bf16, to nearest, ties to even; NaN is made quiet and kept. The bits in the lower half of each lane. */
FW_INLINE fw_vun vn_bf16_bits(fw_vn v) {
    const fw_vun bits = (fw_vun)v, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
#if FW_WIDTH == 16
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return (fw_vun)_mm512_mask_or_epi32((__m512i)rounded, is_nan, (__m512i)(bits >> 16), _mm512_set1_epi32(0x40));
#else
    const fw_vun quiet = (bits >> 16) | 0x40u, is_nan = (fw_vun)((fw_vin)(bits & 0x7fffffffu) > 0x7f800000);
    return (quiet & is_nan) | (rounded & ~is_nan);
#endif
}
FW_INLINE void vn_store_bf16(fw_bf16 *y, fw_vn v) {
#if FW_WIDTH == 16
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtepi32_epi16((__m512i)vn_bf16_bits(v)));
#else
    *(fw_vhn_any *)y = __builtin_convertvector(vn_bf16_bits(v), fw_vhn);
#endif
}

/* ---- sixteen lanes ---- */
FW_INLINE fw_v v_set(float value) {
    fw_v v;
    FW_EACH(i) v.p[i] = vn_set(value);
    return v;
}
FW_INLINE fw_v v_zero(void) { return (fw_v){0}; }
FW_INLINE fw_v v_load(const float *x) {
    fw_v v;
    FW_EACH(i) v.p[i] = vn_load(x + i * FW_WIDTH);
    return v;
}
FW_INLINE void v_store(float *y, fw_v v) { FW_EACH(i) vn_store(y + i * FW_WIDTH, v.p[i]); }

#define FW_V_BINARY(name, expression)                                                                                  \
    FW_INLINE fw_v name(fw_v a, fw_v b) {                                                                              \
        fw_v v;                                                                                                        \
        FW_EACH(i) v.p[i] = expression;                                                                                \
        return v;                                                                                                      \
    }
FW_V_BINARY(v_add, a.p[i] + b.p[i])
FW_V_BINARY(v_sub, a.p[i] - b.p[i])
FW_V_BINARY(v_mul, a.p[i] * b.p[i])
FW_V_BINARY(v_div, a.p[i] / b.p[i])
FW_V_BINARY(v_max, vn_max(a.p[i], b.p[i]))

/* a * b + c, fused where the CPU has it (these files are compiled with -ffp-contract=fast). */
FW_INLINE fw_v v_fma(fw_v a, fw_v b, fw_v c) {
    fw_v v;
    FW_EACH(i) v.p[i] = a.p[i] * b.p[i] + c.p[i];
    return v;
}
FW_INLINE fw_v v_fnma(fw_v a, fw_v b, fw_v c) { /* c - a * b */
    fw_v v;
    FW_EACH(i) v.p[i] = c.p[i] - a.p[i] * b.p[i];
    return v;
}

/* Lanes 0..n-1 of memory, zeros above; n in 0..16. */
FW_INLINE fw_v v_load_some(const float *x, int64_t n) {
    float lane[FW_LANES] = {0};
    memcpy(lane, x, (size_t)n * sizeof *lane);
    return v_load(lane);
}
FW_INLINE void v_store_some(float *y, fw_v v, int64_t n) {
    float lane[FW_LANES];
    v_store(lane, v);
    memcpy(y, lane, (size_t)n * sizeof *lane);
}

/* Elements i.. of a tensor of type t; t is a constant wherever speed matters. */
FW_INLINE fw_v v_get(const void *x, int64_t at, fw_dtype t) {
    if (t == FW_F32) return v_load((const float *)x + at);
    fw_v v;
    FW_EACH(i) v.p[i] = vn_load_bf16((const fw_bf16 *)x + at + i * FW_WIDTH);
    return v;
}
FW_INLINE void v_put(void *y, int64_t at, fw_v v, fw_dtype t) {
    if (t == FW_F32) {
        v_store((float *)y + at, v);
        return;
    }
    FW_EACH(i) vn_store_bf16((fw_bf16 *)y + at + i * FW_WIDTH, v.p[i]);
}
FW_INLINE fw_v v_get_some(const void *x, int64_t at, int64_t n, fw_dtype t) {
    if (t == FW_F32) return v_load_some((const float *)x + at, n);
    fw_bf16 lane[FW_LANES] = {0};
    memcpy(lane, (const fw_bf16 *)x + at, (size_t)n * sizeof *lane);
    return v_get(lane, 0, FW_BF16);
}
FW_INLINE void v_put_some(void *y, int64_t at, fw_v v, int64_t n, fw_dtype t) {
    if (t == FW_F32) {
        v_store_some((float *)y + at, v, n);
        return;
    }
    fw_bf16 lane[FW_LANES];
    v_put(lane, 0, v, FW_BF16);
    memcpy((fw_bf16 *)y + at, lane, (size_t)n * sizeof *lane);
}
/* v rounded to type t, as storing and loading would. */
FW_INLINE fw_v v_round(fw_v v, fw_dtype t) {
    if (t == FW_F32) return v;
    FW_EACH(i) v.p[i] = (fw_vn)(vn_bf16_bits(v.p[i]) << 16);
    return v;
}
FW_INLINE float s_get(const void *x, int64_t at, fw_dtype t) {
    return t == FW_F32 ? ((const float *)x)[at] : fw_bf16_to_f32(((const fw_bf16 *)x)[at]);
}

/* Lane i of a native register moved to lane i - n (what comes in from above does not matter). */
#if FW_WIDTH == 16
#define FW_DOWN(v, n)                                                                                                  \
    __builtin_shufflevector(v, v, n, (n) + 1, (n) + 2, (n) + 3, (n) + 4, (n) + 5, (n) + 6, (n) + 7, 0, 1, 2, 3, 4, 5,  \
                            6, 7)
#elif FW_WIDTH == 8
#define FW_DOWN(v, n) __builtin_shufflevector(v, v, n, (n) + 1, (n) + 2, (n) + 3, 0, 1, 2, 3)
#else
#define FW_DOWN(v, n) __builtin_shufflevector(v, v, n, (n) + 1, 0, 1)
#endif
/* Sums and maxima over the lanes, always paired as lane i with lane i + 8, then 4, 2, 1. */
#define FW_V_FOLD(name, together)                                                                                      \
    FW_INLINE float name(fw_v v) {                                                                                     \
        fw_vn a = v.p[0];                                                                                              \
        if (FW_PARTS == 4)                                                                                             \
            a = together(together(a, v.p[2 % FW_PARTS]), together(v.p[1 % FW_PARTS], v.p[3 % FW_PARTS]));              \
        if (FW_PARTS == 2) a = together(a, v.p[1 % FW_PARTS]);                                                         \
        FW_V_FOLD_WIDE(together)                                                                                       \
        FW_V_FOLD_HALF(together)                                                                                       \
        a = together(a, FW_DOWN(a, 2));                                                                                \
        return together(a, FW_DOWN(a, 1))[0];                                                                          \
    }
#if FW_WIDTH == 16
#define FW_V_FOLD_WIDE(together) a = together(a, FW_DOWN(a, 8));
#else
#define FW_V_FOLD_WIDE(together)
#endif
#if FW_WIDTH >= 8
#define FW_V_FOLD_HALF(together) a = together(a, FW_DOWN(a, 4));
#else
#define FW_V_FOLD_HALF(together)
#endif
FW_INLINE fw_vn vn_add(fw_vn a, fw_vn b) { return a + b; }
FW_V_FOLD(v_sum, vn_add)
FW_V_FOLD(v_largest, vn_max)

FW_INLINE double v_sum_wide(fw_v v) {
    float lane[FW_LANES];
    v_store(lane, v);
    double sum = 0;
    for (int i = 0; i < FW_LANES; i++) sum += (double)lane[i];
    return sum;
}

/* A square of FW_WIDTH registers turned over, in place: log2(FW_WIDTH) rounds that merge the rows of the upper
 * half into those of the lower half. */
#if FW_WIDTH == 16
#define FW_LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FW_UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif FW_WIDTH == 8
#define FW_LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define FW_UPPER 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FW_LOWER 0, 4, 1, 5
#define FW_UPPER 2, 6, 3, 7
#endif
FW_INLINE void vn_turn(fw_vn a[FW_WIDTH]) {
    FW_UNROLL for (int n = FW_WIDTH; n > 1; n /= 2) {
        fw_vn b[FW_WIDTH];
        FW_UNROLL for (int i = 0; i < FW_WIDTH / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + FW_WIDTH / 2], FW_LOWER);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + FW_WIDTH / 2], FW_UPPER);
        }
        FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) a[i] = b[i];
    }
}

/* exp, within 1.1 units in the last place: x = n ln 2 + r, exp(r) = 1 + r + r^2 q(r) with q fitted by us
 * (relative error 3e-9 on |r| <= ln 2 / 2). Below -87.3 the result is 0 (no subnormals), above 88.3 it
 * stays at exp(88.3); NaN stays NaN. */
FW_INLINE fw_v v_exp(fw_v x) {
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, kept in the low mantissa bits */
    fw_v y;
    FW_EACH(i) {
        const fw_vn a = vn_max(vn_set(-88), vn_min(vn_set(88.3f), x.p[i]));
        const fw_vn shifted = a * 0x1.715476p0f + magic;
        const fw_vn n = shifted - magic;
        fw_vn r = a - n * 0x1.62e4p-1f; /* ln 2 in two parts, the first with trailing zeros: exact product */
        r = r - n * 0x1.7f7d1cp-20f;
        fw_vn q = r * 0x1.6a2352p-10f + 0x1.123a6cp-7f;
        q = q * r + 0x1.5558f4p-5f;
        q = q * r + 0x1.555490p-3f;
        q = q * r + 0x1.fffffcp-2f;
        const fw_vn p = (q * r) * r + r + 1.0f;
        y.p[i] = vn_scale_or_vanish(p, n, x.p[i]);
    }
    return y;
}

#endif
