/* data: order, windows, packing and batches. Datasets are made from tokens; no tokenizer takes part. */
#include "base/alloc.h"
#include "base/rng.h"
#include "data/batcher.h"
#include "data/packing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* A sample of n tokens, the last target_n of which are trained. Ids tell sample and place apart. */
static void add_sample(fw_dataset *d, int64_t n, int64_t target_n) {
    int32_t *id = calloc((size_t)n, sizeof *id);
    uint8_t *trained = calloc((size_t)n, 1);
    assert_true(id != NULL && trained != NULL);
    for (int64_t i = 0; i < n; i++) {
        id[i] = (int32_t)(d->sample_n * 1000 + i);
        trained[i] = i >= n - target_n;
    }
    assert_int_equal(fw_dataset_add(d, id, trained, n, 1, 1), FW_OK);
    free(id);
    free(trained);
}

static fw_dataset *make_dataset(const int64_t *length, const int64_t *target, int64_t n) {
    fw_dataset *d;
    const fw_dataset_options options = {0};
    assert_int_equal(fw_dataset_create(&d, "made up", &options), FW_OK);
    for (int64_t i = 0; i < n; i++) add_sample(d, length[i], target ? target[i] : length[i] - 1);
    assert_int_equal(fw_dataset_finish(d), FW_OK);
    return d;
}

/* n samples of 2..61 tokens. */
static fw_dataset *make_random_dataset(int64_t n) {
    int64_t *length = calloc((size_t)n, sizeof *length);
    assert_non_null(length);
    for (int64_t i = 0; i < n; i++) length[i] = 2 + (int64_t)(fw_rng_bits(7, 1, (uint64_t)i) % 60);
    fw_dataset *d = make_dataset(length, NULL, n);
    free(length);
    return d;
}

static fw_batcher *make_batcher(const fw_dataset *d, int64_t micro, int64_t accumulation, int64_t world, int shuffle) {
    const fw_batcher_options options = {
        .micro = micro, .accumulation = accumulation, .world = world, .shuffle = shuffle, .data_seed = 42};
    fw_batcher *b;
    assert_int_equal(fw_batcher_create(&b, d, &options), FW_OK);
    return b;
}

/* A1, A2: the divisor is the targets of all ranks and micro-steps, whoever has them. */
static void test_divisor(void **state) {
    (void)state;
    const int64_t length[] = {9, 4, 12, 6}, target[] = {5, 1, 8, 2};
    fw_dataset *d = make_dataset(length, target, 4);
    for (int64_t world = 1; world <= 4; world *= 2)
        for (int64_t accumulation = 1; accumulation * world <= 4; accumulation *= 2) {
            fw_batcher *b = make_batcher(d, 4 / world / accumulation, accumulation, world, 1);
            fw_batch batch;
            assert_int_equal(fw_batch_init(&batch, fw_batcher_max_tokens(b)), FW_OK);
            assert_int_equal(fw_batcher_steps_per_epoch(b), 1);
            assert_int_equal(fw_batcher_window_targets(b, 0, 0), 16);
            assert_int_equal(fw_batcher_window_tokens(b, 0, 0), 31);
            int64_t sum = 0;
            for (int64_t r = 0; r < world; r++)
                for (int64_t a = 0; a < accumulation; a++) {
                    assert_int_equal(fw_batcher_fill(b, 0, 0, a, r, &batch), FW_OK);
                    int64_t counted = 0;
                    for (int64_t i = 0; i < batch.n; i++) counted += batch.target_N[i] >= 0;
                    assert_int_equal(counted, batch.target_n);
                    sum += counted;
                }
            assert_int_equal(sum, 16);
            fw_batch_fini(&batch);
            fw_batcher_destroy(b);
        }
    fw_dataset_destroy(d);
}

