/* Weights from 4 bits: sixteen codes are eight bytes; each code looks its entry up in a map of one or two registers. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_over.h"

/* The map, and its entries for FW_WIDTH codes. */
typedef struct map_16 {
#if FW_WIDTH == 8
    __m256 low, high;
#else
    float entry[16];
#endif
} map_16;

FW_INLINE map_16 map_of(const float *entry) {
    map_16 m;
#if FW_WIDTH == 8
    m.low = _mm256_loadu_ps(entry);
    m.high = _mm256_loadu_ps(entry + 8);
#else
    memcpy(m.entry, entry, sizeof m.entry);
#endif
    return m;
}

FW_INLINE fw_vn look_up(const map_16 *m, fw_vin code) {
#if FW_WIDTH == 16
    return (fw_vn)_mm512_permutexvar_ps((__m512i)code, _mm512_loadu_ps(m->entry));
#elif FW_WIDTH == 8
    const __m256 low = _mm256_permutevar8x32_ps(m->low, (__m256i)code);
    const __m256 high = _mm256_permutevar8x32_ps(m->high, (__m256i)code); /* takes the lower three bits */
    return (fw_vn)_mm256_blendv_ps(low, high, (__m256)(code << 28));      /* chooses by bit 3, now the sign */
#else
    fw_vn y;
    FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) y[i] = m->entry[code[i]];
    return y;
#endif
}

/* Codes of FW_LANES elements. */
FW_INLINE void codes_of(int32_t code[FW_LANES], const uint8_t *byte) {
    FW_UNROLL for (int i = 0; i < FW_LANES; i++) code[i] = i % 2 == 0 ? byte[i / 2] >> 4 : byte[i / 2] & 15;
}

FW_INLINE void unpack_blocks(const fw_cpu_unpack_args *s, int64_t first, int64_t last, fw_dtype t) {
    const map_16 m = map_of(s->map_16);
    for (int64_t b = first; b < last; b++) {
        const int64_t start = b * s->scales->block, left = s->n - start;
        const fw_v scale = v_set(fw_quant_scale(s->scales, b));
        const int64_t end = start + (left < s->scales->block ? left : s->scales->block);
#define FW_BODY(at, some)                                                                                              \
    do {                                                                                                               \
        uint8_t byte[FW_LANES / 2] = {0};                                                                              \
        memcpy(byte, s->code + (at) / 2, (size_t)((some) + 1) / 2);                                                    \
        int32_t code[FW_LANES];                                                                                        \
        codes_of(code, byte);                                                                                          \
        fw_v y;                                                                                                        \
        FW_EACH(i) {                                                                                                   \
            fw_vin part;                                                                                               \
            memcpy(&part, code + i * FW_WIDTH, sizeof part);                                                           \
            y.p[i] = look_up(&m, part) * scale.p[i];                                                                   \
        }                                                                                                              \
        put(s->y, (at), y, (some), t);                                                                                 \
    } while (0)
        FW_OVER(start, end, FW_BODY);
#undef FW_BODY
    }
}
void FW_CPU_FN(unpack_4bit)(const fw_cpu_unpack_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        unpack_blocks(s, first, last, FW_BF16);
    else
        unpack_blocks(s, first, last, FW_F32);
}
