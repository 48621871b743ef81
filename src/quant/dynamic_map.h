/* The numbers that 8-bit codes stand for, in optimizer state and in the scales of 4-bit blocks, as parts of the largest of
 * their block (Dettmers and others 2022); and how optimizer state gets its codes: as bitsandbytes' CPU library does it, to
 * the bit. (Scales of blocks get theirs with another rounding, as bitsandbytes has it: quant_blocks.c.)
 *
 *   value[code]   between -1 and 1 (signed) or 0 and 1 (unsigned), ascending, denser towards 0
 *   place(x)      x on a scale of 65536 steps from -1 to 1
 *   code(x)       the code of place(x): the last whose first place is not above it
 *
 * A block's scale is its largest |x|; a block of zeros has scale 0 and code 0 everywhere. The tables are in
 * dynamic_map.inc. Also seen by kernels. */
#ifndef FW_QUANT_DYNAMIC_MAP_H
#define FW_QUANT_DYNAMIC_MAP_H

#include <stdint.h>

enum { FW_DYNAMIC_CODES = 256, FW_DYNAMIC_PLACES = 65536, FW_DYNAMIC_BLOCK_N = 256 };

typedef struct fw_dynamic_map {
    float value[FW_DYNAMIC_CODES];
    uint16_t first_place[FW_DYNAMIC_CODES]; /* of each code */
} fw_dynamic_map;

#ifdef __CUDACC__
#define FW_DYNAMIC_FUNCTION static __host__ __device__ __forceinline__
#else
#define FW_DYNAMIC_FUNCTION static inline __attribute__((always_inline))
#endif

/* Each operation rounds to fp32; none may become part of another, which is why one goes by way of fp64. */
FW_DYNAMIC_FUNCTION int fw_dynamic_place(float x) {
    const float half = ((x > -1.0f ? x < 1.0f ? x : 1.0f : -1.0f) + 1.0f) * 0.5f;
#ifdef __CUDA_ARCH__
    return (int)__fadd_rn(__fmul_rn(half, 65535.0f), 0.5f);
#else
    return (int)((float)((double)half * 65535.0) + 0.5f);
#endif
}

#if !defined(__CUDACC__) && !defined(__cplusplus)
extern const fw_dynamic_map fw_dynamic_signed, fw_dynamic_unsigned;
/* [FW_DYNAMIC_PLACES], the code of each place. Any thread. */
const uint8_t *fw_dynamic_codes(int is_signed);
#endif

#endif
