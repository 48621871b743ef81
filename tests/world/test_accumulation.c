/* One global batch, however it is cut: into micro-batches, onto ranks, under every strategy and both ways of adding up
 * gradients. And what must hold inside the engine for it: sums in fp32, one norm, fp32 weights that learn. */
#include "base/alloc.h"
#include "support/model_lab.h"
#include "support/world.h"
#include "train/optimizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- windows against one rank with one micro-batch */

enum { WINDOWS_MAX = 2 };

/* What one rank computes with each window as a single micro-batch. */
typedef struct windows {
    const int32_t *lengths;
    int64_t sample_n, micro_n, accumulation; /* of a rank, in the world under test; one sequence at a time */
    int64_t window_n;                        /* steps of the epoch */
    fw_step_result result[WINDOWS_MAX];
    float *gradient[WINDOWS_MAX];
    int64_t n;
} windows;

static fw_test_lab_options options_of(const windows *w, int64_t micro, int64_t accumulation) {
    return (fw_test_lab_options){.variant = "llama_tied",
                                 .device = "ref",
                                 .t = FW_F32,
                                 .mode = FW_ACTIVATIONS_RECOMPUTE,
                                 .micro = micro,
                                 .accumulation = accumulation,
                                 .lengths = w->lengths,
                                 .sample_n = w->sample_n};
}

static void compute_alone(windows *w, int world) {
    fw_test_lab lab;
    fw_test_lab_options options = options_of(w, w->accumulation * world, 1);
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_batcher_steps_per_epoch(lab.batcher), w->window_n);
    for (int64_t k = 0; k < w->window_n; k++) {
        assert_int_equal(fw_test_lab_gradient(&lab, k, &w->result[k]), FW_OK);
        const float *g = fw_test_lab_gradient_of(&lab, NULL, &w->n);
        assert_int_equal(FW_NEW_ARRAY(w->gradient[k], (size_t)w->n), FW_OK);
        memcpy(w->gradient[k], g, (size_t)w->n * sizeof *g);
    }
    fw_test_lab_close(&lab);
}

static int compare_windows(fw_comm *c, const windows *w, fw_shard_options shard) {
    fw_test_lab lab;
    fw_test_lab_options options = options_of(w, 1, w->accumulation);
    options.comm = c;
    options.shard = shard;
    options.shard.poison = true;
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    FW_RANK_CHECK(fw_batcher_steps_per_epoch(lab.batcher) == w->window_n);
    for (int64_t k = 0; k < w->window_n; k++) { /* beta1 = 0: nothing of an earlier window is in the moment */
        fw_step_result result;
        const float *g;
        FW_RANK_CHECK(fw_test_lab_gradient(&lab, k, &result) == FW_OK);
        FW_RANK_CHECK(result.target_n == w->result[k].target_n && result.token_n == w->result[k].token_n);
        FW_RANK_CHECK(fabs(result.loss - w->result[k].loss) <= 1e-5 * w->result[k].loss);
        FW_RANK_CHECK(fabs(result.grad_norm - w->result[k].grad_norm) <= 1e-5 * w->result[k].grad_norm);
        FW_RANK_CHECK(fw_test_lab_state(&lab, FW_SHARD_EXP_AVG, &g) == FW_OK);
        FW_RANK_CHECK(g == NULL || fw_test_relative_l2(g, w->gradient[k], w->n) <= 1e-5);
    }
    fw_test_lab_close(&lab);
    return 0;
}

static int every_strategy(fw_comm *c, void *context) {
    const windows *w = context;
    for (int s = 0; s < FW_SHARD_STRATEGY_N; s++)
        for (int each = 0; each < 2; each++) {
            fw_shard_options shard = {.strategy = (fw_shard_strategy)s, .sync_each = each, .prefetch = s % 3};
            shard.group_n = fw_comm_world(c) % 2 == 0 ? 2 : 1;
            int failed = compare_windows(c, w, shard);
            if (failed != 0) {
                fprintf(stderr, "%s, reduced each %d, %d ranks\n", fw_shard_strategy_name(shard.strategy), each,
                        fw_comm_world(c));
                return failed;
            }
        }
    return 0;
}

