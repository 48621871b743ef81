/* Updates by the optimizers other than AdamW. */
#include "device/cuda/cuda_check.h"

fw_status fw_cuda_op_optimizer_step(fw_device *d, float *w, float *m, float *v, float *g, int64_t n,
                                    const fw_step_options *options) {
    static const char op[] = "optimizer_step";
    CHECK_ROWS(op, n, 1);
    CHECK(options->step >= 1, op, "the step", options->step, 0);
    CHECK(options->rule < FW_STEP_ADAMW, op, "the rule", (int64_t)options->rule, 0);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_optimizer_step(&fw_cuda_of(d)->launch, w, m, v, g, n, options));
}

fw_status fw_cuda_op_step_8bit(fw_device *d, float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2,
                               float *g, int64_t n, const fw_step_options *options) {
    static const char op[] = "step_8bit";
    CHECK_ROWS(op, n, 1);
    CHECK(options->step >= 1, op, "the step", options->step, 0);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op,
                            fw_cuda_step_8bit(&fw_cuda_of(d)->launch, w, code1, scale1, code2, scale2, g, n, options));
}

static fw_status check_matrix(const fw_device *d, const char *op, int64_t first, int64_t n, int64_t R, int64_t C) {
    CHECK_ROWS(op, R, C);
    CHECK(n >= 0 && first >= 0 && first <= R * C - n, op, "the first element and how many", first, n);
    return FW_OK;
}

fw_status fw_cuda_op_factored_sums(fw_device *d, float *row, float *col, const float *g, int64_t first, int64_t n,
                                   int64_t R, int64_t C, float grad_scale, float epsilon) {
    static const char op[] = "factored_sums";
    FW_TRY(check_matrix(d, op, first, n, R, C));
    if (R == 0) return FW_OK;
    return fw_cuda_launched(
        d, op, fw_cuda_factored_sums(&fw_cuda_of(d)->launch, row, col, g, first, n, R, C, grad_scale, epsilon));
}

fw_status fw_cuda_op_factored_moments(fw_device *d, float *row, float *col, float *sum, int64_t R, int64_t C,
                                      float beta2) {
    static const char op[] = "factored_moments";
    CHECK_ROWS(op, R, C);
    if (R == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_factored_moments(&fw_cuda_of(d)->launch, row, col, sum, R, C, beta2));
}

fw_status fw_cuda_op_factored_direction(fw_device *d, float *g, const float *factor, int64_t first, int64_t n,
                                        int64_t R, int64_t C, float grad_scale) {
    static const char op[] = "factored_direction";
    FW_TRY(check_matrix(d, op, first, n, R, C));
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op,
                            fw_cuda_factored_direction(&fw_cuda_of(d)->launch, g, factor, first, n, R, C, grad_scale));
}
