/* y += scale * u B^T with its gradients, and dx += du A. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_lora_expand(fw_device *d, void *y, int64_t y_stride, const void *u_NR, const void *b_OR, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t o = 0; o < O; o++) {
            double sum = 0;
            for (int64_t r = 0; r < R; r++) sum += fw_ref_load(u_NR, n * R + r, t) * fw_ref_load(b_OR, o * R + r, t);
            fw_ref_add_to(y, n * y_stride + o, t, (double)scale * sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_lora_reduce(fw_device *d, void *du_NR, const void *dy, int64_t dy_stride, const void *b_OR,
                             float scale, int64_t N, int64_t O, int64_t R, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t r = 0; r < R; r++) {
            double sum = 0;
            for (int64_t o = 0; o < O; o++)
                sum += fw_ref_load(dy, n * dy_stride + o, t) * fw_ref_load(b_OR, o * R + r, t);
            fw_ref_store(du_NR, n * R + r, t, (double)scale * sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_lora_backward_b(fw_device *d, float *db_OR, const void *dy, int64_t dy_stride, const void *u_NR,
                                 float scale, int64_t N, int64_t O, int64_t R, fw_dtype t) {
    (void)d;
    for (int64_t o = 0; o < O; o++) {
        for (int64_t r = 0; r < R; r++) {
            double sum = 0;
            for (int64_t n = 0; n < N; n++)
                sum += fw_ref_load(dy, n * dy_stride + o, t) * fw_ref_load(u_NR, n * R + r, t);
            fw_ref_add_to(db_OR, o * R + r, fw_ref_wide(t), (double)scale * sum);
        }
    }
    return FW_OK;
}

fw_status fw_ref_lora_backward_input(fw_device *d, void *dx_NI, const void *du_NR, const void *a_RI, int64_t N,
                                     int64_t I, int64_t R, fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t i = 0; i < I; i++) {
            double sum = 0;
            for (int64_t r = 0; r < R; r++) sum += fw_ref_load(du_NR, n * R + r, t) * fw_ref_load(a_RI, r * I + i, t);
            fw_ref_add_to(dx_NI, n * I + i, t, sum);
        }
    }
    return FW_OK;
}
