/* Updates by the other optimizers: the rules in fp64, 8-bit state as every device has it, and adafactor's rows and columns. */
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"
#include "device/step_8bit.h"
#include "device/step_rule.h"

FW_STEP_DEFINE(step, double, sqrt)

fw_status fw_ref_optimizer_step(fw_device *d, float *w, float *m, float *v, float *g, int64_t n,
                                const fw_step_options *options) {
    (void)d;
    const step_constants c = step_constants_of(options);
    const int first = options->step == 1;
    for (int64_t i = 0; i < n; i++) {
        double w_i = w == NULL ? 0 : (double)w[i], m_i = m == NULL || first ? 0 : (double)m[i];
        double v_i = v == NULL || first ? 0 : (double)v[i], g_i = (double)g[i];
        step(&c, options->rule, m != NULL, first, &w_i, &m_i, &v_i, &g_i);
        if (w != NULL) w[i] = (float)w_i;
        if (m != NULL) m[i] = (float)m_i;
        if (v != NULL) v[i] = (float)v_i;
        g[i] = (float)g_i;
    }
    return FW_OK;
}

fw_status fw_ref_step_8bit(fw_device *d, float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2,
                           float *g, int64_t n, const fw_step_options *options) {
    (void)d;
    const fw_blocks8 s = fw_blocks8_of(w, code1, scale1, code2, scale2, g, options);
    for (int64_t block = 0; block * FW_DYNAMIC_BLOCK_N < n; block++) fw_blocks8_step(&s, block, n);
    return FW_OK;
}

fw_status fw_ref_factored_sums(fw_device *d, float *row_R, float *col_C, const float *g, int64_t first, int64_t n,
                               int64_t R, int64_t C, float grad_scale, float epsilon) {
    (void)d;
    for (int64_t r = 0; r < R; r++) {
        double sum = 0;
        for (int64_t i = first > r * C ? first : r * C; i < (r + 1) * C && i < first + n; i++) {
            const double gradient = (double)g[i - first] * (double)grad_scale;
            sum += gradient * gradient + (double)epsilon;
        }
        row_R[r] = (float)sum;
    }
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t r = first / C; r <= (first + n) / C && n > 0; r++) {
            const int64_t i = r * C + c - first;
            if (i < 0 || i >= n) continue;
            const double gradient = (double)g[i] * (double)grad_scale;
            sum += gradient * gradient + (double)epsilon;
        }
        col_C[c] = (float)sum;
    }
    return FW_OK;
}

fw_status fw_ref_factored_moments(fw_device *d, float *row_R, float *col_C, float *sum_RC, int64_t R, int64_t C,
                                  float beta2) {
    (void)d;
    const double b2 = (double)beta2;
    double mean = 0;
    for (int64_t r = 0; r < R; r++) {
        row_R[r] = (float)(b2 * (double)row_R[r] + (1 - b2) * (double)sum_RC[r] / (double)C);
        mean += (double)row_R[r];
    }
    mean /= (double)R;
    for (int64_t r = 0; r < R; r++) sum_RC[r] = (float)sqrt(mean / (double)row_R[r]);
    for (int64_t c = 0; c < C; c++) {
        col_C[c] = (float)(b2 * (double)col_C[c] + (1 - b2) * (double)sum_RC[R + c] / (double)R);
        sum_RC[R + c] = (float)(1 / sqrt((double)col_C[c]));
    }
    return FW_OK;
}

fw_status fw_ref_factored_direction(fw_device *d, float *g, const float *factor_RC, int64_t first, int64_t n, int64_t R,
                                    int64_t C, float grad_scale) {
    (void)d;
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = (first + i) / C, c = (first + i) % C;
        g[i] = (float)((double)g[i] * (double)grad_scale * (double)factor_RC[r] * (double)factor_RC[R + c]);
    }
    return FW_OK;
}
