/* The scales of a tensor that is packed in 4 bits; quant/quant.h says what they mean. C and C++. */
#ifndef FW_QUANT_QUANT_SCALES_H
#define FW_QUANT_QUANT_SCALES_H

#include <stddef.h>
#include <stdint.h>

/* Where the scales of a packed tensor lie; pointers of one kind of memory, block sizes of any. */
typedef struct fw_quant_scales {
    int64_t block;
    const float *absmax;       /* NULL: they are in 8 bits, and the rest is set */
    const uint8_t *scale_code; /* block_n */
    const float *map8, *nested, *offset;
    int64_t nested_block;
} fw_quant_scales;

/* The scale of block b. Where the compiler fuses products and sums (the kernels of the cpu device), it must not do it here. */
static inline float fw_quant_scale(const fw_quant_scales *s, int64_t b) {
    if (s->absmax != NULL) return s->absmax[b];
    const volatile float product = s->map8[s->scale_code[b]] * s->nested[b / s->nested_block];
    return product + *s->offset;
}

#endif
