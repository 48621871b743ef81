/* h = silu(gate) * up and its gradient; silu(x) = x * s(x), s(x) = 1 / (1 + exp(-x)), silu' = s (1 + x (1 - s)). */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

fw_status fw_ref_swiglu_forward(fw_device *d, void *h_NF, const void *gu_N2F, int64_t N, int64_t F, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double gate = fw_ref_load(gu_N2F, n * 2 * F + f, t), up = fw_ref_load(gu_N2F, n * 2 * F + F + f, t);
            fw_ref_store(h_NF, n * F + f, t, gate / (1 + exp(-gate)) * up);
        }
    }
    return FW_OK;
}

fw_status fw_ref_swiglu_backward(fw_device *d, void *dgu_N2F, const void *dh_NF, const void *gu_N2F, int64_t N,
                                 int64_t F, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            int64_t at_gate = n * 2 * F + f, at_up = at_gate + F;
            double gate = fw_ref_load(gu_N2F, at_gate, t), up = fw_ref_load(gu_N2F, at_up, t);
            double dh = fw_ref_load(dh_NF, n * F + f, t), s = 1 / (1 + exp(-gate));
            fw_ref_store(dgu_N2F, at_gate, t, dh * up * s * (1 + gate * (1 - s)));
            fw_ref_store(dgu_N2F, at_up, t, dh * gate * s);
        }
    }
    return FW_OK;
}
