/* The next token from logits. */
#ifndef FW_TRAIN_SAMPLER_H
#define FW_TRAIN_SAMPLER_H

#include "base/status.h"

#include <stdint.h>

typedef struct fw_sampler {
    double temperature; /* 0: the likeliest token, the first one of equals */
    double top_p;       /* among the fewest likeliest tokens whose probabilities sum to at least this */
    uint64_t seed;
    struct fw_candidate {
        double p;
        int32_t id;
    } * candidate; /* V, scratch */
    int64_t V;
} fw_sampler;

fw_status fw_sampler_init(fw_sampler *out, double temperature, double top_p, uint64_t seed, int64_t V);
void fw_sampler_fini(fw_sampler *s);
/* index: number of the token in the answer; the draw depends on seed and index alone. Errors: FW_ERR_INPUT when no
 * logit is a finite number. */
fw_status fw_sampler_next(fw_sampler *s, int32_t *id, const float *logits_V, uint64_t index);

#endif
