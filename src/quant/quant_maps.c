#include "quant/dynamic_map.h"
#include "quant/quant.h"

#include <string.h>

static const char *const names[FW_QUANT_KIND_N] = {"nf4", "fp4"};

const char *fw_quant_kind_name(fw_quant_kind kind) { return names[kind]; }

fw_status fw_quant_kind_parse(fw_quant_kind *out, const char *name) {
    for (int i = 0; i < FW_QUANT_KIND_N; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (fw_quant_kind)i;
            return FW_OK;
        }
    return fw_fail(FW_ERR_OPTION, "there is no 4-bit type %s; use nf4 or fp4", name);
}

const float *fw_quant_map4(fw_quant_kind kind) {
    /* QLoRA, appendix E: quantiles of N(0, 1) over its largest one, 8 of them below 0 and 9 from 0 on. */
    static const float nf4[FW_QUANT_MAP4_N] = {
        -1.0f,
        -0.6961928009986877f,
        -0.5250730514526367f,
        -0.39491748809814453f,
        -0.28444138169288635f,
        -0.18477343022823334f,
        -0.09105003625154495f,
        0.0f,
        0.07958029955625534f,
        0.16093020141124725f,
        0.24611230194568634f,
        0.33791524171829224f,
        0.44070982933044434f,
        0.5626170039176941f,
        0.7229568362236023f,
        1.0f,
    };
    static const float fp4[FW_QUANT_MAP4_N] = {
        0.0f, 0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  0.5f,  2.0f / 12,  0.25f,
        0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -0.5f, -2.0f / 12, -0.25f,
    };
    return kind == FW_QUANT_NF4 ? nf4 : fp4;
}

void fw_quant_map8(float map[FW_QUANT_MAP8_N], int with_sign) {
    memcpy(map, with_sign ? fw_dynamic_signed.value : fw_dynamic_unsigned.value, sizeof fw_dynamic_signed.value);
}
