/* y[i] = map[code] * scale of the block: the product of two fp32 numbers, rounded to fp32 first, as bitsandbytes has it. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

fw_status fw_ref_unpack_4bit(fw_device *d, void *y_n, const uint8_t *code, const float *map_16,
                             const fw_quant_scales *scales, int64_t n, fw_dtype t) {
    (void)d;
    for (int64_t i = 0; i < n; i++) {
        const int at = i % 2 == 0 ? code[i / 2] >> 4 : code[i / 2] & 15;
        fw_ref_store(y_n, i, t, (double)(map_16[at] * fw_quant_scale(scales, i / scales->block)));
    }
    return FW_OK;
}
