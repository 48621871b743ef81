/* step_8bit (device/device.h) for a block, in C: ref and cpu, whose codes and scales have the same bits as bitsandbytes'
 * and as each other's. */
#ifndef FW_DEVICE_STEP_8BIT_H
#define FW_DEVICE_STEP_8BIT_H

#include "device/step_options.h"
#include "quant/dynamic_map.h"

#include <math.h>
#include <string.h>

typedef struct fw_blocks8 {
    float *w, *scale1, *scale2, *g;
    uint8_t *code1, *code2; /* scale2, code2 NULL: Lion */
    float beta1, rest1, beta2, rest2, epsilon, grad_scale;
    float step_size, root_factor, decay, rate;
    const uint8_t *codes[2]; /* fw_dynamic_codes */
} fw_blocks8;

static inline fw_blocks8 fw_blocks8_of(float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2, float *g,
                                       const fw_step_options *o) {
    const double b1 = o->beta1, b2 = o->beta2, rate = (double)o->learning_rate;
    return (fw_blocks8){.w = w,
                        .scale1 = scale1,
                        .scale2 = scale2,
                        .g = g,
                        .code1 = code1,
                        .code2 = code2,
                        .beta1 = (float)b1,
                        .rest1 = (float)(1 - b1),
                        .beta2 = (float)b2,
                        .rest2 = (float)(1 - b2),
                        .epsilon = o->epsilon,
                        .grad_scale = o->grad_scale,
                        .step_size = (float)(rate / (1 - pow(b1, (double)o->step))),
                        .root_factor = (float)(1 / sqrt(1 - pow(b2, (double)o->step))),
                        .decay = (float)(rate * (double)o->weight_decay),
                        .rate = o->learning_rate,
                        .codes = {fw_dynamic_codes(0), fw_dynamic_codes(1)}};
}

/* codes and *scale from x[0, n). */
static inline void fw_blocks8_put(uint8_t *code, float *scale, const float *x, int64_t n, const uint8_t *codes) {
    uint32_t most = 0; /* of |x|, as bits: ascending as the numbers */
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    memcpy(scale, &most, sizeof *scale);
    if (most == 0) {
        memset(code, 0, (size_t)n);
        return;
    }
    const float inverse = 1.0f / *scale;
    int place[FW_DYNAMIC_BLOCK_N];
    for (int64_t i = 0; i < n; i++) place[i] = fw_dynamic_place(x[i] * inverse);
    for (int64_t i = 0; i < n; i++) code[i] = codes[place[i]];
}

/* Block `block` of a tensor of n elements. */
static inline void fw_blocks8_step(const fw_blocks8 *s, int64_t block, int64_t n_all) {
    const int64_t first = block * FW_DYNAMIC_BLOCK_N, left = n_all - first;
    const int64_t n = left < FW_DYNAMIC_BLOCK_N ? left : FW_DYNAMIC_BLOCK_N;
    float *w = s->w + first, *g = s->g + first, m[FW_DYNAMIC_BLOCK_N], v[FW_DYNAMIC_BLOCK_N];
    uint8_t *code1 = s->code1 + first;
    const float scale1 = s->scale1[block];
    for (int64_t i = 0; i < n; i++) m[i] = fw_dynamic_signed.value[code1[i]] * scale1;
    if (s->code2 == NULL) {
        for (int64_t i = 0; i < n; i++) {
            const float gradient = g[i] * s->grad_scale, mixed = m[i] * s->beta1 + s->rest1 * gradient;
            m[i] = fmaf(gradient, s->rest2, m[i] * s->beta2);
            w[i] -= s->decay * w[i] + (mixed > 0 ? s->rate : mixed < 0 ? -s->rate : 0);
            g[i] = 0;
        }
        fw_blocks8_put(code1, &s->scale1[block], m, n, s->codes[1]);
        return;
    }
    uint8_t *code2 = s->code2 + first;
    const float scale2 = s->scale2[block];
    for (int64_t i = 0; i < n; i++) v[i] = fw_dynamic_unsigned.value[code2[i]] * scale2;
    for (int64_t i = 0; i < n; i++) {
        const float gradient = g[i] * s->grad_scale;
        m[i] = fmaf(gradient, s->rest1, m[i] * s->beta1);
        v[i] = fmaf(s->rest2 * gradient, gradient, v[i] * s->beta2);
        w[i] -= s->decay * w[i] + s->step_size * (m[i] / (sqrtf(v[i]) * s->root_factor + s->epsilon));
        g[i] = 0;
    }
    fw_blocks8_put(code1, &s->scale1[block], m, n, s->codes[1]);
    fw_blocks8_put(code2, &s->scale2[block], v, n, s->codes[0]);
}

#endif
