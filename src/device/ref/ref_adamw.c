/* One AdamW update of fp32 weights and moments, and the weights' copy in the compute type. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

fw_status fw_ref_adamw(fw_device *d, float *w, float *m, float *v, float *g, void *w_compute, int64_t n,
                       const fw_adamw_options *options, fw_dtype t) {
    (void)d;
    double b1 = (double)options->beta1, b2 = (double)options->beta2, rate = (double)options->learning_rate;
    double correction1 = 1 - pow(b1, (double)options->step), correction2 = 1 - pow(b2, (double)options->step);
    for (int64_t i = 0; i < n; i++) {
        double gradient = (double)g[i] * (double)options->grad_scale;
        double old_m = options->step == 1 ? 0 : (double)m[i], old_v = options->step == 1 ? 0 : (double)v[i];
        double mean = b1 * old_m + (1 - b1) * gradient;
        double square = b2 * old_v + (1 - b2) * gradient * gradient;
        double step = mean / correction1 / (sqrt(square / correction2) + (double)options->epsilon);
        m[i] = (float)mean;
        v[i] = (float)square;
        w[i] = (float)((double)w[i] - rate * ((double)options->weight_decay * (double)w[i] + step));
        if (w_compute != NULL) fw_ref_store(w_compute, i, t, (double)w[i]);
        g[i] = 0;
    }
    return FW_OK;
}
