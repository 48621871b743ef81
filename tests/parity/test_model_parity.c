/* Whole models against the public reference: what transformers computes for the same weights and documents
 * (reference/, made by make_reference.py). Bounds are those of the project's goals, not fitted to what is measured. */
#include "support/model_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOGITS_BOUND 1e-4
#define GRADIENT_BOUND 5e-5 /* relative L2 of each tensor */
#define FP32_BOUND 1e-4     /* relative, losses and gradient norms */
#define BF16_BOUND 1e-2     /* relative, losses */

/* Or the one that is named on the command line (cuda, where there is a GPU). */
static const char *devices[2] = {"ref", "cpu"};
static size_t device_n = 2;

static double relative(double value, double expected) { return fabs(value - expected) / fabs(expected); }

static double relative_l2(const float *value, const float *expected, int64_t n) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)value[i] - (double)expected[i];
        error += d * d;
        size += (double)expected[i] * (double)expected[i];
    }
    return sqrt(error / size);
}

/* In place: parts of a lab point to each other. */
static void open_lab(fw_test_lab *lab, const char *variant, const char *device, fw_dtype t) {
    fw_test_lab_options options = {.variant = variant,
                                   .device = device,
                                   .t = t,
                                   .mode = FW_ACTIVATIONS_RECOMPUTE,
                                   .micro = 4,
                                   .accumulation = 2,
                                   .chunk_n = 7};
    assert_int_equal(fw_test_lab_open(lab, &options), FW_OK);
}

static void check_logits(const char *variant, const char *device) {
    static float logits[64 * 128];
    fw_test_lab lab;
    open_lab(&lab, variant, device, FW_F32);
    int64_t n;
    const float *expected = fw_test_lab_reference(&lab, "logits", &n);
    assert_int_equal(fw_test_lab_logits(&lab, 0, logits, 64 * 128), FW_OK);
    assert_int_equal(n, lab.dataset->sample[0].n * lab.model.config.V);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(isfinite(logits[i]));
        worst = fmax(worst, fabs((double)logits[i] - (double)expected[i]));
    }
    printf("  %-18s %s: logits differ by %.1e\n", variant, device, worst);
    assert_true(worst <= LOGITS_BOUND);
    fw_test_lab_close(&lab);
}

static void check_gradients(const char *variant, const char *device) {
    fw_test_lab lab;
    open_lab(&lab, variant, device, FW_F32);
    fw_step_result result;
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &result), FW_OK);
    assert_true(relative(result.loss, (double)*fw_test_lab_reference(&lab, "loss", NULL)) <= FP32_BOUND);
    double worst = 0;
    const char *worst_name = "";
    size_t compared_n = 0;
    for (size_t i = 0; i < lab.reference.tensor_n; i++) {
        const char *name = lab.reference.tensor[i].name;
        if (strncmp(name, "grad.", 5) != 0) continue;
        int64_t n, expected_n;
        const float *expected = fw_test_lab_reference(&lab, name, &expected_n);
        const float *gradient = fw_test_lab_gradient_of(&lab, name + 5, &n);
        assert_non_null(gradient);
        assert_int_equal(n, expected_n);
        double error = relative_l2(gradient, expected, n);
        if (!(error <= worst)) worst = error, worst_name = name; /* a NaN is the worst of all */
        compared_n++;
    }
    assert_int_equal(compared_n, lab.model.table.param_n);
    printf("  %-18s %s: gradients differ by %.1e (%s)\n", variant, device, worst, worst_name);
    assert_true(worst <= GRADIENT_BOUND);
    fw_test_lab_close(&lab);
}

static void check_training(const char *variant, const char *device, fw_dtype t) {
    fw_test_lab lab;
    open_lab(&lab, variant, device, t);
    int64_t step_n;
    const float *expected = fw_test_lab_reference(&lab, t == FW_F32 ? "losses_fp32" : "losses_bf16", &step_n);
    const float *norms = fw_test_lab_reference(&lab, "grad_norms_fp32", NULL);
    const float *rates = fw_test_lab_reference(&lab, "learning_rate", NULL);
    lab.step.max_grad_norm = 1.0;
    assert_int_equal(step_n, 20);
    double worst = 0, worst_norm = 0;
    for (int64_t step = 0; step < step_n; step++) {
        fw_step_result result;
        assert_int_equal(fw_step_run(&lab.step, step + 1, step / 2, step % 2, (double)rates[step], &result), FW_OK);
        worst = fmax(worst, relative(result.loss, (double)expected[step]));
        worst_norm = fmax(worst_norm, relative(result.grad_norm, (double)norms[step]));
        assert_true(isfinite(result.loss) && isfinite(result.grad_norm));
    }
    printf("  %-18s %s %s: losses of 20 steps differ by %.1e, gradient norms by %.1e\n", variant, device,
           fw_dtype_name(t), worst, worst_norm);
    assert_true(worst <= (t == FW_F32 ? FP32_BOUND : BF16_BOUND));
    if (t == FW_F32) assert_true(worst_norm <= FP32_BOUND);
    fw_test_lab_close(&lab);
}

static void test_logits(void **state) {
    (void)state;
    for (size_t d = 0; d < device_n; d++)
        for (int i = 0; fw_test_model_variants[i]; i++) check_logits(fw_test_model_variants[i], devices[d]);
}

static void test_gradients(void **state) {
    (void)state;
    for (size_t d = 0; d < device_n; d++)
        for (int i = 0; fw_test_model_variants[i]; i++) check_gradients(fw_test_model_variants[i], devices[d]);
}

static void test_training_fp32(void **state) {
    (void)state;
    for (size_t d = 0; d < device_n; d++)
        for (int i = 0; fw_test_model_variants[i]; i++) check_training(fw_test_model_variants[i], devices[d], FW_F32);
}

static void test_training_bf16(void **state) {
    (void)state;
    for (size_t d = 0; d < device_n; d++)
        for (int i = 0; fw_test_model_variants[i]; i++) check_training(fw_test_model_variants[i], devices[d], FW_BF16);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        devices[0] = argv[1];
        device_n = 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits), cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_training_fp32), cmocka_unit_test(test_training_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
