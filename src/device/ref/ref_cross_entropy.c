/* loss[n] = log(sum exp(logits[n])) - logits[n][label[n]] and dlogits = scale * (softmax - onehot). */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

fw_status fw_ref_cross_entropy(fw_device *d, float *loss_N, void *dlogits_NV, const float *logits_NV,
                               const int32_t *label_N, int64_t N, int64_t V, float scale, fw_dtype t) {
    (void)d;
    fw_dtype wide = fw_ref_wide(t);
    for (int64_t n = 0; n < N; n++) {
        int64_t label = label_N[n];
        FW_ASSERT(label >= 0 && label < V);
        double maximum = -INFINITY, sum = 0;
        for (int64_t v = 0; v < V; v++) { /* with fmax here, gcc 12 for arm64 stops with an internal error */
            double logit = fw_ref_load(logits_NV, n * V + v, wide);
            if (logit > maximum) maximum = logit;
        }
        for (int64_t v = 0; v < V; v++) sum += exp(fw_ref_load(logits_NV, n * V + v, wide) - maximum);
        fw_ref_store(loss_N, n, wide, log(sum) + maximum - fw_ref_load(logits_NV, n * V + label, wide));
        if (dlogits_NV == NULL) continue;
        for (int64_t v = 0; v < V; v++) {
            double p = exp(fw_ref_load(logits_NV, n * V + v, wide) - maximum) / sum;
            fw_ref_store(dlogits_NV, n * V + v, t, (double)scale * (p - (v == label)));
        }
    }
    return FW_OK;
}
