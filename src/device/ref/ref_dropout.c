/* y = keep ? x / (1 - p) : 0, or that added to y; linear and the same both ways. */
#include "device/dropout.h"
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_dropout(fw_device *d, void *y_NC, const void *x_NC, int add, const uint64_t *key_N, uint64_t salt,
                         float p, int64_t N, int64_t C, fw_dtype t) {
    (void)d;
    const uint32_t threshold = fw_dropout_threshold(p);
    const double scale = (double)fw_dropout_scale(p);
    for (int64_t n = 0; n < N; n++) {
        const uint64_t row = fw_dropout_row(key_N[n], salt);
        for (int64_t c = 0; c < C; c++) {
            const int64_t at = n * C + c;
            const int kept = fw_dropout_bits(row, (uint32_t)c) >= threshold;
            const double value = kept ? fw_ref_load(x_NC, at, t) * scale : 0;
            fw_ref_store(y_NC, at, t, add ? fw_ref_load(y_NC, at, t) + value : value);
        }
    }
    return FW_OK;
}
