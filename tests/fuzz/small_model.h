/* The model that drivers about adapters and packed weights share; each adds its number of blocks, and biases. */
#ifndef FW_TESTS_FUZZ_SMALL_MODEL_H
#define FW_TESTS_FUZZ_SMALL_MODEL_H

#include "model/model_config.h"

#define FUZZ_SMALL_MODEL                                                                                               \
    .architecture = FW_ARCH_LLAMA, .C = 16, .H = 2, .K = 1, .D = 8, .F = 24, .V = 32, .max_position = 64,              \
    .rms_eps = 1e-5f, .tied = true

#endif
