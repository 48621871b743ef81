#include "train/sampler.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum { RNG_STREAM_SAMPLING = 3 };

fw_status fw_sampler_init(fw_sampler *s, double temperature, double top_p, uint64_t seed, int64_t V) {
    *s = (fw_sampler){.temperature = temperature, .top_p = top_p, .seed = seed, .V = V};
    return FW_NEW_ARRAY(s->candidate, (size_t)V);
}

void fw_sampler_fini(fw_sampler *s) {
    fw_free(s->candidate);
    *s = (fw_sampler){0};
}

static int likelier(const void *a, const void *b) {
    const struct fw_candidate *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

fw_status fw_sampler_next(fw_sampler *s, int32_t *id, const float *logits_V, uint64_t index) {
    int32_t best = -1;
    for (int64_t i = 0; i < s->V; i++)
        if (isfinite(logits_V[i]) && (best < 0 || logits_V[i] > logits_V[best])) best = (int32_t)i;
    if (best < 0) return fw_fail(FW_ERR_INPUT, "the model gives no finite logit: its weights are damaged");
    *id = best;
    if (s->temperature <= 0) return FW_OK;

    double sum = 0;
    for (int64_t i = 0; i < s->V; i++) {
        double p = isfinite(logits_V[i]) ? exp(((double)logits_V[i] - (double)logits_V[best]) / s->temperature) : 0;
        s->candidate[i] = (struct fw_candidate){p, (int32_t)i};
        sum += p;
    }
    int64_t kept = s->V;
    if (s->top_p < 1) {
        qsort(s->candidate, (size_t)s->V, sizeof *s->candidate, likelier);
        double reached = 0;
        for (kept = 0; kept < s->V && reached < s->top_p * sum; kept++) reached += s->candidate[kept].p;
        sum = reached;
    }
    double draw = fw_rng_uniform(s->seed, RNG_STREAM_SAMPLING, index) * sum;
    for (int64_t i = 0; i < kept; i++) {
        *id = s->candidate[i].id;
        draw -= s->candidate[i].p;
        if (draw < 0 && s->candidate[i].p > 0) break;
    }
    return FW_OK;
}
