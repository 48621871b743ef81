/* y = a + b; it is its own gradient. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_add(fw_device *d, void *y, const void *a, const void *b, int64_t n, fw_dtype t) {
    (void)d;
    for (int64_t i = 0; i < n; i++) fw_ref_store(y, i, t, fw_ref_load(a, i, t) + fw_ref_load(b, i, t));
    return FW_OK;
}
