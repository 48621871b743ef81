/* GGUF tensor types: names, blocks, and the arithmetic that makes fp32 of them.
 *
 * Every product and sum is rounded to fp32 by itself and in this order, as the public `gguf` package does it, so
 * that the results are equal bit by bit. d and m are fp16, q an integer:
 *   Q4_0 d (q - 8)   Q4_1 d q + m   Q5_0 d (q - 16)   Q5_1 d q + m   Q8_0 q d
 *   Q4_K Q5_K  (d s) q - (m t)  with 6-bit s, t for each 32 values      Q6_K  (d s) (q - 32)  for each 16 values */
#include "store/gguf.h"

#include "base/dtype.h"

#include <string.h>

enum { K_BLOCK_N = 256, SMALL_BLOCK_N = 32 };

static const char *const type_name[] = {
    [0] = "F32",     [1] = "F16",    [2] = "Q4_0",     [3] = "Q4_1",    [6] = "Q5_0",     [7] = "Q5_1",
    [8] = "Q8_0",    [9] = "Q8_1",   [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
    [14] = "Q6_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
    [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
    [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4", [40] = "NVFP4",   [41] = "Q1_0",
};

const char *fw_gguf_type_name(uint32_t type) {
    return type < sizeof type_name / sizeof *type_name ? type_name[type] : NULL;
}

static float half_at(const uint8_t *p) { return fw_f16_to_f32((fw_f16)(p[0] | p[1] << 8)); }

static void block_f32(float *out, const uint8_t *p) { memcpy(out, p, sizeof *out); }
static void block_f16(float *out, const uint8_t *p) { *out = half_at(p); }
static void block_bf16(float *out, const uint8_t *p) { *out = fw_bf16_to_f32((fw_bf16)(p[0] | p[1] << 8)); }

static void block_q8_0(float *out, const uint8_t *p) {
    float d = half_at(p);
    for (int i = 0; i < SMALL_BLOCK_N; i++) out[i] = (float)(int8_t)p[2 + i] * d;
}

static void block_q4_0(float *out, const uint8_t *p) {
    float d = half_at(p);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((p[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
    }
}

static void block_q4_1(float *out, const uint8_t *p) {
    float d = half_at(p), m = half_at(p + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(p[4 + i] & 15) + m;
        out[i + 16] = d * (float)(p[4 + i] >> 4) + m;
    }
}

/* The fifth bits of 32 values, one word. */
static uint32_t high_bits(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void block_q5_0(float *out, const uint8_t *p) {
    float d = half_at(p);
    uint32_t high = high_bits(p + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)((p[6 + i] & 15) | (high >> i & 1) << 4) - 16);
        out[i + 16] = d * (float)((int)((uint32_t)(p[6 + i] >> 4) | (high >> (i + 16) & 1) << 4) - 16);
    }
}

static void block_q5_1(float *out, const uint8_t *p) {
    float d = half_at(p), m = half_at(p + 2);
    uint32_t high = high_bits(p + 4);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((p[8 + i] & 15) | (high >> i & 1) << 4) + m;
        out[i + 16] = d * (float)((uint32_t)(p[8 + i] >> 4) | (high >> (i + 16) & 1) << 4) + m;
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each in the low bits of bytes 0-3 and 4-7,
 * the others in bytes 8-11 with their two high bits on top of the first eight bytes. */
static void k_scales(float scale[8], float min[8], const uint8_t *p, float d, float m) {
    for (int i = 0; i < 4; i++) {
        scale[i] = d * (float)(p[i] & 63);
        min[i] = m * (float)(p[i + 4] & 63);
        scale[i + 4] = d * (float)((p[i + 8] & 15) | (p[i] >> 2 & 48));
        min[i + 4] = m * (float)((p[i + 8] >> 4) | (p[i + 4] >> 2 & 48));
    }
}

static void block_q4_k(float *out, const uint8_t *p) {
    float scale[8], min[8];
    k_scales(scale, min, p + 4, half_at(p), half_at(p + 2));
    const uint8_t *q = p + 16;
    for (int g = 0; g < 8; g++) /* 32 values: the low or the high halves of 32 bytes */
        for (int i = 0; i < 32; i++)
            out[32 * g + i] = scale[g] * (float)(q[g / 2 * 32 + i] >> (g % 2 * 4) & 15) - min[g];
}

static void block_q5_k(float *out, const uint8_t *p) {
    float scale[8], min[8];
    k_scales(scale, min, p + 4, half_at(p), half_at(p + 2));
    const uint8_t *high = p + 16, *q = p + 48;
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            int value = (q[g / 2 * 32 + i] >> (g % 2 * 4) & 15) | (high[i] >> g & 1) << 4;
            out[32 * g + i] = scale[g] * (float)value - min[g];
        }
}

static void block_q6_k(float *out, const uint8_t *p) {
    const uint8_t *low = p, *high = p + 128, *scales = p + 192;
    float d = half_at(p + 208);
    for (int g = 0; g < 8; g++) /* 32 values; four groups share 64 bytes of low and 32 of high bits */
        for (int i = 0; i < 32; i++) {
            int lo = low[g / 4 * 64 + g % 2 * 32 + i] >> (g % 4 / 2 * 4) & 15;
            int hi = high[g / 4 * 32 + i] >> (g % 4 * 2) & 3;
            float scale = d * (float)(int8_t)scales[2 * g + i / 16];
            out[32 * g + i] = scale * (float)((lo | hi << 4) - 32);
        }
}

static const struct {
    uint32_t type, n, bytes;
    void (*dequantize)(float *out, const uint8_t *block);
} readable[] = {
    {FW_GGML_F32, 1, 4, block_f32},
    {FW_GGML_F16, 1, 2, block_f16},
    {FW_GGML_BF16, 1, 2, block_bf16},
    {FW_GGML_Q8_0, SMALL_BLOCK_N, 34, block_q8_0},
    {FW_GGML_Q4_0, SMALL_BLOCK_N, 18, block_q4_0},
    {FW_GGML_Q4_1, SMALL_BLOCK_N, 20, block_q4_1},
    {FW_GGML_Q5_0, SMALL_BLOCK_N, 22, block_q5_0},
    {FW_GGML_Q5_1, SMALL_BLOCK_N, 24, block_q5_1},
    {FW_GGML_Q4_K, K_BLOCK_N, 144, block_q4_k},
    {FW_GGML_Q5_K, K_BLOCK_N, 176, block_q5_k},
    {FW_GGML_Q6_K, K_BLOCK_N, 210, block_q6_k},
};
enum { READABLE_N = sizeof readable / sizeof *readable };

bool fw_gguf_type_block(uint32_t type, uint32_t *block_n, uint32_t *block_bytes) {
    for (int i = 0; i < READABLE_N; i++)
        if (readable[i].type == type) {
            *block_n = readable[i].n;
            *block_bytes = readable[i].bytes;
            return true;
        }
    return false;
}

void fw_gguf_dequantize(float *out, fw_gguf_tensor_type type, const uint8_t *data, int64_t n) {
    for (int i = 0; i < READABLE_N; i++) {
        if (readable[i].type != (uint32_t)type) continue;
        for (int64_t at = 0; at < n; at += readable[i].n, data += readable[i].bytes)
            readable[i].dequantize(out + at, data);
        return;
    }
    bool readable_type = false; /* fw_gguf_parse has refused all others */
    FW_ASSERT(readable_type);
}

fw_status fw_gguf_read_f32(float *out, const fw_gguf *file, const fw_gguf_tensor *tensor, int64_t first_n, int64_t n) {
    uint32_t block_n = 1, block_bytes = 1;
    FW_ASSERT(fw_gguf_type_block((uint32_t)tensor->type, &block_n, &block_bytes));
    FW_ASSERT(first_n >= 0 && n >= 0 && first_n <= tensor->n && n <= tensor->n - first_n);
    if (first_n % block_n != 0 || n % block_n != 0)
        return fw_fail(FW_ERR_INTERNAL, "%s: range of %s is not made of whole blocks", file->path, tensor->name);
    fw_gguf_dequantize(out, tensor->type, tensor->data + first_n / block_n * block_bytes, n);
    return FW_OK;
}
