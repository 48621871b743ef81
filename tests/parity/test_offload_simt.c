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

/* out: the losses of a few steps. */
static void train(double out[STEP_N], const fw_shard_options *shard, fw_device *host) {
    fw_test_lab lab;
    fw_test_lab_options options = {.variant = "qwen3_tied",
                                   .t = FW_BF16,
                                   .mode = FW_ACTIVATIONS_SELECTIVE,
                                   .micro = 4,
                                   .accumulation = 2,
                                   .chunk_n = 7,
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

static void test_places(void **state) {
    (void)state;
    static const fw_shard_options ways[] = {
        {.records = FW_SHARD_HERE},
        {.records = FW_SHARD_HOST, .apart = true},
        {.records = FW_SHARD_HOST, .weights = FW_SHARD_HOST, .update_on_host = true, .apart = true},
        {.records = FW_SHARD_FILE, .weights = FW_SHARD_FILE, .update_on_host = true, .apart = true, .prefetch = 1}};
    enum { WAYS = sizeof ways / sizeof *ways };
    double loss[WAYS][STEP_N];
    char folder[FW_TEST_PATH_BYTES];
    fw_device *host;
    fw_test_scratch_make(folder);
    assert_int_equal(fw_device_create(&host, "ref", NULL), FW_OK);
    for (int i = 0; i < WAYS; i++) {
        fw_shard_options shard = ways[i];
        shard.folder = folder;
        train(loss[i], &shard, host);
    }
    fw_device_destroy(host);
    fw_test_scratch_remove(folder);
    for (int step = 0; step < STEP_N; step++) {
        assert_true(isfinite(loss[0][step]));
        assert_true(loss[1][step] == loss[0][step]);
        assert_true(loss[3][step] == loss[2][step]);
        assert_true(fabs(loss[2][step] - loss[0][step]) <= bf16_bound * loss[0][step]);
    }
    assert_true(loss[0][STEP_N - 1] < loss[0][0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
