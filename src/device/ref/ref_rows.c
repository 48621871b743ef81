/* y[i] = x[row[i]] (gather) and y[row[i]] = x[i] (scatter, its gradient when rows are distinct). */
#include "device/ref/ref_ops.h"

fw_status fw_ref_gather_rows(fw_device *d, void *y_nC, const void *x_NC, const int32_t *row_n, int64_t n, int64_t C,
                             fw_dtype t) {
    (void)d;
    size_t row_bytes = (size_t)C * fw_dtype_bytes(t);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)y_nC + (size_t)i * row_bytes, (const char *)x_NC + (size_t)row_n[i] * row_bytes, row_bytes);
    return FW_OK;
}

fw_status fw_ref_scatter_rows(fw_device *d, void *y_NC, const void *x_nC, const int32_t *row_n, int64_t n, int64_t N,
                              int64_t C, fw_dtype t) {
    (void)d;
    size_t row_bytes = (size_t)C * fw_dtype_bytes(t);
    if (N > 0) memset(y_NC, 0, (size_t)N * row_bytes);
    for (int64_t i = 0; i < n; i++) {
        FW_ASSERT(row_n[i] >= 0 && row_n[i] < N);
        memcpy((char *)y_NC + (size_t)row_n[i] * row_bytes, (const char *)x_nC + (size_t)i * row_bytes, row_bytes);
    }
    return FW_OK;
}