static void check_windows(int world, windows w) {
    compute_alone(&w, world);
    assert_int_equal(fw_test_world(world, every_strategy, &w), 0);
    for (int64_t k = 0; k < w.window_n; k++) fw_free(w.gradient[k]);
}

/* A1, A2, C33: five conversations of very unequal lengths on two and three ranks. A target weighs the same wherever it
 * is, and a rank that has none left in a micro-batch adds nothing and is waited for by nobody. */
static void test_unequal(void **state) {
    (void)state;
    static const int32_t lengths[] = {3, 60, 5, 2, 41};
    check_windows(2, (windows){.lengths = lengths, .sample_n = 5, .accumulation = 3, .window_n = 1});
    check_windows(3, (windows){.lengths = lengths, .sample_n = 5, .accumulation = 2, .window_n = 1});
    check_windows(4, (windows){.lengths = lengths, .sample_n = 5, .accumulation = 2, .window_n = 1});
}

/* A3: seven micro-batches at accumulation 4 are two steps, the second of three and with its own divisor; three at 4 are
 * one. The last micro-batch of two ranks lacks a conversation. */
static void test_short_last_window(void **state) {
    (void)state;
    static const int32_t lengths[] = {9, 33, 4, 17, 2, 28, 6, 50, 12, 3, 21, 7, 40};
    check_windows(2, (windows){.lengths = lengths, .sample_n = 13, .accumulation = 4, .window_n = 2});
    check_windows(2, (windows){.lengths = lengths, .sample_n = 5, .accumulation = 4, .window_n = 1});
    check_windows(3, (windows){.lengths = lengths, .sample_n = 13, .accumulation = 3, .window_n = 2});
}

/* ---- A4 */

static int evaluate_rank(fw_comm *c, void *context) {
    const fw_loss_sum *alone = context;
    for (int s = 0; s < FW_SHARD_STRATEGY_N; s++) {
        fw_test_lab lab;
        fw_loss_sum sum;
        fw_test_lab_options options = {
            .variant = "llama_tied",
            .device = "ref",
            .micro = 2,
            .accumulation = 1,
            .comm = c,
            .shard = {
                .strategy = (fw_shard_strategy)s, .group_n = 1, .sync_each = true, .prefetch = 1, .poison = true}};
        FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
        FW_RANK_CHECK(fw_step_evaluate(&lab.step, lab.batcher, &sum) == FW_OK);
        FW_RANK_CHECK(sum.target_n == alone->target_n && sum.not_finite == 0);
        FW_RANK_CHECK(fabs(fw_loss_mean(&sum) - fw_loss_mean(alone)) <= 1e-6 * fw_loss_mean(alone));
        fw_test_lab_close(&lab);
    }
    return 0;
}

/* A4: evaluation counts each target once, whoever has it and whoever keeps the weights. */
static void test_evaluation(void **state) {
    (void)state;
    fw_test_lab lab;
    fw_test_lab_options options = {.variant = "llama_tied", .device = "ref", .micro = 4, .accumulation = 1};
    fw_loss_sum sum;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &sum), FW_OK);
    fw_test_lab_close(&lab);
    for (int world = 1; world <= 3; world++) assert_int_equal(fw_test_world(world, evaluate_rank, &sum), 0);
}

/* ---- the engine with gradients of the test's own */

typedef float (*gradient_fn)(int rank, int64_t micro, int32_t unit, int64_t i);

/* A pass over the model in the order of a step; to each gradient what `of` says is added. */
static fw_status pass(fw_test_lab *lab, gradient_fn of, int64_t micro, bool last) {
    const fw_param_table *table = &lab->model.table;
    const int rank = fw_comm_rank(lab->comm);
    const void *w;
    float *g;
    FW_TRY(fw_shard_begin(lab->shard, FW_SHARD_PASS_TRAIN, !last));
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        FW_TRY(fw_shard_acquire(lab->shard, unit, FW_SHARD_FORWARD, &w, NULL));
        FW_TRY(fw_shard_release(lab->shard, unit, FW_SHARD_FORWARD));
    }
    FW_TRY(fw_shard_acquire(lab->shard, 0, FW_SHARD_LOSS, &w, &g));
    FW_TRY(fw_shard_release(lab->shard, 0, FW_SHARD_LOSS));
    for (int32_t unit = table->unit_n - 1; unit >= 0; unit--) {
        fw_shard_use use = unit == 0 ? FW_SHARD_GRADIENT : FW_SHARD_BACKWARD;
        FW_TRY(fw_shard_acquire(lab->shard, unit, use, &w, &g));
        for (int64_t i = 0; i < table->unit_size_n[unit]; i++) g[i] += of(rank, micro, unit, i);
        FW_TRY(fw_shard_reduce(lab->shard, unit, last));
        FW_TRY(fw_shard_release(lab->shard, unit, use));
    }
    return FW_OK;
}

