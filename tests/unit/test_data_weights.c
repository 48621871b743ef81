/* data: weights of targets, from tokens to batches. */
#include "base/alloc.h"
#include "data/batcher.h"
#include "data/selection.h"
#include "data/weight_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

enum { ONE = FW_LOSS_WEIGHT_ONE, HALF = ONE / 2, TWO = 2 * ONE };

static fw_dataset *create(fw_dataset_options options) {
    fw_dataset *d;
    options.allow_empty = 1; /* the rows of the source are not counted here */
    assert_int_equal(fw_dataset_create(&d, "made up", &options), FW_OK);
    assert_int_equal(fw_dataset_add_source(d, "made up", FW_FORMAT_JSONL, FW_SHAPE_MESSAGES, 0), FW_OK);
    return d;
}

/* Eight tokens; `first_id` tells one conversation from another. */
static void add(fw_dataset *d, int32_t first_id, const uint8_t *trained, const fw_loss_weight *weight) {
    int32_t id[8];
    for (int32_t i = 0; i < 8; i++) id[i] = first_id + i;
    assert_int_equal(fw_dataset_add_weighted(d, id, trained, weight, 8, 1, 1), FW_OK);
}

static void expect_run(const fw_dataset *d, int64_t k, int64_t first, int32_t n, fw_loss_weight weight) {
    assert_true(k < d->run_n);
    assert_int_equal(d->run[k].first, first);
    assert_int_equal(d->run[k].n, n);
    assert_int_equal(d->run[k].weight, weight);
}

static const uint8_t marks[8] = {1, 1, 0, 1, 1, 1, 1, 1};
static const fw_loss_weight ones[8] = {ONE, ONE, ONE, ONE, ONE, ONE, ONE, ONE},
                            mixed[8] = {HALF, HALF, TWO, HALF, HALF, ONE, TWO, TWO};

/* Runs hold targets only, the first token of a sample is none; they end where the weight changes, and with the sample. */
static void test_runs(void **state) {
    (void)state;
    fw_dataset *d = create((fw_dataset_options){0});
    add(d, 0, marks, mixed);
    add(d, 10, marks, ones);
    add(d, 20, marks, mixed);
    assert_int_equal(fw_dataset_finish(d), FW_OK);
    assert_int_equal(d->run_n, 6);
    expect_run(d, 0, 1, 1, HALF);
    expect_run(d, 1, 3, 2, HALF);
    expect_run(d, 2, 6, 2, TWO);
    expect_run(d, 3, 17, 1, HALF);
    assert_int_equal(d->stats.target_n, 18);
    assert_int_equal(fw_weight_runs_sum(d, &d->sample[0]), 3 * HALF + ONE + 2 * TWO);
    assert_int_equal(fw_weight_runs_sum(d, &d->sample[1]), 6 * ONE);
    assert_int_equal(d->stats.weight, 2 * (3 * HALF + ONE + 2 * TWO) + 6 * ONE);
    assert_true(fw_weight_runs_are_sound(d));
    fw_dataset_destroy(d);
}

/* Weights of one are no weights: the same hash as without, and nothing is kept. Others change the hash. */
static void test_ones(void **state) {
    (void)state;
    uint64_t hash[3];
    const fw_loss_weight *const weight[3] = {NULL, ones, mixed};
    for (int i = 0; i < 3; i++) {
        fw_dataset *d = create((fw_dataset_options){0});
        add(d, 0, marks, weight[i]);
        assert_int_equal(fw_dataset_finish(d), FW_OK);
        assert_int_equal(d->run_n > 0, i == 2);
        hash[i] = d->hash;
        fw_dataset_destroy(d);
    }
    assert_true(hash[0] == hash[1]);
    assert_true(hash[0] != hash[2]);
}

/* What is cut off takes its weights with it. */
static void test_truncation(void **state) {
    (void)state;
    fw_dataset *d = create((fw_dataset_options){.max_length = 4});
    add(d, 0, marks, mixed);
    assert_int_equal(d->run_n, 2);
    expect_run(d, 1, 3, 1, HALF);
    assert_int_equal(d->stats.weight, 2 * HALF);
    fw_dataset_destroy(d);
    d = create((fw_dataset_options){.max_length = 4, .truncation = FW_TRUNCATE_KEEP_END});
    add(d, 0, marks, mixed); /* the first token that is kept is a target no longer */
    assert_int_equal(d->run_n, 1);
    expect_run(d, 0, 2, 2, TWO);
    assert_int_equal(d->stats.weight, ONE + 2 * TWO);
    fw_dataset_destroy(d);
}

