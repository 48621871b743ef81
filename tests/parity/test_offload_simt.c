/* State and weights in the host's memory or a file, away from a device that has memory of its own: the kernels of GPUs under
 * the emulation. Brought in for the update they give the same bits as where all stays; updated by the host's device, which
 * rounds in its own way, losses within the project's bound. */
#include "support/model_lab.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#ifdef FW_HAS_SIMT

#include "device/simt/simt_device.h"

enum { STEP_N = 4 };
static const double bf16_bound = 1e-2; /* relative */

typedef struct kind {
    const fw_adapter_request *adapter; /* NULL: all of the model is trained */
    const fw_packed_options *packed;
} kind;

/* out: the losses of a few steps. */
static void train(double out[STEP_N], const kind *k, const fw_shard_options *shard, fw_device *host) {
    fw_test_lab lab;
    fw_test_lab_options options = {.variant = "qwen3_tied",
                                   .t = FW_BF16,
                                   .mode = FW_ACTIVATIONS_SELECTIVE,
                                   .micro = 4,
                                   .accumulation = 2,
                                   .chunk_n = 7,
                                   .adapter = k->adapter,
                                   .packed = k->packed,
                                   .shard = *shard};
    assert_int_equal(fw_device_create_simt(&options.made_device), FW_OK);
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    if (shard->update_on_host) fw_shard_set_update_device(lab.shard, host);
    lab.step.max_grad_norm = 1.0;
    for (int64_t step = 0; step < STEP_N; step++) {
        fw_step_result result;
        if (fw_step_run(&lab.step, step + 1, step / 2, step % 2, 1e-3, &result) != FW_OK)
            fail_msg("%s", fw_trail_message());
        out[step] = result.loss;
    }
    fw_test_lab_close(&lab);
}

enum { WAYS_MAX = 4 };

static void train_ways(double loss[WAYS_MAX][STEP_N], const kind *k, const fw_shard_options *ways, int way_n) {
    char folder[FW_TEST_PATH_BYTES];
    fw_device *host;
    fw_test_scratch_make(folder);
    assert_int_equal(fw_device_create(&host, "ref", NULL), FW_OK);
    for (int i = 0; i < way_n; i++) {
        fw_shard_options shard = ways[i];
        shard.folder = folder;
        train(loss[i], k, &shard, host);
    }
    fw_device_destroy(host);
    fw_test_scratch_remove(folder);
}

static void test_places(void **state) {
    (void)state;
    static const fw_shard_options ways[] = {
        {.records = FW_SHARD_HERE},
        {.records = FW_SHARD_HOST, .apart = true},
        {.records = FW_SHARD_HOST, .weights = FW_SHARD_HOST, .update_on_host = true, .apart = true},
        {.records = FW_SHARD_FILE, .weights = FW_SHARD_FILE, .update_on_host = true, .apart = true, .prefetch = 1}};
    const kind whole = {0};
    double loss[WAYS_MAX][STEP_N];
    train_ways(loss, &whole, ways, 4);
    for (int step = 0; step < STEP_N; step++) {
        assert_true(isfinite(loss[0][step]));
        assert_true(loss[1][step] == loss[0][step]);
        assert_true(loss[3][step] == loss[2][step]);
        assert_true(fabs(loss[2][step] - loss[0][step]) <= bf16_bound * loss[0][step]);
    }
    assert_true(loss[0][STEP_N - 1] < loss[0][0]);
}

/* Frozen weights, in 16 and in 4 bits: the state of the adapter is updated on the host in all of the ways. */
static void test_frozen(void **state) {
    (void)state;
    static const fw_adapter_request adapter = {.r = 4, .alpha = 8, .target_modules = "all-linear"};
    static const fw_packed_options nested = {
        .kind = FW_QUANT_NF4, .block = FW_QUANT_BLOCK, .nested = true, .nested_block = FW_QUANT_NESTED_BLOCK};
    static const fw_shard_options ways[] = {
        {.records = FW_SHARD_HOST, .update_on_host = true, .apart = true},
        {.records = FW_SHARD_HOST, .weights = FW_SHARD_HOST, .update_on_host = true, .apart = true},
        {.records = FW_SHARD_FILE, .weights = FW_SHARD_FILE, .update_on_host = true, .apart = true, .prefetch = 2}};
    const kind kinds[] = {{&adapter, NULL}, {&adapter, &nested}};
    for (int k = 0; k < 2; k++) {
        double loss[WAYS_MAX][STEP_N];
        train_ways(loss, &kinds[k], ways, 3);
        for (int step = 0; step < STEP_N; step++) {
            assert_true(isfinite(loss[0][step]));
            for (int i = 1; i < 3; i++) assert_true(loss[i][step] == loss[0][step]);
        }
        assert_true(loss[0][STEP_N - 1] != loss[0][0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_frozen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