static fw_test_lab_options engine_options(fw_comm *c, fw_dtype t, fw_shard_options shard) {
    return (fw_test_lab_options){.variant = "llama_tied",
                                 .device = "cpu",
                                 .t = t,
                                 .micro = 1,
                                 .accumulation = 2,
                                 .sample_n = 2,
                                 .comm = c,
                                 .shard = shard};
}

/* 1 once, 2^-9 elsewhere. */
static float one_and_many_small(int rank, int64_t micro, int32_t unit, int64_t i) {
    (void)unit;
    (void)i;
    return rank == 0 && micro == 0 ? 1.0f : 0x1p-9f;
}

static int every_owned_is(fw_comm *c, fw_test_lab *lab, float want) {
    for (int32_t unit = 0; unit < lab->model.table.unit_n; unit++) {
        fw_owned_range own;
        FW_RANK_CHECK(fw_shard_owned(lab->shard, unit, &own) == FW_OK);
        for (int64_t i = 0; i < own.n; i++) {
            if (own.g[i] != want) fprintf(stderr, "%.9g, not %.9g\n", (double)own.g[i], (double)want);
            FW_RANK_CHECK(own.g[i] == want);
        }
    }
    return 0;
}

/* A6: 257 numbers on 4 ranks in 65 micro-batches, of which three ranks have nothing in the last. */
static float one_and_256_small(int rank, int64_t micro, int32_t unit, int64_t i) {
    return rank > 0 && micro == 64 ? 0.0f : one_and_many_small(rank, micro, unit, i);
}

static int sums_rank(fw_comm *c, void *context) {
    (void)context;
    for (int s = 0; s < FW_SHARD_STRATEGY_N; s++)
        for (int each = 0; each < 2; each++) {
            fw_test_lab lab;
            fw_shard_options shard = {.strategy = (fw_shard_strategy)s, .sync_each = each, .prefetch = 1, .group_n = 2};
            fw_test_lab_options options = engine_options(c, FW_BF16, shard);
            FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
            for (int64_t micro = 0; micro < 65; micro++)
                FW_RANK_CHECK(pass(&lab, one_and_256_small, micro, micro == 64) == FW_OK);
            FW_RANK_CHECK(fw_shard_finish(lab.shard) == FW_OK);
            FW_RANK_CHECK(every_owned_is(c, &lab, 1.5f) == 0);
            fw_test_lab_close(&lab);
            if (s == FW_SHARD_HSDP || s == FW_SHARD_HSDP_ZERO2) continue; /* rounded once in a group, once across */
            /* sent in bf16: added in fp32 all the same, and rounded once: 1 + 3 * 2^-9 to 1 + 2^-7 */
            options.shard.gradient_t = FW_BF16;
            FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
            FW_RANK_CHECK(pass(&lab, one_and_many_small, 0, true) == FW_OK);
            FW_RANK_CHECK(fw_shard_finish(lab.shard) == FW_OK);
            FW_RANK_CHECK(every_owned_is(c, &lab, 1.0078125f) == 0);
            fw_test_lab_close(&lab);
        }
    return 0;
}

/* A6: gradients are summed over micro-batches and ranks in fp32 while the model computes in bf16: 1 and 256 times 2^-9
 * is 1.5. In bf16 each of them would be lost. */
static void test_sums_in_fp32(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(4, sums_rank, NULL), 0);
}

/* ---- A7 */

