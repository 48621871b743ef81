/* DoRA: y = z m / norm + b with z = (W + scale B A) x, norm[o] = || W[o] + scale B[o] A ||, which has no gradient. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

fw_status fw_ref_dora_norm(fw_device *d, float *norm_O, const void *w_OI, const void *a_RI, const void *b_OR,
                           float scale, int64_t O, int64_t I, int64_t R, fw_dtype t) {
    (void)d;
    for (int64_t o = 0; o < O; o++) {
        double squares = 0;
        for (int64_t i = 0; i < I; i++) {
            double product = 0;
            for (int64_t r = 0; r < R; r++)
                product += fw_ref_load(b_OR, o * R + r, t) * fw_ref_load(a_RI, r * I + i, t);
            const double value = fw_ref_load(w_OI, o * I + i, t) + (double)scale * product;
            squares += value * value;
        }
        fw_ref_store(norm_O, o, fw_ref_wide(t), sqrt(squares));
    }
    return FW_OK;
}

fw_status fw_ref_dora_scale(fw_device *d, void *y, int64_t y_stride, float keep, const void *x, int64_t x_stride,
                            float factor, const void *m_O, const float *norm_O, const void *b_O, int64_t N, int64_t O,
                            fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t o = 0; o < O; o++) {
            double value = (double)factor * fw_ref_load(x, n * x_stride + o, t);
            if (m_O != NULL) value *= fw_ref_load(m_O, o, t) / fw_ref_load(norm_O, o, fw_ref_wide(t));
            if (b_O != NULL) value += fw_ref_load(b_O, o, t);
            if (keep != 0) value += (double)keep * fw_ref_load(y, n * y_stride + o, t);
            fw_ref_store(y, n * y_stride + o, t, value);
        }
    }
    return FW_OK;
}

fw_status fw_ref_dora_backward_m(fw_device *d, float *dm_O, const void *dy, int64_t dy_stride, const void *z,
                                 int64_t z_stride, const float *norm_O, int64_t N, int64_t O, fw_dtype t) {
    (void)d;
    for (int64_t o = 0; o < O; o++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++)
            sum += fw_ref_load(dy, n * dy_stride + o, t) * fw_ref_load(z, n * z_stride + o, t);
        fw_ref_add_to(dm_O, o, fw_ref_wide(t), sum / fw_ref_load(norm_O, o, fw_ref_wide(t)));
    }
    return FW_OK;
}
