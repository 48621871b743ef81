/* The counts and bandwidths of nccl-tests from given numbers, sweeps of sizes, rows of the table, and a disk's file that
 * leaves nothing behind. */
#include "cli/bench_show.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static void test_shapes(void **state) {
    (void)state;
    fw_collective_shape s = fw_collective_shape_of(FW_MEASURED_ALL_REDUCE, 1027, FW_F32, 8);
    assert_true(s.n == 256 && s.count == 256 && s.bytes == 1024);
    s = fw_collective_shape_of(FW_MEASURED_BROADCAST, 1024, FW_BF16, 8);
    assert_true(s.n == 512 && s.count == 512 && s.bytes == 1024);
    s = fw_collective_shape_of(FW_MEASURED_ALL_GATHER, 1024, FW_F32, 8); /* 32 elements a rank */
    assert_true(s.count == 32 && s.n == 256 && s.bytes == 1024);
    s = fw_collective_shape_of(FW_MEASURED_REDUCE_SCATTER, 1024, FW_F32, 3); /* 85 of a rank: 84 are whole 16 bytes */
    assert_true(s.count == 84 && s.n == 252 && s.bytes == 1008);
    s = fw_collective_shape_of(FW_MEASURED_ALL_TO_ALL, 1024, FW_BF16, 5); /* 102: 96 */
    assert_true(s.count == 96 && s.n == 480 && s.bytes == 960);
    s = fw_collective_shape_of(FW_MEASURED_ALL_GATHER, 16, FW_F32, 2);
    assert_true(s.bytes == 0);
}

static void expect(double got, double wanted) {
    if (fabs(got - wanted) > 1e-12 * wanted) fail_msg("%.17g is not %.17g", got, wanted);
}

/* The figures of doc/PERFORMANCE.md in nccl-tests: 2 (n-1)/n, (n-1)/n, 1. */
static void test_bandwidths(void **state) {
    (void)state;
    expect(fw_collective_algorithm_bandwidth(1000000000, 0.5), 2);
    assert_true(fw_collective_algorithm_bandwidth(1, 0) == 0);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_ALL_REDUCE, 1000000000, 1, 8), 1.75);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_ALL_REDUCE, 134217728, 0.001, 2), 134.217728);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_ALL_GATHER, 1000000000, 1, 8), 0.875);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_REDUCE_SCATTER, 1000000000, 1, 4), 0.75);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_ALL_TO_ALL, 1000000000, 2, 4), 0.375);
    expect(fw_collective_bus_bandwidth(FW_MEASURED_BROADCAST, 1000000000, 1, 8), 1);
}

static int size_n(fw_sweep s, int64_t *last) {
    int n = 0;
    for (int64_t bytes = 0; (bytes = fw_sweep_next(&s, bytes)) > 0; n++) *last = bytes;
    return n;
}

static void test_sweeps(void **state) {
    (void)state;
    int64_t last = 0;
    assert_int_equal(size_n((fw_sweep){8, 134217728, 2, 0}, &last), 25);
    assert_int_equal(last, 134217728);
    assert_int_equal(size_n((fw_sweep){1000, 5000, 3, 0}, &last), 2);
    assert_int_equal(last, 3000);
    assert_int_equal(size_n((fw_sweep){1000, 5000, 0, 1500}, &last), 3);
    assert_int_equal(last, 4000);
    assert_int_equal(size_n((fw_sweep){7, 7, 2, 0}, &last), 1);
    assert_int_equal(size_n((fw_sweep){INT64_MAX / 2, INT64_MAX, 2, 0}, &last), 2);
    assert_int_equal(size_n((fw_sweep){INT64_MAX / 2 + 1, INT64_MAX, 2, 0}, &last), 1); /* no overflow */
    assert_int_equal(fw_sweep_check(&(fw_sweep){1, 4096, 0, 1}), FW_OK);
    assert_int_equal(fw_sweep_check(&(fw_sweep){1, 4097, 0, 1}), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "more than 4096 sizes"));
}

/* The columns of nccl-tests, to the character. */
static void test_rows(void **state) {
    (void)state;
    char text[FW_BENCH_ROW_BYTES];
    fw_collective_row row = {.shape = {.n = 33554432, .count = 33554432, .bytes = 134217728},
                             .out_of_place = {.done = true, .seconds = 0.0123456, .wrong_n = 0},
                             .in_place = {.done = true, .seconds = 0.001, .wrong_n = 17}};
    fw_bench_row_text(text, FW_MEASURED_ALL_REDUCE, FW_F32, 0, 2, &row);
    assert_string_equal(text, "   134217728      33554432     float     sum      -1    12346   10.87   10.87      0"
                              "   1000.0  134.22  134.22     17");
    row.shape = (fw_collective_shape){.n = 64, .count = 16, .bytes = 128};
    row.out_of_place = (fw_collective_timing){.done = true, .seconds = 5e-6, .wrong_n = -1};
    row.in_place = (fw_collective_timing){0};
    fw_bench_row_text(text, FW_MEASURED_ALL_TO_ALL, FW_BF16, 0, 4, &row);
    assert_string_equal(text, "         128            16  bfloat16    none      -1     5.00    0.03    0.02    N/A"
                              "      N/A     N/A     N/A    N/A");
    fw_bench_row_text(text, FW_MEASURED_BROADCAST, FW_F32, 3, 4, &row);
    assert_non_null(strstr(text, "   float    none       3 "));
}

static bool at_once(void) { return true; }

static void test_disk(void **state) {
    (void)state;
    char folder[FW_TEST_PATH_BYTES];
    fw_disk_result r;
    fw_test_scratch_make(folder);
    assert_int_equal(fw_disk_measure(&r, folder, 20 << 20, NULL), FW_OK);
    assert_true(r.bytes == 20 << 20 && r.write_s > 0 && r.read_s > 0 && r.cached_part >= 0 && r.cached_part <= 1);
    assert_int_equal(fw_test_count_entries(folder), 0);
    assert_int_equal(fw_disk_measure(&r, folder, 20 << 20, at_once), FW_ERR_INTERRUPTED);
    assert_int_equal(fw_test_count_entries(folder), 0);
    assert_int_equal(fw_disk_measure(&r, folder, INT64_MAX / 2, NULL), FW_ERR_IO);
    assert_non_null(strstr(fw_trail_message(), "smaller --disk_bytes"));
    assert_int_equal(fw_disk_measure(&r, fw_test_path(folder, "none"), 4096, NULL), FW_ERR_OPTION);
    fw_test_scratch_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_bandwidths), cmocka_unit_test(test_sweeps),
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