/* Of any size between 2^-20 and 1, from rank 0 alone, so that it is the same in every world. */
static float spread(int rank, int64_t micro, int32_t unit, int64_t i) {
    (void)micro;
    uint64_t z = ((uint64_t)unit << 32 | (uint64_t)i) * 0x9e3779b97f4a7c15u;
    z ^= z >> 29;
    return rank > 0 ? 0 : ldexpf((float)(z & 0xffff) - 32768, -(int)(z >> 60) - 20);
}

static int norm_rank(fw_comm *c, void *context) {
    const double want = *(const double *)context;
    for (int s = 0; s < FW_SHARD_STRATEGY_N; s++) {
        fw_test_lab lab;
        fw_shard_options shard = {.strategy = (fw_shard_strategy)s, .sync_each = true, .prefetch = 1};
        shard.group_n = fw_comm_world(c) % 2 == 0 ? 2 : 1;
        fw_test_lab_options options = engine_options(c, FW_F32, shard);
        double squares, everywhere[FW_COMM_MAX_WORLD];
        FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
        FW_RANK_CHECK(pass(&lab, spread, 0, true) == FW_OK);
        FW_RANK_CHECK(fw_shard_finish(lab.shard) == FW_OK);
        FW_RANK_CHECK(fw_shard_gradient_squares(lab.shard, &squares) == FW_OK);
        if (fabs(squares - want) > 1e-13 * want)
            fprintf(stderr, "%s, %d ranks: %.17g, not %.17g\n", fw_shard_strategy_name(shard.strategy),
                    fw_comm_world(c), squares, want);
        FW_RANK_CHECK(fabs(squares - want) <= 1e-13 * want);
        FW_RANK_CHECK(fw_comm_exchange(c, everywhere, &squares, sizeof squares) == FW_OK);
        for (int r = 0; r < fw_comm_world(c); r++) FW_RANK_CHECK(everywhere[r] == squares);
        fw_test_lab_close(&lab);
    }
    return 0;
}

/* A7: one norm, whatever the number of shards and replicas, to the rounding of fp64; the tied head is in it once. */
static void test_norm(void **state) {
    (void)state;
    fw_test_lab lab;
    fw_test_lab_options options = engine_options(NULL, FW_F32, (fw_shard_options){0});
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    const fw_param_table *table = &lab.model.table;
    assert_null(fw_param_table_find(table, "lm_head.weight"));
    double want = 0;
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        for (int64_t i = 0; i < table->unit_size_n[unit]; i++) {
            double g = (double)spread(0, 0, unit, i);
            want += g * g;
        }
    fw_test_lab_close(&lab);
    static const int worlds[] = {1, 2, 3, 4, 8};
    for (size_t k = 0; k < sizeof worlds / sizeof *worlds; k++)
        assert_int_equal(fw_test_world(worlds[k], norm_rank, &want), 0);
}

/* ---- A5 */

static fw_status read_ones(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    (void)context;
    (void)unit;
    (void)first_n;
    for (int64_t i = 0; i < n; i++) out[i] = 1;
    return FW_OK;
}

