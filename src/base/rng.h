/* Random numbers that do not depend on who asks.
 *
 * Counter-based: a value is a function of (seed, stream, index) alone, so the result is the same on
 * every rank, for every world size, and after a resume, with no state to save. The mixer is
 * splitmix64's finaliser, applied twice (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014). Not for cryptography. */
#ifndef FW_BASE_RNG_H
#define FW_BASE_RNG_H

#include <stdint.h>

/* 64 random bits for (seed, stream, index). */
uint64_t fw_rng_bits(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1), 53 bits. */
double fw_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/* Standard normal (Box-Muller). */
double fw_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* Fill order[0..n) with a random permutation of 0..n-1 (Fisher-Yates; unbiased draws). */
void fw_rng_permute(uint64_t seed, uint64_t stream, uint32_t *order, uint32_t n);

#endif
