/* Rotation of the pairs (x[e], x[e + D/2]) by the angle of the row's position; direction -1 is the gradient. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_rope(fw_device *d, void *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                      const int32_t *position_N, int64_t N, int64_t G, int64_t D, int direction, fw_dtype t) {
    (void)d;
    int64_t E = D / 2;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t g = 0; g < G; g++) {
            for (int64_t e = 0; e < E; e++) {
                int64_t first = n * x_stride + g * D + e, second = first + E;
                double a = fw_ref_load(x, first, t), b = fw_ref_load(x, second, t);
                double cosine = (double)cos_PE[position_N[n] * E + e];
                double sine = (double)sin_PE[position_N[n] * E + e] * (direction < 0 ? -1 : 1);
                fw_ref_store(x, first, t, a * cosine - b * sine);
                fw_ref_store(x, second, t, b * cosine + a * sine);
            }
        }
    }
    return FW_OK;
}
