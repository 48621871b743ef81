/* y[n] = w[id[n]] and its gradient. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_embedding_forward(fw_device *d, void *y_NC, const void *w_VC, const int32_t *id_N, int64_t N,
                                   int64_t C, int64_t V, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        FW_ASSERT(id_N[n] >= 0 && id_N[n] < V);
        for (int64_t c = 0; c < C; c++) fw_ref_store(y_NC, n * C + c, t, fw_ref_load(w_VC, id_N[n] * C + c, t));
    }
    return FW_OK;
}

fw_status fw_ref_embedding_backward(fw_device *d, float *dw_VC, const void *dy_NC, const int32_t *id_N, int64_t N,
                                    int64_t C, int64_t V, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        FW_ASSERT(id_N[n] >= 0 && id_N[n] < V);
        for (int64_t c = 0; c < C; c++)
            fw_ref_add_to(dw_VC, id_N[n] * C + c, fw_ref_wide(t), fw_ref_load(dy_NC, n * C + c, t));
    }
    return FW_OK;
}
