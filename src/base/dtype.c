#include "base/dtype.h"

size_t fw_dtype_bytes(fw_dtype dtype) {
    switch (dtype) {
    case FW_F32:
    case FW_I32: return 4;
    case FW_BF16:
    case FW_F16: return 2;
    case FW_F64:
    case FW_I64: return 8;
    case FW_U8: return 1;
    case FW_DTYPE_N: break;
    }
    return 0;
}

const char *fw_dtype_name(fw_dtype dtype) {
    static const char *const name[FW_DTYPE_N] = {"fp32", "bf16", "fp16", "fp64", "int32", "int64", "uint8"};
    return dtype < FW_DTYPE_N ? name[dtype] : "unknown";
}

float fw_f16_to_f32(fw_f16 bits) {
    uint32_t sign = (uint32_t)(bits >> 15) << 31, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u, wide;
    if (exponent == 31) {
        wide = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent != 0) {
        wide = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    } else { /* zero and subnormals: mantissa * 2^-24 is exact in fp32 */
        float value = (float)mantissa * 0x1p-24f;
        memcpy(&wide, &value, sizeof wide);
        wide |= sign;
    }
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

fw_f16 fw_f16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (fw_f16)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (fw_f16)(sign | 0x7c00u); /* rounds to 65520 or more: infinity */
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 aligns the mantissa to 2^-24 and rounds it */
        float aligned, magnitude_f;
        memcpy(&magnitude_f, &magnitude, sizeof magnitude_f);
        aligned = magnitude_f + 0.5f;
        memcpy(&bits, &aligned, sizeof bits);
        return (fw_f16)(sign | (bits - 0x3f000000u));
    }
    magnitude += 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23);
    return (fw_f16)(sign | (magnitude >> 13));
}
