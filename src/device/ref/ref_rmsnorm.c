/* y = w * (x * rstd), rstd = 1 / sqrt(mean(x^2) + eps), for N x G rows of C numbers. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

fw_status fw_ref_rmsnorm_forward(fw_device *d, void *y, int64_t y_stride, float *rstd_NG, const void *x,
                                 int64_t x_stride, const void *w_C, float eps, int64_t N, int64_t G, int64_t C,
                                 fw_dtype t) {
    (void)d;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t g = 0; g < G; g++) {
            int64_t x_row = n * x_stride + g * C, y_row = n * y_stride + g * C;
            double sum = 0;
            for (int64_t c = 0; c < C; c++) {
                double value = fw_ref_load(x, x_row + c, t);
                sum += value * value;
            }
            double rstd = 1 / sqrt(sum / (double)C + (double)eps);
            fw_ref_store(rstd_NG, n * G + g, fw_ref_wide(t), rstd);
            for (int64_t c = 0; c < C; c++) {
                double xhat = fw_ref_round(fw_ref_load(x, x_row + c, t) * rstd, t);
                fw_ref_store(y, y_row + c, t, fw_ref_load(w_C, c, t) * xhat);
            }
        }
    }
    return FW_OK;
}

/* dw first, over all rows: afterwards dy may be gone, for dx may be dy. */
fw_status fw_ref_rmsnorm_backward(fw_device *d, void *dx, int64_t dx_stride, float *dw_C, const void *dy,
                                  int64_t dy_stride, const void *dx_add, const void *x, int64_t x_stride,
                                  const void *w_C, const float *rstd_NG, int64_t N, int64_t G, int64_t C, fw_dtype t) {
    (void)d;
    fw_dtype wide = fw_ref_wide(t);
    for (int64_t c = 0; dw_C != NULL && c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++)
            for (int64_t g = 0; g < G; g++)
                sum += fw_ref_load(dy, n * dy_stride + g * C + c, t) * fw_ref_load(x, n * x_stride + g * C + c, t) *
                       fw_ref_load(rstd_NG, n * G + g, wide);
        fw_ref_add_to(dw_C, c, wide, sum);
    }
    for (int64_t n = 0; n < N; n++) {
        for (int64_t g = 0; g < G; g++) {
            int64_t x_row = n * x_stride + g * C, dx_row = n * dx_stride + g * C, dy_row = n * dy_stride + g * C;
            double rstd = fw_ref_load(rstd_NG, n * G + g, wide), sum = 0;
            for (int64_t c = 0; c < C; c++)
                sum += fw_ref_load(w_C, c, t) * fw_ref_load(dy, dy_row + c, t) * fw_ref_load(x, x_row + c, t) * rstd;
            for (int64_t c = 0; c < C; c++) {
                double xhat = fw_ref_load(x, x_row + c, t) * rstd;
                double value =
                    rstd * (fw_ref_load(w_C, c, t) * fw_ref_load(dy, dy_row + c, t) - xhat * sum / (double)C);
                if (dx_add != NULL) value += fw_ref_load(dx_add, dx_row + c, t);
                fw_ref_store(dx, dx_row + c, t, value);
            }
        }
    }
    return FW_OK;
}
