/* Number formats and their conversions, the one place where they are defined.
 *
 *   fp32  1 sign  8 exponent 23 mantissa
 *   bf16  1 sign  8 exponent  7 mantissa   the upper half of an fp32
 *   fp16  1 sign  5 exponent 10 mantissa
 *
 * fp32 -> bf16 and fp16 round to nearest, ties to even; NaN stays NaN. */
#ifndef FW_BASE_DTYPE_H
#define FW_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus /* the emulation of GPU kernels */
extern "C" {
#endif

typedef enum fw_dtype { FW_F32, FW_BF16, FW_F16, FW_F64, FW_I32, FW_I64, FW_U8, FW_DTYPE_N } fw_dtype;

typedef uint16_t fw_bf16; /* the bits */
typedef uint16_t fw_f16;  /* the bits */

/* Bytes of one element. */
size_t fw_dtype_bytes(fw_dtype dtype);
/* "fp32", "bf16", ...: for messages. */
const char *fw_dtype_name(fw_dtype dtype);

static inline float fw_bf16_to_f32(fw_bf16 bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline fw_bf16 fw_bf16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (fw_bf16)((bits >> 16) | 0x40u); /* NaN, made quiet */
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (fw_bf16)(bits >> 16);
}

float fw_f16_to_f32(fw_f16 bits);
fw_f16 fw_f16_from_f32(float value);

#ifdef __cplusplus
}
#endif

#endif
