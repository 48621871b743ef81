/* Weighted losses and gradients of whole models, against what the same model computes without weights: the loss is the
 * sum of weight * loss over the sum of weights, and so is its gradient. */
#include "base/alloc.h"
#include "support/model_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

enum { ONE = FW_LOSS_WEIGHT_ONE, LOSS_CAP = 1024 };

/* Runs of one token and of several, over the borders of chunks. */
static int is_heavy(int64_t sample, int32_t token) { return (sample + token * token / 3) % 2 == 0; }
static fw_loss_weight mixed(int64_t sample, int32_t token) { return is_heavy(sample, token) ? 5 * ONE / 2 : ONE / 4; }
static fw_loss_weight heavy_only(int64_t sample, int32_t token) { return is_heavy(sample, token) ? ONE : 0; }
static fw_loss_weight light_only(int64_t sample, int32_t token) { return is_heavy(sample, token) ? 0 : ONE; }
static fw_loss_weight all_one(int64_t sample, int32_t token) { return sample >= 0 && token >= 0 ? ONE : 0; }
static fw_loss_weight all_half(int64_t sample, int32_t token) { return all_one(sample, token) / 2; }

static fw_test_lab_options usual(const char *device) {
    return (fw_test_lab_options){.variant = "llama_tied",
                                 .device = device,
                                 .t = FW_F32,
                                 .mode = FW_ACTIVATIONS_RECOMPUTE,
                                 .micro = 4,
                                 .accumulation = 2};
}

/* Gradient of window 0 (heap, all units). */
static float *gradient(const fw_test_lab_options *options, int64_t *n, fw_step_result *result) {
    fw_test_lab lab;
    float *copy;
    assert_int_equal(fw_test_lab_open(&lab, options), FW_OK);
    assert_int_equal(fw_test_lab_gradient(&lab, 0, result), FW_OK);
    const float *g = fw_test_lab_gradient_of(&lab, NULL, n);
    assert_int_equal(FW_NEW_ARRAY(copy, (size_t)*n), FW_OK);
    memcpy(copy, g, (size_t)*n * sizeof *copy);
    fw_test_lab_close(&lab);
    return copy;
}

/* The targets of either weight alone, put together by hand. */
static void test_by_hand(void **state) {
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    static const int64_t chunks[] = {0, 1, 7};
    for (int d = 0; d < 2; d++) {
        fw_test_lab_options options = usual(devices[d]);
        fw_step_result heavy, light, result;
        int64_t n;
        options.weight = heavy_only;
        float *g_heavy = gradient(&options, &n, &heavy);
        options.weight = light_only;
        float *g_light = gradient(&options, &n, &light), *expected;
        const double w_heavy = 2.5 * (double)heavy.target_n, w_light = 0.25 * (double)light.target_n;
        const double w = w_heavy + w_light;
        assert_true(heavy.target_n > 10 && light.target_n > 10);
        assert_int_equal(FW_NEW_ARRAY(expected, (size_t)n), FW_OK);
        for (int64_t i = 0; i < n; i++)
            expected[i] = (float)((w_heavy * (double)g_heavy[i] + w_light * (double)g_light[i]) / w);
        options.weight = mixed;
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            options.chunk_n = chunks[c];
            float *g = gradient(&options, &n, &result);
            assert_int_equal(result.target_n, heavy.target_n + light.target_n);
            assert_true(fabs(result.loss - (w_heavy * heavy.loss + w_light * light.loss) / w) <= 1e-6 * result.loss);
            assert_true(fw_test_relative_l2(g, expected, n) <= 1e-5);
            fw_free(g);
        }
        fw_free(g_heavy);
        fw_free(g_light);
        fw_free(expected);
    }
}

/* Weights that are all one are none, and a half everywhere is no other gradient: not one bit. */
static void test_nothing_changes(void **state) {
    (void)state;
    static const fw_dtype types[] = {FW_F32, FW_BF16};
    for (int t = 0; t < 2; t++) {
        fw_test_lab_options options = usual("cpu");
        fw_step_result plain, ones, halves;
        int64_t n;
        options.t = types[t];
        options.chunk_n = 5;
        float *g = gradient(&options, &n, &plain);
        options.weight = all_one;
        float *g_ones = gradient(&options, &n, &ones);
        options.weight = all_half;
        float *g_halves = gradient(&options, &n, &halves);
        assert_memory_equal(g, g_ones, (size_t)n * sizeof *g);
        assert_memory_equal(g, g_halves, (size_t)n * sizeof *g);
        assert_true(plain.loss == ones.loss && plain.grad_norm == ones.grad_norm);
        assert_true(plain.grad_norm == halves.grad_norm && fabs(plain.loss - halves.loss) <= 1e-7 * plain.loss);
        fw_free(g);
        fw_free(g_ones);
        fw_free(g_halves);
    }
}

/* A micro-batch's losses themselves have no weight; the mean of an evaluation has. */
static void test_evaluation(void **state) {
    (void)state;
    fw_test_lab_options options = usual("ref");
    fw_test_lab lab;
    float plain[LOSS_CAP], weighted[LOSS_CAP];
    int64_t n, n_weighted;
    fw_loss_sum sum, heavy, light;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_test_lab_losses(&lab, 0, 0, plain, LOSS_CAP, &n), FW_OK);
    fw_test_lab_close(&lab);
    options.weight = mixed;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_test_lab_losses(&lab, 0, 0, weighted, LOSS_CAP, &n_weighted), FW_OK);
    assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &sum), FW_OK);
    assert_int_equal(sum.weight, lab.dataset->stats.weight);
    fw_test_lab_close(&lab);
    assert_int_equal(n, n_weighted);
    assert_memory_equal(plain, weighted, (size_t)n * sizeof *plain);
    options.weight = heavy_only;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &heavy), FW_OK);
    fw_test_lab_close(&lab);
    options.weight = light_only;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &light), FW_OK);
    fw_test_lab_close(&lab);
    const double w_heavy = 2.5 * (double)heavy.target_n, w_light = 0.25 * (double)light.target_n;
    const double expected = (w_heavy * fw_loss_mean(&heavy) + w_light * fw_loss_mean(&light)) / (w_heavy + w_light);
    assert_true(fabs(fw_loss_mean(&sum) - expected) <= 1e-6 * expected);
    assert_int_equal(sum.target_n, heavy.target_n + light.target_n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand), cmocka_unit_test(test_nothing_changes),
                                       cmocka_unit_test(test_evaluation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
