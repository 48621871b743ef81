#include "model/rope_table.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925;

double fw_rope_frequency(const fw_rope_config *rope, int64_t e, int64_t D) {
    double f = pow(rope->theta, -2.0 * (double)e / (double)D);
    switch (rope->kind) {
    case FW_ROPE_DEFAULT: return f;
    case FW_ROPE_LINEAR: return f / rope->factor;
    case FW_ROPE_LLAMA3: {
        double turns = rope->original_max_position * f / two_pi; /* within the original context */
        if (turns < rope->low_freq_factor) return f / rope->factor;
        if (turns > rope->high_freq_factor) return f;
        double share = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
        return (1 - share) * f / rope->factor + share * f;
    }
    }
    return f;
}

void fw_rope_table_fill(float *cos_PE, float *sin_PE, const fw_rope_config *rope, int64_t P, int64_t D) {
    int64_t E = D / 2;
    for (int64_t e = 0; e < E; e++) {
        double f = fw_rope_frequency(rope, e, D);
        for (int64_t p = 0; p < P; p++) {
            cos_PE[p * E + e] = (float)cos((double)p * f);
            sin_PE[p * E + e] = (float)sin((double)p * f);
        }
    }
}