/* A3: the tail is a step of its own, with its own micro-steps and divisor. */
static void test_tail(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(7);
    fw_batcher *b = make_batcher(d, 1, 4, 1, 1); /* 7 micro-batches at accumulation 4 */
    assert_int_equal(fw_batcher_steps_per_epoch(b), 2);
    assert_int_equal(fw_batcher_micro_steps(b, 0), 4);
    assert_int_equal(fw_batcher_micro_steps(b, 1), 3);
    for (int64_t epoch = 0; epoch < 3; epoch++)
        assert_int_equal(fw_batcher_window_targets(b, epoch, 0) + fw_batcher_window_targets(b, epoch, 1),
                         d->stats.target_n);
    fw_batcher_destroy(b);
    b = make_batcher(d, 1, 8, 1, 1); /* fewer micro-batches than one window */
    assert_int_equal(fw_batcher_steps_per_epoch(b), 1);
    assert_int_equal(fw_batcher_micro_steps(b, 0), 7);
    fw_batcher_destroy(b);
    fw_dataset_destroy(d);
}

/* C33: very unequal examples on ranks that do not divide them: equal counts, an empty batch adds nothing. */
static void test_uneven_ranks(void **state) {
    (void)state;
    const int64_t length[] = {3, 600, 2, 41, 7};
    fw_dataset *d = make_dataset(length, NULL, 5);
    fw_batcher *b = make_batcher(d, 1, 2, 2, 1);
    fw_batch batch;
    assert_int_equal(fw_batch_init(&batch, fw_batcher_max_tokens(b)), FW_OK);
    assert_int_equal(fw_batcher_steps_per_epoch(b), 2);
    assert_int_equal(fw_batcher_micro_steps(b, 1), 1);
    assert_int_equal(fw_batcher_fill(b, 0, 1, 0, 0, &batch), FW_OK);
    assert_int_equal(batch.document_n, 1);
    assert_int_equal(batch.target_n, fw_batcher_window_targets(b, 0, 1));
    assert_int_equal(fw_batcher_fill(b, 0, 1, 0, 1, &batch), FW_OK);
    assert_int_equal(batch.n, 0);
    assert_int_equal(batch.target_n, 0);
    assert_int_equal(batch.document_n, 0);
    assert_int_equal(fw_batcher_fill(b, 0, 2, 0, 0, &batch), FW_ERR_INTERNAL);
    assert_int_equal(fw_batcher_fill(b, 0, 0, 2, 0, &batch), FW_ERR_INTERNAL);
    assert_int_equal(fw_batcher_fill(b, 0, 0, 0, 2, &batch), FW_ERR_INTERNAL);
    fw_batch_fini(&batch);
    fw_batcher_destroy(b);
    fw_dataset_destroy(d);
}

/* F50: the unit of every count is the optimizer step. */
static void test_steps(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(1000);
    const struct { int64_t micro, accumulation, world; } same_batch[] = {{4, 8, 2}, {4, 16, 1}, {8, 8, 1}, {4, 4, 4}};
    for (size_t i = 0; i < 4; i++) {
        fw_batcher *b = make_batcher(d, same_batch[i].micro, same_batch[i].accumulation, same_batch[i].world, 1);
        assert_int_equal(fw_batcher_steps_per_epoch(b), 16); /* 15 of 64 and one of 40 */
        fw_batcher_destroy(b);
    }
    fw_batcher *b = make_batcher(d, 4, 8, 2, 1);
    assert_int_equal(fw_batcher_micro_steps(b, 15), 5);
    fw_batcher_destroy(b);
    fw_dataset_destroy(d);
}

/* The samples of one step in the order of (micro-step, rank, slot). */
static int64_t step_samples(fw_batcher *b, int64_t epoch, int64_t step, int64_t world, int64_t *sample, int64_t cap) {
    int64_t sample_n = 0;
    for (int64_t a = 0; a < fw_batcher_micro_steps(b, step); a++)
        for (int64_t r = 0; r < world; r++) {
            int64_t n;
            assert_int_equal(fw_batcher_samples(b, epoch, step, a, r, sample + sample_n, cap - sample_n, &n), FW_OK);
            sample_n += n;
            assert_true(sample_n <= cap);
        }
    return sample_n;
}

/* One order for every way to divide a global batch; every sample once an epoch; epochs differ; any place can
 * be asked for first. */
