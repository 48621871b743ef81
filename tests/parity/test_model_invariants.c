/* What must not change the numbers: how a window is cut into micro-batches, packing, recomputing, chunks of logits,
 * neighbours in a batch; and what a tied head and the rotary tables must be. One rank; tests/world has the ranks. */
#include "base/alloc.h"
#include "model/rope_table.h"
#include "support/model_lab.h"
#include "support/tiny_model.h"
#include "train/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOSS_CAP = 1024 };

static const fw_test_lab_options usual = {.variant = "llama_tied",
                                          .device = "ref",
                                          .t = FW_F32,
                                          .mode = FW_ACTIVATIONS_RECOMPUTE,
                                          .micro = 4,
                                          .accumulation = 2};

/* Gradient of a window (heap, all units) and its loss. */
static float *gradient(const fw_test_lab_options *options, int64_t step_in_epoch, int64_t *n, fw_step_result *result) {
    fw_test_lab lab;
    float *copy;
    assert_int_equal(fw_test_lab_open(&lab, options), FW_OK);
    assert_int_equal(fw_test_lab_gradient(&lab, step_in_epoch, result), FW_OK);
    const float *g = fw_test_lab_gradient_of(&lab, NULL, n);
    assert_int_equal(FW_NEW_ARRAY(copy, (size_t)*n), FW_OK);
    memcpy(copy, g, (size_t)*n * sizeof *copy);
    fw_test_lab_close(&lab);
    return copy;
}

/* Two ways to compute the same window: losses and gradients agree within `bound` (0: bit for bit). */
static void expect_same(const fw_test_lab_options *a, const fw_test_lab_options *b, double bound) {
    int64_t n, n_b;
    fw_step_result result, result_b;
    float *g = gradient(a, 0, &n, &result), *g_b = gradient(b, 0, &n_b, &result_b);
    assert_int_equal(n, n_b);
    assert_int_equal(result.target_n, result_b.target_n);
    assert_int_equal(result.token_n, result_b.token_n);
    if (bound == 0) {
        assert_memory_equal(g, g_b, (size_t)n * sizeof *g);
        assert_true(result.loss == result_b.loss && result.grad_norm == result_b.grad_norm);
    } else {
        assert_true(fw_test_relative_l2(g, g_b, n) <= bound);
        assert_true(fabs(result.loss - result_b.loss) <= bound * result.loss);
        assert_true(fabs(result.grad_norm - result_b.grad_norm) <= bound * result.grad_norm);
    }
    fw_free(g);
    fw_free(g_b);
}

/* The documents of the window have 4 to 17 targets each, so a mean of means would be far off. */
static void test_accumulation(void **state) {
    (void)state;
    static const int64_t split[][2] = {{8, 1}, {2, 4}, {1, 8}};
    for (size_t i = 0; i < 3; i++) {
        fw_test_lab_options other = usual;
        other.micro = split[i][0];
        other.accumulation = split[i][1];
        expect_same(&other, &usual, 1e-5);
    }
}

/* The loss of a window by hand: every document alone, the sum of all targets over their number. */
static void test_loss_is_mean_of_tokens(void **state) {
    (void)state;
    float loss[LOSS_CAP];
    double sum = 0, mean_of_means = 0;
    int64_t n, target_n = 0;
    fw_test_lab lab;
    fw_test_lab_options alone = usual;
    alone.micro = 1;
    alone.accumulation = 8;
    assert_int_equal(fw_test_lab_open(&lab, &alone), FW_OK);
    for (int64_t micro = 0; micro < 8; micro++) {
        double mine = 0;
        assert_int_equal(fw_test_lab_losses(&lab, 0, micro, loss, LOSS_CAP, &n), FW_OK);
        for (int64_t i = 0; i < n; i++) mine += (double)loss[i];
        sum += mine;
        target_n += n;
        mean_of_means += mine / (double)n / 8;
    }
    fw_step_result result;
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &result), FW_OK);
    assert_int_equal(result.target_n, target_n);
    assert_true(fabs(result.loss - sum / (double)target_n) <= 1e-6 * result.loss);
    assert_true(fabs(result.loss - mean_of_means) > 1e-3 * result.loss); /* the data can tell the two apart */
    fw_test_lab_close(&lab);
}

/* Seven documents at micro 1 and accumulation 4 are two steps; the second has three micro-batches, its own divisor,
 * and nothing of the first in it. */
