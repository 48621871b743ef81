/* data: grouping by length, sequential packing, truncation. Datasets are made from tokens. */
#include "base/rng.h"
#include "data/batcher.h"
#include "data/packing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { N = 700 };

static fw_dataset *make(int64_t n, int64_t spread) {
    fw_dataset *d;
    const fw_dataset_options options = {0};
    assert_int_equal(fw_dataset_create(&d, "made up", &options), FW_OK);
    for (int64_t s = 0; s < n; s++) {
        int32_t id[512] = {0};
        uint8_t trained[512];
        const int64_t length = 2 + (int64_t)(fw_rng_bits(5, 2, (uint64_t)s) % (uint64_t)spread);
        memset(trained, 1, sizeof trained);
        for (int64_t i = 0; i < length; i++) id[i] = (int32_t)(s * 512 + i);
        assert_int_equal(fw_dataset_add(d, id, trained, length, 1, s + 1), FW_OK);
    }
    assert_int_equal(fw_dataset_finish(d), FW_OK);
    return d;
}

/* The samples of an epoch in the order in which they are learnt, over all ranks; step_n[i]: of step i. */
static void epoch_order(int64_t *order, const fw_dataset *d, int64_t micro, int64_t accumulation, int64_t world,
                        int group, int64_t epoch) {
    const fw_batcher_options options = {.micro = micro,
                                        .accumulation = accumulation,
                                        .world = world,
                                        .shuffle = 1,
                                        .group_by_length = group,
                                        .data_seed = 11};
    fw_batcher *b;
    int64_t got_n = 0;
    assert_int_equal(fw_batcher_create(&b, d, &options), FW_OK);
    for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++)
        for (int64_t a = 0; a < fw_batcher_micro_steps(b, step); a++)
            for (int64_t r = 0; r < world; r++) {
                int64_t n;
                assert_int_equal(fw_batcher_samples(b, epoch, step, a, r, order + got_n, d->sample_n - got_n, &n),
                                 FW_OK);
                got_n += n;
            }
    assert_int_equal(got_n, d->sample_n);
    fw_batcher_destroy(b);
}

static int64_t spread_of(const fw_dataset *d, const int64_t *order, int64_t batch) {
    int64_t sum = 0;
    for (int64_t at = 0; at + batch <= d->sample_n; at += batch) {
        int64_t least = INT64_MAX, most = 0;
        for (int64_t i = at; i < at + batch; i++) {
            const int64_t n = d->sample[order[i]].n;
            if (n < least) least = n;
            if (n > most) most = n;
        }
        sum += most - least;
    }
    return sum;
}

/* Every sample once, the same for every world size at one global batch, another order in every epoch, and steps whose
 * conversations are of much the same length. */
static void test_group_by_length(void **state) {
    (void)state;
    fw_dataset *d = make(N, 500);
    static int64_t one[N], other[N], plain[N];
    epoch_order(one, d, 2, 4, 1, 1, 0);
    epoch_order(other, d, 2, 1, 4, 1, 0);
    assert_memory_equal(one, other, sizeof one);
    epoch_order(other, d, 4, 1, 2, 1, 0);
    assert_memory_equal(one, other, sizeof one);
    epoch_order(other, d, 2, 4, 1, 1, 1);
    assert_memory_not_equal(one, other, sizeof one);
    char seen[N] = {0};
    for (int i = 0; i < N; i++) seen[one[i]]++;
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    epoch_order(plain, d, 2, 4, 1, 0, 0);
    assert_true(spread_of(d, one, 8) * 5 < spread_of(d, plain, 8));
    /* steps are not sorted themselves: the mean of the first ten is not that of the longest */
    int64_t first = 0, all = 0;
    for (int i = 0; i < N; i++) {
        all += d->sample[one[i]].n;
        if (i < 80) first += d->sample[one[i]].n;
    }
    assert_in_range(first * N / 80, all * 6 / 10, all * 14 / 10);
    /* fewer samples than a step */
    fw_dataset *few = make(3, 10);
    epoch_order(one, few, 4, 4, 1, 1, 0);
    fw_dataset_destroy(few);
    fw_dataset_destroy(d);
}