static void test_order(void **state) {
    (void)state;
    enum { N = 101, GLOBAL = 12 };
    fw_dataset *d = make_random_dataset(N);
    const struct {
        int64_t micro, accumulation, world;
    } split[] = {{12, 1, 1}, {3, 4, 1}, {2, 3, 2}, {3, 1, 4}, {1, 4, 3}};
    int64_t expected[3][N];
    for (size_t i = 0; i < 5; i++) {
        fw_batcher *b = make_batcher(d, split[i].micro, split[i].accumulation, split[i].world, 1);
        for (int64_t epoch = 2; epoch >= 0; epoch--) {
            int64_t got[N], got_n = 0, seen[N] = {0};
            for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++)
                got_n += step_samples(b, epoch, step, split[i].world, got + got_n, N - got_n);
            assert_int_equal(got_n, N);
            for (int64_t k = 0; k < N; k++) seen[got[k]]++;
            for (int64_t k = 0; k < N; k++) assert_int_equal(seen[k], 1);
            if (i == 0) memcpy(expected[epoch], got, sizeof got);
            assert_memory_equal(got, expected[epoch], sizeof got);
        }
        int64_t again[GLOBAL];
        assert_int_equal(step_samples(b, 1, 5, split[i].world, again, GLOBAL), GLOBAL);
        assert_memory_equal(again, expected[1] + 5 * GLOBAL, sizeof again);
        fw_batcher_destroy(b);
    }
    assert_memory_not_equal(expected[0], expected[1], sizeof expected[0]);
    fw_batcher_options options = {.micro = 12, .accumulation = 1, .world = 1, .shuffle = 1, .data_seed = 43};
    fw_batcher *other;
    int64_t got[GLOBAL];
    assert_int_equal(fw_batcher_create(&other, d, &options), FW_OK);
    step_samples(other, 0, 0, 1, got, GLOBAL);
    assert_memory_not_equal(got, expected[0], sizeof got);
    fw_batcher_destroy(other);
    fw_dataset_destroy(d);
}

/* Evaluation: file order, each example once, whatever batch and world. */
static void test_evaluation(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(11);
    for (int64_t world = 1; world <= 5; world++)
        for (int64_t micro = 1; micro <= 4; micro++) {
            fw_batcher *b = make_batcher(d, micro, 1, world, 0);
            int64_t got[11], got_n = 0;
            for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++)
                got_n += step_samples(b, 0, step, world, got + got_n, 11 - got_n);
            assert_int_equal(got_n, 11);
            for (int64_t i = 0; i < 11; i++) assert_int_equal(got[i], i);
            fw_batcher_destroy(b);
        }
    fw_dataset_destroy(d);
}

/* The fields of a batch against what the definition says. */
static void test_layout(void **state) {
    (void)state;
    fw_dataset *d;
    const fw_dataset_options no_options = {0};
    assert_int_equal(fw_dataset_create(&d, "two", &no_options), FW_OK);
    const int32_t id_a[] = {5, 6, 7, 8}, id_b[] = {9, 10, 11};
    const uint8_t trained_a[] = {1, 0, 1, 1}, trained_b[] = {0, 1, 0}; /* the first of a has nothing before it */
    assert_int_equal(fw_dataset_add(d, id_a, trained_a, 4, 1, 1), FW_OK);
    assert_int_equal(fw_dataset_add(d, id_b, trained_b, 3, 1, 2), FW_OK);
    assert_int_equal(fw_dataset_finish(d), FW_OK);
    assert_int_equal(d->stats.target_n, 3);
    fw_batcher *b = make_batcher(d, 2, 1, 1, 0);
    fw_batch batch;
    assert_int_equal(fw_batch_init(&batch, 7), FW_OK);
    assert_int_equal(fw_batcher_max_tokens(b), 7);
    assert_int_equal(fw_batcher_fill(b, 0, 0, 0, 0, &batch), FW_OK);
    const int32_t id[] = {5, 6, 7, 8, 9, 10, 11}, target[] = {-1, 7, 8, -1, 10, -1, -1},
                  position[] = {0, 1, 2, 3, 0, 1, 2}, first[] = {0, 0, 0, 0, 4, 4, 4};
    assert_int_equal(batch.n, 7);
    assert_int_equal(batch.target_n, 3);
    assert_int_equal(batch.document_n, 2);
    assert_memory_equal(batch.id_N, id, sizeof id);
    assert_memory_equal(batch.target_N, target, sizeof target);
    assert_memory_equal(batch.position_N, position, sizeof position);
    assert_memory_equal(batch.first_N, first, sizeof first);
    fw_batch_fini(&batch);
    assert_int_equal(fw_batch_init(&batch, 6), FW_OK);
    assert_int_equal(fw_batcher_fill(b, 0, 0, 0, 0, &batch), FW_ERR_INTERNAL);
    fw_batch_fini(&batch);
    fw_batcher_destroy(b);
    fw_dataset_destroy(d);
}