static void test_short_last_window(void **state) {
    (void)state;
    fw_test_lab lab;
    fw_test_lab_options seven = usual, tail = usual;
    seven.micro = 1;
    seven.accumulation = 4;
    seven.sample_n = 7;
    tail.micro = 3;
    tail.accumulation = 1;
    tail.sample_first = 4;
    tail.sample_n = 3;
    fw_step_result result, expected_result;
    int64_t n, expected_n;
    float *expected = gradient(&tail, 0, &expected_n, &expected_result);
    assert_int_equal(fw_test_lab_open(&lab, &seven), FW_OK);
    assert_int_equal(fw_batcher_steps_per_epoch(lab.batcher), 2);
    assert_int_equal(fw_batcher_micro_steps(lab.batcher, 1), 3);
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &result), FW_OK);
    assert_int_equal(fw_test_lab_gradient(&lab, 1, &result), FW_OK); /* beta1 = 0: nothing of step 0 in the moment */
    const float *g = fw_test_lab_gradient_of(&lab, NULL, &n);
    assert_int_equal(n, expected_n);
    assert_int_equal(result.target_n, expected_result.target_n);
    assert_true(fw_test_relative_l2(g, expected, n) <= 1e-5);
    fw_free(expected);
    fw_test_lab_close(&lab);
}

/* Each kind of activation memory, on each device and in each type, gives the same bits. */
static void test_recompute(void **state) {
    (void)state;
    static const char *const variants[] = {"llama_bias", "qwen3_untied"};
    for (int i = 0; i < 8; i++) {
        fw_test_lab_options keep = usual, recompute = usual;
        keep.variant = recompute.variant = variants[i & 1];
        keep.device = recompute.device = i & 2 ? "cpu" : "ref";
        keep.t = recompute.t = i & 4 ? FW_BF16 : FW_F32;
        keep.mode = FW_ACTIVATIONS_KEEP;
        expect_same(&keep, &recompute, 0);
        recompute.mode = FW_ACTIVATIONS_SELECTIVE;
        expect_same(&keep, &recompute, 0);
        recompute.recompute_every = 2;
        expect_same(&keep, &recompute, 0);
        recompute.mode = FW_ACTIVATIONS_RECOMPUTE;
        expect_same(&keep, &recompute, 0);
    }
}

/* The number of threads divides the work, not the sums: a machine with more cores gives the same bits. */
static void test_threads(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        fw_test_lab_options one = usual, three = usual;
        one.variant = three.variant = i & 1 ? "llama_tied" : "qwen3_untied";
        one.device = three.device = "cpu";
        one.t = three.t = i & 2 ? FW_BF16 : FW_F32;
        three.thread_n = 3;
        expect_same(&three, &one, 0);
    }
}

static void test_chunks(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        fw_test_lab_options whole = usual, chunked = usual;
        whole.variant = chunked.variant = i & 1 ? "qwen2_untied" : "llama_tied";
        whole.device = chunked.device = i & 2 ? "cpu" : "ref";
        chunked.chunk_n = i & 2 ? 1 : 5; /* 5 leaves a short last chunk */
        expect_same(&chunked, &whole, 1e-5);
    }
}

/* Losses of the documents of window 0, behind each other, from micro-batches of `micro` documents. */
static int64_t losses_of_window(float *loss, const fw_test_lab_options *base, int64_t micro) {
    fw_test_lab lab;
    fw_test_lab_options options = *base;
    options.micro = micro;
    options.accumulation = 8 / micro;
    int64_t at = 0, n;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    for (int64_t m = 0; m < options.accumulation; m++, at += n)
        assert_int_equal(fw_test_lab_losses(&lab, 0, m, loss + at, LOSS_CAP - at, &n), FW_OK);
    fw_test_lab_close(&lab);
    return at;
}

/* Documents in one flat batch do not see each other: every target's loss is what it is when its document is alone. */
static void test_documents_are_separate(void **state) {
    (void)state;
    for (int v = 0; fw_test_model_variants[v]; v++) {
        for (int d = 0; d < 2; d++) {
            fw_test_lab_options options = usual;
            options.variant = fw_test_model_variants[v];
            options.device = d ? "cpu" : "ref";
            float alone[LOSS_CAP], together[LOSS_CAP];
            int64_t n = losses_of_window(alone, &options, 1);
            assert_int_equal(losses_of_window(together, &options, 8), n);
            for (int64_t i = 0; i < n; i++) assert_true(fabsf(alone[i] - together[i]) <= 1e-5f * fabsf(alone[i]));
        }
    }
}

