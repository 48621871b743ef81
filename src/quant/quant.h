/* Numbers in 4 and 8 bits, in blocks with a scale each, to the bit as bitsandbytes 0.50 (its CPU backend) makes and reads
 * them. Dettmers et al. 2022 (8-bit optimizers), 2023 (QLoRA).
 *
 * A tensor of n numbers is cut into blocks of `block`, row after row; the last one may be shorter. A block's scale is its
 * largest size (absmax), and a number is the index of the nearest entry of a map, times the scale:
 *
 *   4 bits  x ~ map16[code] * absmax[i / block]     two codes a byte, the first in the upper half; a last half is padding
 *   8 bits  x ~ map256[code] * absmax[i / block]
 *
 * Double quantisation keeps the scales of 4-bit blocks in 8 bits, in blocks of 256, after subtracting their mean:
 *
 *   absmax[b] = map256[scale_code[b]] * nested[b / 256] + offset        product and sum each rounded to fp32
 *
 * What rounding does at a tie, to a block of zeros, or in the last block, is bitsandbytes' too; quant_blocks.c says what. */
#ifndef FW_QUANT_QUANT_H
#define FW_QUANT_QUANT_H

#include "base/status.h"
#include "quant/quant_scales.h"

#include <stddef.h>
#include <stdint.h>

typedef enum fw_quant_kind { FW_QUANT_NF4, FW_QUANT_FP4, FW_QUANT_KIND_N } fw_quant_kind;
enum { FW_QUANT_BLOCK = 64, FW_QUANT_NESTED_BLOCK = 256, FW_QUANT_MAP4_N = 16, FW_QUANT_MAP8_N = 256 };

/* "nf4", "fp4"; and back: FW_ERR_OPTION. */
const char *fw_quant_kind_name(fw_quant_kind kind);
fw_status fw_quant_kind_parse(fw_quant_kind *out, const char *name);
/* By code. NF4: quantiles of the normal distribution; FP4: sign, 2 bits of exponent, 1 of mantissa, over 12. */
const float *fw_quant_map4(fw_quant_kind kind);
/* The dynamic map, in rising order: 7 decades with ever finer fractions; without sign twice as fine. */
void fw_quant_map8(float map[FW_QUANT_MAP8_N], int with_sign);

static inline int64_t fw_quant_block_n(int64_t n, int64_t block) { return (n + block - 1) / block; }
static inline int64_t fw_quant_code_bytes(int64_t n) { return n / 2 + n % 2; }

/* Codes of x and its blocks' scales. Error: FW_ERR_INPUT for a number that is none, saying which. */
fw_status fw_quant_pack4(uint8_t *code, float *absmax, const float *x, int64_t n, int64_t block, fw_quant_kind kind);
fw_status fw_quant_pack8(uint8_t *code, float *absmax, const float *x, int64_t n, int64_t block,
                         const float map[FW_QUANT_MAP8_N]);
/* Scales of n blocks to 8 bits: their mean, then codes and scales of blocks of 256 with map8. absmax is overwritten. */
fw_status fw_quant_nest(uint8_t *scale_code, float *nested, float *offset, float *absmax, int64_t n,
                        const float map8[FW_QUANT_MAP8_N]);

/* y[i] = map4[code] * scale, i < n, rounded to fp32. */
void fw_quant_unpack4(float *y, const uint8_t *code, const float map4[FW_QUANT_MAP4_N], const fw_quant_scales *scales,
                      int64_t n);

#endif