/* D43: the bound is met by some batch order could make and passed by none. */
static void test_max_tokens(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(40);
    int64_t longest = 0, second = 0;
    for (int64_t s = 0; s < d->sample_n; s++) {
        int64_t n = d->sample[s].n;
        if (n > longest)
            second = longest, longest = n;
        else if (n > second)
            second = n;
    }
    fw_batcher *b = make_batcher(d, 2, 1, 2, 1);
    assert_int_equal(fw_batcher_max_tokens(b), longest + second);
    assert_int_equal(fw_batcher_max_documents(b), 2);
    fw_batcher_destroy(b);
    b = make_batcher(d, 64, 1, 1, 1);
    assert_int_equal(fw_batcher_max_tokens(b), d->stats.token_n);
    assert_int_equal(fw_batcher_max_documents(b), 40);
    fw_batcher_destroy(b);
    b = make_batcher(d, 3, 1, 2, 0);
    fw_batch batch;
    assert_int_equal(fw_batch_init(&batch, d->stats.token_n), FW_OK);
    int64_t largest = 0;
    for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++)
        for (int64_t r = 0; r < 2; r++) {
            assert_int_equal(fw_batcher_fill(b, 0, step, 0, r, &batch), FW_OK);
            if (batch.n > largest) largest = batch.n;
        }
    assert_int_equal(fw_batcher_max_tokens(b), largest);
    assert_int_equal(fw_batcher_max_documents(b), 3);
    fw_batch_fini(&batch);
    fw_batcher_destroy(b);
    fw_dataset_destroy(d);
}

/* Best fit decreasing as the textbook writes it, over all bins in turn. */
static int64_t pack_plainly(const fw_dataset *d, int64_t bin_tokens, int64_t *load) {
    const int64_t n = d->sample_n;
    int64_t opened = 0;
    for (int64_t want = bin_tokens; want > 0; want--)
        for (int64_t s = 0; s < n; s++) {
            if (d->sample[s].n != want) continue;
            int64_t best = -1;
            for (int64_t k = 0; k < opened; k++)
                if (load[k] + want <= bin_tokens && (best < 0 || load[k] > load[best])) best = k;
            if (best < 0) {
                best = opened++;
                load[best] = 0;
            }
            load[best] += want;
        }
    return opened;
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void test_packing(void **state) {
    (void)state;
    enum { N = 300 };
    fw_dataset *d = make_random_dataset(N);
    const int64_t sizes[] = {61, 64, 65, 100, 128, 4095, 4096, 5000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t bin[N], bin_n, load[N] = {0}, plain[N], next = 0;
        assert_int_equal(fw_packing_assign(bin, &bin_n, d, sizes[i], FW_PACKING_BFD), FW_OK);
        for (int64_t s = 0; s < N; s++) {
            assert_true(bin[s] >= 0 && bin[s] <= next); /* numbered by first sample */
            if (bin[s] == next) next++;
            load[bin[s]] += d->sample[s].n;
        }
        assert_int_equal(next, bin_n);
        for (int64_t k = 0; k < bin_n; k++) assert_true(load[k] > 0 && load[k] <= sizes[i]);
        int64_t most = sizes[i] < d->stats.token_n ? sizes[i] : d->stats.token_n;
        assert_int_equal(pack_plainly(d, most, plain), bin_n);
        qsort(load, (size_t)bin_n, sizeof *load, compare);
        qsort(plain, (size_t)bin_n, sizeof *plain, compare);
        assert_memory_equal(load, plain, (size_t)bin_n * sizeof *load);
    }
    int64_t bin[N], bin_n;
    assert_int_equal(fw_packing_assign(bin, &bin_n, d, d->stats.longest_n - 1, FW_PACKING_BFD), FW_ERR_OPTION);
    fw_dataset_destroy(d);
}

/* Packed: documents whole, bins within max_length, every sample once, the same for every world size. */
static void test_packed_batches(void **state) {
    (void)state;
    enum { N = 90, BIN = 128 };
    fw_dataset *d = make_random_dataset(N);
    int64_t expected[N];
    for (int64_t world = 1; world <= 4; world *= 2) {
        const fw_batcher_options options = {.micro = 1,
                                            .accumulation = 4 / world,
                                            .world = world,
                                            .max_length = BIN,
                                            .packing = 1,
                                            .shuffle = 1,
                                            .data_seed = 3};
        fw_batcher *b;
        fw_batch batch;
        assert_int_equal(fw_batcher_create(&b, d, &options), FW_OK);
        assert_true(fw_batcher_units(b) < N);
        assert_true(fw_batcher_max_tokens(b) <= BIN);
        assert_int_equal(fw_batch_init(&batch, fw_batcher_max_tokens(b)), FW_OK);
        int64_t got[N], got_n = 0, token_n = 0, document_n = 0;
        for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++) {
            got_n += step_samples(b, 0, step, world, got + got_n, N - got_n);
            for (int64_t a = 0; a < fw_batcher_micro_steps(b, step); a++)
                for (int64_t r = 0; r < world; r++) {
                    assert_int_equal(fw_batcher_fill(b, 0, step, a, r, &batch), FW_OK);
                    token_n += batch.n;
                    if (batch.document_n > document_n) document_n = batch.document_n;
                    for (int64_t i = 0; i < batch.n; i++) { /* whole documents: ids are sample * 1000 + place */
                        assert_int_equal(batch.id_N[i] % 1000, batch.position_N[i]);
                        assert_int_equal(batch.first_N[i], i - batch.position_N[i]);
                        if (batch.target_N[i] >= 0) assert_int_equal(batch.target_N[i], batch.id_N[i] + 1);
                    }
                }
        }
        assert_int_equal(got_n, N);
        assert_int_equal(token_n, d->stats.token_n);
        assert_int_equal(fw_batcher_max_documents(b), document_n);
        if (world == 1) memcpy(expected, got, sizeof got);
        assert_memory_equal(got, expected, sizeof got);
        fw_batch_fini(&batch);
        fw_batcher_destroy(b);
    }
    fw_dataset_destroy(d);
}

