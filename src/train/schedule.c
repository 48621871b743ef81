#include "train/schedule.h"

#include <math.h>

static double warm(const fw_schedule *c, int64_t step) {
    if (c->warmup == FW_WARMUP_LOG) return log1p((double)step) / log1p((double)c->warmup_n);
    return (double)step / (double)c->warmup_n;
}

double fw_schedule_rate(const fw_schedule *c, int64_t step) {
    if (c->kind == FW_LR_CONSTANT) return c->peak;
    if (step <= c->warmup_n) return c->peak * warm(c, step);
    if (c->kind == FW_LR_CONSTANT_WITH_WARMUP) return c->peak;
    int64_t decay_n = c->total_n - c->warmup_n;
    if (decay_n < 1) decay_n = 1;
    double done = (double)(step - 1 - c->warmup_n) / (double)decay_n;
    if (done > 1) done = 1;
    if (c->kind == FW_LR_COSINE) return c->peak * 0.5 * (1 + cos(3.14159265358979323846 * done));
    return c->peak * (1 - done);
}