static int learns_slowly(fw_comm *c, void *context) {
    (void)context;
    static const fw_shard_strategy strategies[] = {FW_SHARD_DDP, FW_SHARD_ZERO1, FW_SHARD_ZERO3};
    for (int k = 0; k < 3; k++) {
        fw_test_lab lab;
        fw_test_lab_options options =
            engine_options(c, FW_BF16, (fw_shard_options){.strategy = strategies[k], .sync_each = true});
        FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
        FW_RANK_CHECK(fw_shard_load(lab.shard, FW_SHARD_WEIGHT, read_ones, NULL) == FW_OK);
        for (int64_t step = 1; step <= 1000; step++) {
            for (int32_t unit = 0; unit < lab.model.table.unit_n; unit++) {
                fw_owned_range own;
                FW_RANK_CHECK(fw_shard_owned(lab.shard, unit, &own) == FW_OK);
                for (int64_t i = 0; i < own.n; i++) own.g[i] = 0.25f;
            }
            fw_adamw_options o = {.learning_rate = 1e-5f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .epsilon = 1e-8f,
                                  .grad_scale = 1,
                                  .step = step};
            FW_RANK_CHECK(fw_optimizer_update(lab.shard, &lab.model.table, lab.device, &o, &lab.step.optim) == FW_OK);
        }
        const void *w;
        FW_RANK_CHECK(fw_shard_begin(lab.shard, FW_SHARD_PASS_FORWARD, false) == FW_OK);
        FW_RANK_CHECK(fw_shard_acquire(lab.shard, 0, FW_SHARD_FORWARD, &w, NULL) == FW_OK);
        for (int64_t i = 0; i < lab.model.config.V * lab.model.config.C; i++)
            FW_RANK_CHECK(((const fw_bf16 *)w)[i] == fw_bf16_from_f32(0.990f));
        FW_RANK_CHECK(fw_shard_release(lab.shard, 0, FW_SHARD_FORWARD) == FW_OK);
        fw_owned_range own;
        FW_RANK_CHECK(fw_shard_owned(lab.shard, 1, &own) == FW_OK && own.n > 0);
        FW_RANK_CHECK(fabsf(own.w[0] - 0.990f) < 1e-4f);
        fw_test_lab_close(&lab);
    }
    return 0;
}

/* A5: 1000 steps of 1e-5 take a weight from 1 to 0.990, though in bf16 not one of them would show; the copy that
 * computes follows. */
static void test_small_steps_count(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(2, learns_slowly, NULL), 0);
}

/* ---- A8 */

static int tied_rank(fw_comm *c, void *context) {
    (void)context;
    fw_test_lab tied, untied;
    fw_test_lab_options options = {.variant = "qwen2_tied",
                                   .mode = FW_ACTIVATIONS_RECOMPUTE,
                                   .device = "ref",
                                   .micro = 2,
                                   .accumulation = 2,
                                   .comm = c,
                                   .shard = {.strategy = FW_SHARD_ZERO3, .sync_each = true, .poison = true}};
    fw_step_result result, untied_result;
    const float *g, *both;
    FW_RANK_CHECK(fw_test_lab_open(&tied, &options) == FW_OK);
    options.untie = true;
    FW_RANK_CHECK(fw_test_lab_open(&untied, &options) == FW_OK);
    FW_RANK_CHECK(fw_test_lab_gradient(&tied, 0, &result) == FW_OK);
    FW_RANK_CHECK(fw_test_lab_gradient(&untied, 0, &untied_result) == FW_OK);
    FW_RANK_CHECK(result.loss == untied_result.loss);
    FW_RANK_CHECK(fw_test_lab_state(&tied, FW_SHARD_EXP_AVG, &g) == FW_OK);
    FW_RANK_CHECK(fw_test_lab_state(&untied, FW_SHARD_EXP_AVG, &both) == FW_OK);
    if (g != NULL) {
        const fw_param_table *t = &untied.model.table;
        const fw_param *head = fw_param_table_find(t, "lm_head.weight");
        const fw_param *embedding = fw_param_table_find(t, "model.embed_tokens.weight");
        const fw_param *shared = fw_param_table_find(&tied.model.table, "model.embed_tokens.weight");
        FW_RANK_CHECK(head != NULL && fw_param_table_find(&tied.model.table, "lm_head.weight") == NULL);
        double error = 0, size = 0;
        for (int64_t i = 0; i < shared->n; i++) {
            double sum = (double)both[embedding->offset_n + i] + (double)both[head->offset_n + i];
            double d = (double)g[shared->offset_n + i] - sum;
            error += d * d;
            size += sum * sum;
        }
        FW_RANK_CHECK(error <= 1e-12 * size);
    }
    fw_test_lab_close(&tied);
    fw_test_lab_close(&untied);
    return 0;
}

/* A8: a tied head is one storage, its gradient the sum of both uses, on ranks that have a part of it each. */
static void test_tied(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(3, tied_rank, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unequal),    cmocka_unit_test(test_short_last_window),
                                       cmocka_unit_test(test_evaluation), cmocka_unit_test(test_sums_in_fp32),
                                       cmocka_unit_test(test_norm),       cmocka_unit_test(test_small_steps_count),
                                       cmocka_unit_test(test_tied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
