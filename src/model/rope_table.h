/* Tables of the rotary position embedding.
 *
 *   angle(p, e) = p * f(e),  f(e) = theta^(-2e / D),  e = 0 .. D/2 - 1
 *
 * scaled as config.json says: linear divides every f by `factor`; llama3 divides the slow ones (wavelength above
 * original_max_position / low_freq_factor) by `factor`, keeps the fast ones (below original / high_freq_factor), and
 * blends in between (Llama 3.1). Computed in fp64 and rounded once to fp32: exact to 1e-7 at any position. */
#ifndef FW_MODEL_ROPE_TABLE_H
#define FW_MODEL_ROPE_TABLE_H

#include "model/model_config.h"

/* Fill cos and sin, each [P, D/2], host memory, for positions 0 .. P-1. */
void fw_rope_table_fill(float *cos_PE, float *sin_PE, const fw_rope_config *rope, int64_t P, int64_t D);
/* The frequency f(e), after scaling. */
double fw_rope_frequency(const fw_rope_config *rope, int64_t e, int64_t D);

#endif
