/* Weighted losses on one, two and four ranks: one divisor for all of them, so the same losses, under every strategy. */
#include "base/alloc.h"
#include "support/model_lab.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ONE = FW_LOSS_WEIGHT_ONE };

/* Each conversation has other weights, so that ranks have very unequal sums; one has none but ones. */
static fw_loss_weight weight_of(int64_t sample, int32_t token) {
    if (sample == 2) return ONE;
    return (fw_loss_weight)(1 + (sample * sample * 40000 + token / 3 * 7001) % (4 * ONE));
}

typedef struct alone {
    fw_step_result result;
    fw_loss_sum evaluated;
    float *gradient;
    int64_t n;
} alone;

static fw_test_lab_options options_of(int64_t accumulation) {
    static const int32_t lengths[] = {3, 60, 5, 2, 41, 17, 9, 33};
    return (fw_test_lab_options){.variant = "llama_tied",
                                 .device = "ref",
                                 .t = FW_F32,
                                 .mode = FW_ACTIVATIONS_RECOMPUTE,
                                 .micro = 1,
                                 .accumulation = accumulation,
                                 .lengths = lengths,
                                 .sample_n = 8,
                                 .weight = weight_of};
}

static int compare_rank(fw_comm *c, void *context) {
    const alone *a = context;
    for (int s = 0; s < FW_SHARD_STRATEGY_N; s++) {
        fw_test_lab lab;
        fw_step_result result;
        fw_loss_sum sum;
        const float *g;
        fw_test_lab_options options = options_of(8 / fw_comm_world(c));
        options.comm = c;
        options.shard = (fw_shard_options){
            .strategy = (fw_shard_strategy)s, .group_n = fw_comm_world(c) % 2 == 0 ? 2 : 1, .poison = true};
        FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
        FW_RANK_CHECK(fw_step_evaluate(&lab.step, lab.batcher, &sum) == FW_OK);
        FW_RANK_CHECK(memcmp(&sum, &a->evaluated, sizeof sum) == 0);
        FW_RANK_CHECK(fw_test_lab_gradient(&lab, 0, &result) == FW_OK);
        FW_RANK_CHECK(result.loss == a->result.loss && result.target_n == a->result.target_n);
        FW_RANK_CHECK(fabs(result.grad_norm - a->result.grad_norm) <= 1e-5 * a->result.grad_norm);
        FW_RANK_CHECK(fw_test_lab_state(&lab, FW_SHARD_EXP_AVG, &g) == FW_OK);
        FW_RANK_CHECK(g == NULL || fw_test_relative_l2(g, a->gradient, a->n) <= 1e-5);
        fw_test_lab_close(&lab);
    }
    return 0;
}

static void test_ranks(void **state) {
    (void)state;
    alone a;
    fw_test_lab lab;
    fw_test_lab_options options = options_of(8);
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &a.evaluated), FW_OK);
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &a.result), FW_OK);
    const float *g = fw_test_lab_gradient_of(&lab, NULL, &a.n);
    assert_int_equal(FW_NEW_ARRAY(a.gradient, (size_t)a.n), FW_OK);
    memcpy(a.gradient, g, (size_t)a.n * sizeof *g);
    assert_int_equal(a.evaluated.weight, lab.dataset->stats.weight);
    assert_true(a.result.loss == fw_loss_mean(&a.evaluated));
    fw_test_lab_close(&lab);
    for (int world = 1; world <= 4; world *= 2) assert_int_equal(fw_test_world(world, compare_rank, &a), 0);
    fw_free(a.gradient);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
