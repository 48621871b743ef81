#include "base/rng.h"

#include <math.h>

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t fw_rng_bits(uint64_t seed, uint64_t stream, uint64_t index) { return mix(mix(mix(seed) ^ stream) ^ index); }

double fw_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    return (double)(fw_rng_bits(seed, stream, index) >> 11) * 0x1p-53;
}

double fw_rng_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    double u = 1.0 - fw_rng_uniform(seed, stream, 2 * index); /* (0, 1]: log is finite */
    double v = fw_rng_uniform(seed, stream, 2 * index + 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void fw_rng_permute(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    uint64_t draw = 0;
    for (uint32_t left = n; left > 1; left--) {
        uint64_t bits, limit = UINT64_MAX - UINT64_MAX % left;
        do bits = fw_rng_bits(seed, stream, draw++);
        while (bits >= limit);
        uint32_t j = (uint32_t)(bits % left), last = left - 1, kept = order[j];
        order[j] = order[last];
        order[last] = kept;
    }
}