/* A neighbour's tokens change nothing, not one bit. */
static void test_neighbour_changes_nothing(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        fw_test_lab lab;
        fw_test_lab_options options = usual;
        options.device = d ? "cpu" : "ref";
        float before[LOSS_CAP], after[LOSS_CAP];
        int64_t n, n_after;
        assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
        assert_int_equal(fw_test_lab_losses(&lab, 0, 0, before, LOSS_CAP, &n), FW_OK);
        int64_t changed_n =
            lab.dataset->sample[1].target_n; /* targets of the document that changes: the second of four */
        int64_t skip_n = lab.dataset->sample[0].target_n;
        for (int64_t i = lab.dataset->sample[1].first; i < lab.dataset->sample[2].first; i++)
            lab.dataset->id[i] = (lab.dataset->id[i] + 1) % (int32_t)lab.model.config.V;
        assert_int_equal(fw_test_lab_losses(&lab, 0, 0, after, LOSS_CAP, &n_after), FW_OK);
        assert_int_equal(n, n_after);
        assert_memory_equal(before, after, (size_t)skip_n * sizeof *before);
        assert_true(memcmp(before + skip_n, after + skip_n, (size_t)changed_n * sizeof *before) != 0);
        assert_memory_equal(before + skip_n + changed_n, after + skip_n + changed_n,
                            (size_t)(n - skip_n - changed_n) * sizeof *before);
        fw_test_lab_close(&lab);
    }
}

/* Packed bins of all sixteen documents against the same documents unpacked: the epoch's loss and gradient. */
static void test_packing(void **state) {
    (void)state;
    fw_test_lab_options flat = usual, packed = usual;
    flat.micro = 16;
    flat.accumulation = 1;
    packed.pack_length = 48;
    packed.micro = 1;
    packed.accumulation = 16; /* as many bins as there may be: one window */
    expect_same(&packed, &flat, 1e-5);
}

/* A tied weight's gradient is the sum of both uses: that of the same model with a head of its own and equal values. */
static void test_tied_gradient_sums_both_uses(void **state) {
    (void)state;
    static const char *const variants[] = {"llama_tied", "qwen2_tied", "qwen3_tied", "llama_bias"};
    for (int v = 0; v < 4; v++) {
        fw_test_lab tied, untied;
        fw_test_lab_options options = usual;
        options.variant = variants[v];
        assert_int_equal(fw_test_lab_open(&tied, &options), FW_OK);
        options.untie = true;
        assert_int_equal(fw_test_lab_open(&untied, &options), FW_OK);
        fw_step_result result, untied_result;
        assert_int_equal(fw_test_lab_gradient(&tied, 0, &result), FW_OK);
        assert_int_equal(fw_test_lab_gradient(&untied, 0, &untied_result), FW_OK);
        assert_true(result.loss == untied_result.loss);

        int64_t n, n_embedding, n_head;
        const float *g = fw_test_lab_gradient_of(&tied, "model.embed_tokens.weight", &n);
        const float *embedding = fw_test_lab_gradient_of(&untied, "model.embed_tokens.weight", &n_embedding);
        const float *head = fw_test_lab_gradient_of(&untied, "lm_head.weight", &n_head);
        assert_null(fw_test_lab_gradient_of(&tied, "lm_head.weight", &n_head));
        assert_int_equal(n, n_embedding);
        double error = 0, size = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            double sum = (double)embedding[i] + (double)head[i], d = (double)g[i] - sum;
            error += d * d;
            size += sum * sum;
        }
        assert_true(error <= 1e-12 * size);
        /* counted once in the norm and among the parameters */
        const float *all = fw_test_lab_gradient_of(&tied, NULL, &n);
        for (int64_t i = 0; i < n; i++) squares += (double)all[i] * (double)all[i];
        assert_true(fabs(result.grad_norm - sqrt(squares)) <= 1e-6 * result.grad_norm);
        assert_int_equal(untied.model.table.parameter_n - tied.model.table.parameter_n,
                         tied.model.config.V * tied.model.config.C);
        fw_test_lab_close(&tied);
        fw_test_lab_close(&untied);
    }
}

