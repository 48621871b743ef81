/* Which elements dropout keeps: a function of a row's key, a module's salt and the channel, in whole numbers, so that every
 * device keeps the same ones, in every order, and backward and recomputation meet them again.
 *
 * A row's key and the salt are mixed to 64 bits (splitmix64's finaliser); its halves and the channel are mixed to 32 bits
 * (two rounds of multiply and shift, constants by C. Wellons' search), which are below p * 2^32 with probability p. A key
 * stands for (seed, step, sample, position), a salt for (layer, module): model/ makes them. */
#ifndef FW_DEVICE_DROPOUT_H
#define FW_DEVICE_DROPOUT_H

#include <stdint.h>

#ifdef __CUDACC__
#define FW_DROPOUT_FN static __host__ __device__ __forceinline__
#else
#define FW_DROPOUT_FN static inline
#endif

FW_DROPOUT_FN uint64_t fw_dropout_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

FW_DROPOUT_FN uint64_t fw_dropout_row(uint64_t key, uint64_t salt) {
    return fw_dropout_mix(key ^ fw_dropout_mix(salt + 0x9e3779b97f4a7c15u));
}

/* row: of fw_dropout_row. */
FW_DROPOUT_FN uint32_t fw_dropout_bits(uint64_t row, uint32_t channel) {
    uint32_t x = channel * 0x9e3779b9u + (uint32_t)row;
    x = (x ^ (x >> 16)) * 0x21f0aaadu;
    x ^= (uint32_t)(row >> 32);
    x = (x ^ (x >> 15)) * 0xd35a2d97u;
    return x ^ (x >> 15);
}

/* An element is kept when its bits are at least this. 0 <= p < 1. */
FW_DROPOUT_FN uint32_t fw_dropout_threshold(float p) { return (uint32_t)((double)p * 4294967296.0); }
/* What is kept grows by 1 / (1 - p). */
FW_DROPOUT_FN float fw_dropout_scale(float p) { return 1.0f / (1.0f - p); }

#endif