/* Parts of a file joined, and selections of the whole. */
static void test_join_and_select(void **state) {
    (void)state;
    fw_dataset *whole = create((fw_dataset_options){0}), *train, *val, *weighed;
    for (int32_t part = 0; part < 5; part++) {
        fw_dataset *d = create((fw_dataset_options){0});
        add(d, 20 * part, marks, part % 2 ? mixed : ones);
        add(d, 20 * part + 10, marks, mixed);
        assert_int_equal(fw_dataset_join(whole, d), FW_OK);
        fw_dataset_destroy(d);
    }
    assert_int_equal(fw_dataset_finish(whole), FW_OK);
    assert_true(fw_weight_runs_are_sound(whole));
    const int64_t all = whole->stats.weight, of_mixed = 3 * HALF + ONE + 2 * TWO;
    assert_int_equal(whole->run_n, 7 * 3);
    assert_int_equal(all, 7 * of_mixed + 3 * 6 * ONE);
    for (int64_t s = 0; s < whole->sample_n; s++)
        assert_int_equal(fw_weight_runs_sum(whole, &whole->sample[s]), s % 2 || s % 4 == 2 ? of_mixed : 6 * ONE);
    assert_int_equal(fw_dataset_split(&train, &val, whole, 3, 7), FW_OK);
    assert_int_equal(train->stats.weight + val->stats.weight, all);
    fw_dataset_destroy(val);
    const double twice = 2;
    const int64_t weight = train->stats.weight;
    assert_int_equal(fw_dataset_weigh(&weighed, train, &twice, 1, 7), FW_OK);
    assert_int_equal(weighed->stats.weight, 2 * weight);
    fw_dataset_destroy(weighed);
}

static fw_batcher *make_batcher(const fw_dataset *d, int64_t micro, int64_t accumulation, int64_t world) {
    const fw_batcher_options options = {.micro = micro, .accumulation = accumulation, .world = world};
    fw_batcher *b;
    assert_int_equal(fw_batcher_create(&b, d, &options), FW_OK);
    return b;
}

/* A row has the weight of the token that it predicts; the divisor is the same for every world size. */
static void test_batches(void **state) {
    (void)state;
    fw_dataset *d = create((fw_dataset_options){0});
    add(d, 0, marks, ones);
    add(d, 10, marks, mixed);
    add(d, 20, marks, ones);
    add(d, 30, marks, mixed);
    assert_int_equal(fw_dataset_finish(d), FW_OK);
    fw_batch batch;
    assert_int_equal(fw_batch_init(&batch, 16), FW_OK);
    fw_batcher *b = make_batcher(d, 2, 1, 1);
    assert_int_equal(fw_batcher_fill(b, 0, 0, 0, 0, &batch), FW_OK);
    assert_true(batch.is_weighted);
    const fw_loss_weight expected[16] = {ONE,  ONE, ONE,  ONE,  ONE, ONE, ONE, ONE,
                                         HALF, ONE, HALF, HALF, ONE, TWO, TWO, ONE};
    for (int i = 0; i < 16; i++)
        if (batch.target_N[i] >= 0) assert_int_equal(batch.weight_N[i], expected[i]);
    fw_batcher_destroy(b);
    b = make_batcher(d, 1, 1, 1);
    assert_int_equal(fw_batcher_fill(b, 0, 1, 0, 0, &batch), FW_OK);
    assert_true(batch.is_weighted);
    assert_int_equal(fw_batcher_fill(b, 0, 2, 0, 0, &batch), FW_OK);
    assert_false(batch.is_weighted);
    assert_int_equal(fw_batcher_window_weight(b, 0, 1), 3 * HALF + ONE + 2 * TWO);
    assert_int_equal(fw_batcher_window_weight(b, 0, 2), 6 * ONE);
    fw_batcher_destroy(b);
    for (int64_t world = 1; world <= 4; world *= 2) {
        b = make_batcher(d, 1, 4 / world, world);
        assert_int_equal(fw_batcher_window_weight(b, 0, 0), d->stats.weight);
        assert_int_equal(fw_batcher_window_targets(b, 0, 0), 24);
        fw_batcher_destroy(b);
    }
    fw_batch_fini(&batch);
    fw_dataset_destroy(d);
}

/* What a file of the cache could say. */
static void test_unsound(void **state) {
    (void)state;
    static const fw_weight_run bad[] = {
        {0, 2, HALF}, /* the first token of a sample */
        {1, 0, HALF}, /* no token */
        {1, -1, HALF},
        {1, 8, HALF}, /* of two samples */
        {1, 2, 0},
        {1, 2, -5},
        {1, 2, INT32_MAX}, /* no weight */
        {-1, 2, HALF},
        {16, 1, HALF}, /* of none */
        {1, 7, HALF},  /* more than there are targets */
        {INT64_MAX, 1, HALF},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fw_dataset *d = create((fw_dataset_options){0});
        add(d, 0, marks, mixed);
        add(d, 10, marks, mixed);
        d->run[0] = bad[i];
        d->run_n = 1;
        assert_false(fw_weight_runs_are_sound(d));
        fw_dataset_destroy(d);
    }
    fw_dataset *d = create((fw_dataset_options){0});
    add(d, 0, marks, mixed);
    d->run[0] = d->run[1]; /* twice the same */
    assert_false(fw_weight_runs_are_sound(d));
    fw_dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs),       cmocka_unit_test(test_ones),
                                       cmocka_unit_test(test_truncation), cmocka_unit_test(test_join_and_select),
                                       cmocka_unit_test(test_batches),    cmocka_unit_test(test_unsound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