/* Tables are exact far out, where angles in less than fp32 are off by whole radians. */
static void test_rope_tables(void **state) {
    (void)state;
    static const fw_rope_config ropes[] = {
        {.kind = FW_ROPE_DEFAULT, .theta = 10000, .factor = 1},
        {.kind = FW_ROPE_DEFAULT, .theta = 1e6, .factor = 1},
        {.kind = FW_ROPE_LINEAR, .theta = 10000, .factor = 4},
        {FW_ROPE_LLAMA3, 500000, 32, 1, 4, 8192},
    };
    enum { P = 4100, D = 64 };
    float *cosine, *sine;
    assert_int_equal(FW_NEW_ARRAY(cosine, P * D / 2), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(sine, P * D / 2), FW_OK);
    for (int r = 0; r < 4; r++) {
        fw_rope_table_fill(cosine, sine, &ropes[r], P, D);
        static const int64_t positions[] = {0, 1, 257, 4097};
        for (int p = 0; p < 4; p++) {
            for (int64_t e = 0; e < D / 2; e++) {
                double f = pow(ropes[r].theta, -2.0 * (double)e / D);
                if (ropes[r].kind == FW_ROPE_LINEAR) f /= ropes[r].factor;
                if (ropes[r].kind == FW_ROPE_LLAMA3) {
                    double turns = 8192 * f / (2 * acos(-1)); /* of this pair within the original context */
                    double blend = fmin(1, fmax(0, (turns - 1) / (4 - 1)));
                    f = blend * f + (1 - blend) * f / 32;
                }
                double angle = (double)positions[p] * f;
                assert_true(fabs((double)cosine[positions[p] * D / 2 + e] - cos(angle)) <= 1e-6);
                assert_true(fabs((double)sine[positions[p] * D / 2 + e] - sin(angle)) <= 1e-6);
            }
        }
    }
    fw_free(cosine);
    fw_free(sine);
}

/* Evaluation counts each target once and gives the same number whatever the batch: to the last bit, but for products of
 * very few rows, which the cpu device sums in another order. */
static void test_evaluation(void **state) {
    (void)state;
    static const int64_t micros[] = {1, 3, 16};
    for (int kind = 0; kind < 4; kind++) {
        fw_loss_sum first = {0};
        for (int i = 0; i < 3; i++) {
            fw_test_lab lab;
            fw_test_lab_options options = usual;
            options.device = kind & 1 ? "cpu" : "ref";
            options.t = kind & 2 ? FW_BF16 : FW_F32;
            options.mode = FW_ACTIVATIONS_FORWARD;
            options.micro = micros[i];
            options.accumulation = 1;
            assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
            fw_loss_sum sum;
            assert_int_equal(fw_step_evaluate(&lab.step, lab.batcher, &sum), FW_OK);
            assert_int_equal(sum.target_n, lab.dataset->stats.target_n);
            if (i == 0) first = sum;
            assert_true(fabs(fw_loss_mean(&sum) - fw_loss_mean(&first)) <= 1e-8 * fw_loss_mean(&first));
            fw_test_lab_close(&lab);
        }
    }
}

/* Clipping scales the whole gradient by one factor, from the norm over everything. */
static void test_clipping(void **state) {
    (void)state;
    fw_test_lab lab;
    fw_step_result result;
    int64_t n;
    float *plain = gradient(&usual, 0, &n, &result);
    assert_int_equal(fw_test_lab_open(&lab, &usual), FW_OK);
    lab.step.max_grad_norm = result.grad_norm / 4;
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &result), FW_OK);
    const float *clipped = fw_test_lab_gradient_of(&lab, NULL, &n);
    for (int64_t i = 0; i < n; i++) assert_true(fabsf(clipped[i] - plain[i] / 4) <= 1e-5f * fabsf(plain[i]));
    assert_true(fabs(result.grad_norm - 4 * lab.step.max_grad_norm) <= 1e-12); /* reported as it was before */
    lab.step.max_grad_norm = result.grad_norm * 1.001;                         /* not above: nothing is touched */
    assert_int_equal(fw_test_lab_gradient(&lab, 0, &result), FW_OK);
    assert_memory_equal(fw_test_lab_gradient_of(&lab, NULL, &n), plain, (size_t)n * sizeof *plain);
    fw_free(plain);
    fw_test_lab_close(&lab);
}

/* After the warm-up the linear schedule is that of transformers (learning_rate in the reference file). */
static void test_schedule(void **state) {
    (void)state;
    fw_test_lab lab;
    assert_int_equal(fw_test_lab_open(&lab, &usual), FW_OK);
    const float *rates = fw_test_lab_reference(&lab, "learning_rate", NULL);
    fw_schedule schedule = {.kind = FW_LR_LINEAR, .peak = 3e-3, .warmup_n = 4, .total_n = 20};
    for (int64_t step = 5; step <= 20; step++)
        assert_true(fabs(fw_schedule_rate(&schedule, step) - (double)rates[step - 1]) <= 1e-6 * 3e-3);
    assert_true(fw_schedule_rate(&schedule, 4) == 3e-3);
    assert_true(fw_schedule_rate(&schedule, 1) > 0);
    fw_test_lab_close(&lab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_loss_is_mean_of_tokens),
        cmocka_unit_test(test_short_last_window),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_documents_are_separate),
        cmocka_unit_test(test_neighbour_changes_nothing),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_tied_gradient_sums_both_uses),
        cmocka_unit_test(test_rope_tables),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