static void test_bad_options(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(3);
    fw_batcher *b;
    const fw_batcher_options bad[] = {{.micro = 0, .accumulation = 1, .world = 1},
                                      {.micro = 1, .accumulation = -1, .world = 1},
                                      {.micro = 1, .accumulation = 1, .world = 0},
                                      {.micro = 1ll << 40, .accumulation = 1, .world = 1},
                                      {.micro = 1, .accumulation = 1, .world = 1, .packing = 1, .max_length = 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(fw_batcher_create(&b, d, &bad[i]), FW_ERR_OPTION);
    fw_dataset_destroy(d);
}

static void test_allocations(void **state) {
    (void)state;
    fw_dataset *d = make_random_dataset(20);
    const fw_batcher_options options = {
        .micro = 2, .accumulation = 1, .world = 1, .max_length = 64, .packing = 1, .shuffle = 1};
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_batcher *b = NULL;
        fw_batch batch = {0};
        fw_alloc_fail_at(n);
        status = fw_batcher_create(&b, d, &options);
        if (status == FW_OK) status = fw_batch_init(&batch, fw_batcher_max_tokens(b));
        const uint64_t before = fw_alloc_count();
        if (status == FW_OK) status = fw_batcher_fill(b, 0, 0, 0, 0, &batch);
        assert_int_equal(fw_alloc_count(), before); /* filling takes no memory */
        fw_alloc_fail_at(0);
        fw_batch_fini(&batch);
        fw_batcher_destroy(b);
        if (status != FW_OK) assert_int_equal(status, FW_ERR_NOMEM);
        assert_true(n < 1000);
    }
    fw_dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisor),        cmocka_unit_test(test_tail),        cmocka_unit_test(test_uneven_ranks),
        cmocka_unit_test(test_steps),          cmocka_unit_test(test_order),       cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_layout),         cmocka_unit_test(test_max_tokens),  cmocka_unit_test(test_packing),
        cmocka_unit_test(test_packed_batches), cmocka_unit_test(test_bad_options), cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
