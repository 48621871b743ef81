/* plan: rows add up to what is allocated, and what does not fit is refused with both figures. */
#include "plan/memory_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void test_rows(void **state) {
    (void)state;
    fw_shard_bytes bytes = {.master = 400, .compute = 200, .gradient = 400, .moments = 800};
    fw_activations a = {.kept_bytes = 1000, .work_bytes = 2000, .loss_bytes = 3000};
    fw_memory_plan plan, bare;
    fw_memory_plan_make(&plan, &bytes, &a, 50, 60);
    fw_memory_plan_make(&bare, &(fw_shard_bytes){0}, &(fw_activations){0}, 0, 0);
    assert_int_equal(plan.total_bytes - bare.total_bytes, 400 + 200 + 400 + 800 + 1000 + 2000 + 3000 + 50 + 60);
    size_t sum = 0;
    for (int i = 0; i < plan.row_n; i++) sum += plan.row[i].bytes;
    assert_int_equal(sum, plan.total_bytes);
    assert_int_equal(bare.row_n, 1); /* a row of nothing is not shown */
}

static void test_fit(void **state) {
    (void)state;
    fw_shard_bytes bytes = {.master = (size_t)4 << 30, .gradient = (size_t)4 << 30, .moments = (size_t)8 << 30};
    fw_memory_plan plan;
    fw_memory_plan_make(&plan, &bytes, &(fw_activations){0}, 0, 0);
    assert_int_equal(fw_memory_plan_check(&plan, 2, 2 * (uint64_t)plan.total_bytes), FW_OK);
    assert_int_equal(fw_memory_plan_check(&plan, 2, 2 * (uint64_t)plan.total_bytes - 1), FW_ERR_FIT);
    assert_non_null(
        strstr(fw_trail_message(), "a rank needs 16.05 GiB, 2 ranks together 32.09 GiB, and 32.09 GiB are free"));
    assert_non_null(strstr(fw_trail_message(), "optimizer moments (fp32) with 8.00 GiB"));
    assert_int_equal(fw_memory_plan_check(&plan, 64, UINT64_MAX), FW_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