/* Neighbours stay together, in file order; no bin is too full; none could have taken the next. */
static void test_sequential(void **state) {
    (void)state;
    enum { BIN = 300 };
    fw_dataset *d = make(N, 200);
    static int64_t bin[N], best[N];
    int64_t bin_n, best_n, load = 0;
    assert_int_equal(fw_packing_assign(bin, &bin_n, d, BIN, FW_PACKING_SEQUENTIAL), FW_OK);
    for (int64_t s = 0; s < N; s++) {
        const int64_t n = d->sample[s].n, before = s > 0 ? bin[s - 1] : -1;
        assert_true(bin[s] == before || bin[s] == before + 1);
        if (bin[s] == before) {
            load += n;
            assert_true(load <= BIN);
        } else {
            assert_true(s == 0 || load + n > BIN);
            load = n;
        }
    }
    assert_int_equal(bin_n, bin[N - 1] + 1);
    assert_int_equal(fw_packing_assign(best, &best_n, d, BIN, FW_PACKING_BFD), FW_OK);
    assert_true(best_n < bin_n);
    fw_dataset_destroy(d);
}

static void truncate_one(const fw_dataset_options *options, fw_dataset **d) {
    const int32_t id[] = {10, 11, 12, 13, 14, 15};
    const uint8_t trained[] = {0, 1, 0, 0, 0, 1}, start[] = {0, 1, 0, 0, 0, 0};
    assert_int_equal(fw_dataset_create(d, "made up", options), FW_OK);
    assert_int_equal(fw_dataset_add(*d, id, trained, 6, 1, 1), FW_OK);
    assert_int_equal(fw_dataset_add(*d, id, trained, 4, 1, 2), FW_OK);
    assert_int_equal(fw_dataset_add(*d, id, start, 6, 1, 3), FW_OK);
    assert_int_equal(fw_dataset_finish(*d), FW_OK);
}

/* A13: the start, the end, or nothing of what is too long; what has no target left is counted. */
static void test_truncation(void **state) {
    (void)state;
    fw_dataset *d;
    truncate_one(&(fw_dataset_options){.max_length = 4}, &d);
    assert_int_equal(d->sample_n, 3);
    assert_int_equal(d->id[0], 10);
    assert_int_equal(d->sample[0].target_n, 1);
    assert_int_equal(d->stats.truncated_n, 2);
    assert_int_equal(d->stats.truncated_token_n, 4);
    fw_dataset_destroy(d);
    truncate_one(&(fw_dataset_options){.max_length = 4, .truncation = FW_TRUNCATE_KEEP_END}, &d);
    assert_int_equal(d->sample_n, 2);
    assert_int_equal(d->id[0], 12);
    assert_int_equal(d->id[3], 15);
    assert_int_equal(d->sample[0].target_n, 1);
    assert_int_equal(d->stats.drop_n[FW_DROP_TRUNCATED], 1);
    assert_int_equal(d->dropped[0].line, 3);
    assert_non_null(strstr(d->dropped[0].message, "6 tokens, max_length is 4"));
    fw_dataset_destroy(d);
    truncate_one(&(fw_dataset_options){.max_length = 4, .truncation = FW_TRUNCATE_DROP}, &d);
    assert_int_equal(d->sample_n, 1);
    assert_int_equal(d->sample[0].line, 2);
    assert_int_equal(d->stats.drop_n[FW_DROP_TOO_LONG], 2);
    assert_int_equal(d->stats.truncated_n, 0);
    fw_dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_group_by_length), cmocka_unit_test(test_sequential),
                                       cmocka_unit_test(test_truncation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
