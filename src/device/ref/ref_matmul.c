/* y = x w^T + b with its three gradients. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_matmul_forward(fw_device *d, void *y_NO, const void *x_NI, const void *w_OI, const void *b_O,
                                int64_t N, int64_t O, int64_t I, fw_dtype t, fw_dtype t_y) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t o = 0; o < O; o++) {
            double sum = b_O != NULL ? fw_ref_load(b_O, o, t) : 0;
            for (int64_t i = 0; i < I; i++) sum += fw_ref_load(x_NI, n * I + i, t) * fw_ref_load(w_OI, o * I + i, t);
            fw_ref_store(y_NO, n * O + o, t_y, sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_matmul_backward_input(fw_device *d, void *dx_NI, const void *dy_NO, const void *w_OI, int64_t N,
                                       int64_t O, int64_t I, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++) sum += fw_ref_load(dy_NO, n * O + o, t) * fw_ref_load(w_OI, o * I + i, t);
            fw_ref_store(dx_NI, n * I + i, t, sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_matmul_backward_weight(fw_device *d, float *dw_OI, const void *dy_NO, const void *x_NI, int64_t N,
                                        int64_t O, int64_t I, fw_dtype t) {
    (void)d;
    for (int64_t o = 0; o < O; o++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t n = 0; n < N; n++) sum += fw_ref_load(dy_NO, n * O + o, t) * fw_ref_load(x_NI, n * I + i, t);
            fw_ref_add_to(dw_OI, o * I + i, fw_ref_wide(t), sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_bias_backward(fw_device *d, float *db_O, const void *dy_NO, int64_t N, int64_t O, fw_dtype t) {
    (void)d;
    for (int64_t o = 0; o < O; o++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) sum += fw_ref_load(dy_NO, n * O + o, t);
        fw_ref_add_to(db_O, o, fw_ref_wide(t), sum);
    }
    return FW_OK;
}
