/* The disk fails in the middle of training: the n-th piece that is written or read. Every such step ends with one message that
 * says so, nothing waits for ever, and what is left is closed as ever; nothing stays in the folder. */
#include "base/file.h"
#include "spill/spill.h"
#include "support/model_lab.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { STEP_N = 2, STRIDE = 5 };

/* Two steps, in which the n-th piece fails; whether one did. */
static bool fails(const char *folder, bool writes, uint64_t n) {
    fw_test_lab lab;
    const fw_test_lab_options options = {.variant = "llama_tied",
                                         .shape = "llama_deep",
                                         .device = "cpu",
                                         .t = FW_BF16,
                                         .mode = FW_ACTIVATIONS_RECOMPUTE,
                                         .micro = 2,
                                         .accumulation = 2,
                                         .shard = {.records = FW_SHARD_FILE,
                                                   .weights = FW_SHARD_FILE,
                                                   .update_on_host = true,
                                                   .prefetch = 1,
                                                   .folder = folder}};
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    (writes ? fw_spill_fail_write_at : fw_spill_fail_read_at)(n);
    fw_status status = FW_OK;
    for (int64_t step = 0; step < STEP_N && status == FW_OK; step++) {
        fw_step_result result;
        status = fw_step_run(&lab.step, step + 1, 0, step, 1e-3, &result);
    }
    if (status != FW_OK) {
        assert_int_equal(status, FW_ERR_IO);
        assert_non_null(
            strstr(fw_trail_message(), writes ? "could not write offloaded state to" : "could not read offloaded"));
        assert_non_null(strstr(fw_trail_message(), folder));
    }
    (writes ? fw_spill_fail_write_at : fw_spill_fail_read_at)(0);
    fw_test_lab_close(&lab);
    return status != FW_OK;
}

static void test_failing_disk(void **state) {
    (void)state;
    char folder[FW_TEST_PATH_BYTES], **names;
    size_t n;
    fw_test_scratch_make(folder);
    for (int writes = 0; writes < 2; writes++) {
        uint64_t at = 1;
        while (fails(folder, writes != 0, at)) at += STRIDE;
        assert_true(at > 8 * STRIDE); /* it was not over at once */
    }
    assert_int_equal(fw_dir_list(&names, &n, folder), FW_OK);
    assert_int_equal(n, 0);
    fw_dir_list_free(names, n);
    fw_test_scratch_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failing_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
