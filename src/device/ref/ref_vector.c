/* Plain loops over n numbers, and bytes: sum_squares, scale, cast, zero, copy. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_sum_squares(fw_device *d, double *out, const float *x, int64_t n) {
    (void)d;
    enum { BLOCK = 4096 };
    double sum = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        double part = 0;
        for (int64_t i = start; i < n && i < start + BLOCK; i++) part += (double)x[i] * (double)x[i];
        sum += part;
    }
    *out = sum;
    return FW_OK;
}

fw_status fw_ref_scale(fw_device *d, float *x, int64_t n, float factor) {
    (void)d;
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
    return FW_OK;
}

fw_status fw_ref_cast(fw_device *d, void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t n) {
    (void)d;
    for (int64_t i = 0; i < n; i++) fw_ref_store(y, i, t_y, fw_ref_load(x, i, t_x));
    return FW_OK;
}

fw_status fw_ref_zero(fw_device *d, void *x, size_t bytes) {
    (void)d;
    if (bytes > 0) memset(x, 0, bytes);
    return FW_OK;
}

fw_status fw_ref_copy(fw_device *d, void *y, const void *x, size_t bytes) {
    (void)d;
    if (bytes > 0) memcpy(y, x, bytes);
    return FW_OK;
}
