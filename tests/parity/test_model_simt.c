/* Whole training runs with the kernels of GPUs, under the emulation, against the ref device: 20 steps of a tiny Llama and
 * a tiny Qwen3 on the documents of the reference, in the types that a GPU trains in. What a GPU does differently is the
 * matrix products only (cuBLASLt's there, the ref device's here). */
#include "support/model_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef FW_HAS_SIMT

#include "device/simt/simt_device.h"

/* The first is what is asked for; fewer steps where they only have to show that types and schedules do not matter. */
enum { STEP_N = 20, SHORT_N = 6 };
#define BF16_BOUND 1e-2 /* relative: the project's bounds for losses and norms */
#define FP32_BOUND 1e-4

typedef struct run {
    double loss[STEP_N], grad_norm[STEP_N];
} run;

/* In place: parts of a lab point to each other. */
static void open_lab(fw_test_lab *lab, const char *variant, const char *shape, int on_simt, fw_dtype t,
                     const fw_adapter_request *adapter) {
    fw_test_lab_options options = {.variant = variant,
                                   .shape = shape,
                                   .device = "ref",
                                   .t = t,
                                   .mode = FW_ACTIVATIONS_RECOMPUTE,
                                   .micro = 4,
                                   .accumulation = 2,
                                   .chunk_n = 7,
                                   .adapter = adapter};
    if (on_simt) assert_int_equal(fw_device_create_simt(&options.made_device), FW_OK);
    assert_int_equal(fw_test_lab_open(lab, &options), FW_OK);
}

static void train(run *out, fw_test_lab *lab, int64_t step_n, double rate_share) {
    const float *rates = fw_test_lab_reference(lab, "learning_rate", NULL);
    lab->step.max_grad_norm = 1.0;
    for (int64_t step = 0; step < step_n; step++) {
        fw_step_result result;
        if (fw_step_run(&lab->step, step + 1, step / 2, step % 2, rate_share * (double)rates[step], &result) != FW_OK)
            fail_msg("%s", fw_trail_message());
        out->loss[step] = result.loss;
        out->grad_norm[step] = result.grad_norm;
    }
}

static double relative(double value, double expected) { return fabs(value - expected) / fabs(expected); }

static void check_adapted(const char *variant, const char *shape, fw_dtype t, int step_n,
                          const fw_adapter_request *adapter) {
    fw_test_lab on_ref, on_simt;
    run expected, tried;
    const double bound = t == FW_F32 ? FP32_BOUND : BF16_BOUND;
    double worst = 0, worst_norm = 0;
    open_lab(&on_ref, variant, shape, 0, t, adapter);
    open_lab(&on_simt, variant, shape, 1, t, adapter);
    /* a wider model is slower, or it knows its few documents by heart before the end, where relative differences of
     * losses near 0 say little */
    const double rate_share = shape != NULL ? 0.25 : 1;
    train(&expected, &on_ref, step_n, rate_share);
    train(&tried, &on_simt, step_n, rate_share);
    for (int step = 0; step < step_n; step++) {
        assert_true(isfinite(tried.loss[step]) && isfinite(tried.grad_norm[step]));
        worst = fmax(worst, relative(tried.loss[step], expected.loss[step]));
        worst_norm = fmax(worst_norm, relative(tried.grad_norm[step], expected.grad_norm[step]));
    }
    print_message("%s %s: loss %.4f to %.4f; losses of %d steps differ by %.1e, gradient norms by %.1e\n",
                  shape != NULL ? shape : variant, fw_dtype_name(t), tried.loss[0], tried.loss[step_n - 1], step_n,
                  worst, worst_norm);
    assert_true(tried.loss[step_n - 1] < tried.loss[0]);
    assert_true(worst <= bound && worst_norm <= bound);
    fw_test_lab_close(&on_simt);
    fw_test_lab_close(&on_ref);
}

static void check_training(const char *variant, const char *shape, fw_dtype t, int step_n) {
    check_adapted(variant, shape, t, step_n, NULL);
}

static void test_llama(void **state) {
    (void)state;
    check_training("llama_tied", NULL, FW_BF16, STEP_N);
    check_training("llama_tied", NULL, FW_F32, SHORT_N);
}

static void test_qwen3(void **state) {
    (void)state;
    check_training("qwen3_untied", NULL, FW_BF16, STEP_N);
    check_training("qwen3_untied", NULL, FW_F32, SHORT_N);
}

/* A bias in the projections, and gradients as they come: what the two above lack. */
static void test_qwen2(void **state) {
    (void)state;
    check_training("qwen2_tied", NULL, FW_BF16, SHORT_N);
}

/* Attention by tensor cores, which the heads of 8 and 12 above are too small for. */
static void test_heads_of_64(void **state) {
    (void)state;
    check_training("llama_tied", "llama_heads_of_64", FW_BF16, STEP_N);
}

/* Beside frozen weights: thin products into parts of rows, dropout, magnitudes, parts of fused matrices. */
static void test_adapters(void **state) {
    (void)state;
    const fw_adapter_request lora = {.r = 5, .alpha = 10, .dropout = 0.2, .target_modules = "all-linear"};
    check_adapted("qwen3_untied", NULL, FW_BF16, SHORT_N, &lora);
    const fw_adapter_request dora = {.r = 4,
                                     .alpha = 8,
                                     .dora = true,
                                     .target_modules = "q_proj,v_proj,down_proj",
                                     .modules_to_save = "up_proj,norm",
                                     .bias = FW_ADAPTER_BIAS_ALL};
    check_adapted("llama_bias", NULL, FW_F32, SHORT_N, &dora);
    fw_adapter_request both = dora;
    both.dropout = 0.2;
    check_adapted("llama_bias", NULL, FW_F32, SHORT_N, &both);
}

/* The order of threads changes nothing, not one bit. */
static void test_schedules(void **state) {
    (void)state;
    static const char *const seeds[] = {"0", "1", "2", "3"};
    static run result[4]; /* the steps that are not taken stay 0 */
    for (int i = 0; i < 4; i++) {
        fw_test_lab lab;
        setenv("FW_SIMT_SEED", seeds[i], 1);
        open_lab(&lab, "qwen3_tied", NULL, 1, FW_BF16, NULL);
        train(&result[i], &lab, SHORT_N, 1);
        fw_test_lab_close(&lab);
    }
    unsetenv("FW_SIMT_SEED");
    for (int i = 1; i < 4; i++) assert_memory_equal(&result[0], &result[i], sizeof result[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_llama),    cmocka_unit_test(test_qwen3),
                                       cmocka_unit_test(test_qwen2),    cmocka_unit_test(test_heads_of_64),
                                       cmocka_unit_test(test_adapters), cmocka_unit_test(test_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
