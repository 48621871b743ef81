/* What dropout keeps: as often as it should, differently for each row and module, and the same wherever a row stands. */
#include "device/device.h"
#include "device/dropout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

enum { ROWS = 400, CHANNELS = 250 };

/* The share kept is 1 - p within 5 standard deviations, and so is the share on which two masks agree. Keys here differ
 * in few bits, as badly mixed ones would. */
static void test_shares(void **state) {
    (void)state;
    const double n = (double)ROWS * CHANNELS;
    for (int i = 1; i < 10; i++) {
        const float p = (float)i / 10;
        const double q = 1 - (double)p, same = q * q + (1 - q) * (1 - q);
        const uint32_t threshold = fw_dropout_threshold(p);
        double kept = 0, of_rows = 0, of_salts = 0, of_channels = 0;
        for (uint64_t key = 0; key < ROWS; key++) {
            const uint64_t row = fw_dropout_row(key, 5), next = fw_dropout_row(key + 1, 5),
                           salted = fw_dropout_row(key, 6);
            for (uint32_t c = 0; c < CHANNELS; c++) {
                const int here = fw_dropout_bits(row, c) >= threshold;
                kept += here;
                of_rows += here == (fw_dropout_bits(next, c) >= threshold);
                of_salts += here == (fw_dropout_bits(salted, c) >= threshold);
                of_channels += here == (fw_dropout_bits(row, c + 1) >= threshold);
            }
        }
        assert_true(fabs(kept - n * q) < 5 * sqrt(n * q * (1 - q)));
        const double limit = 5 * sqrt(n * same * (1 - same)) + 5 * sqrt(n * q * (1 - q));
        assert_true(fabs(of_rows - n * same) < limit);
        assert_true(fabs(of_salts - n * same) < limit);
        assert_true(fabs(of_channels - n * same) < limit);
    }
}

/* A run that is resumed by a later version must meet the masks of the earlier one. */
static void test_bits_stay(void **state) {
    (void)state;
    assert_int_equal(fw_dropout_row(0, 0), 0x48218226ff3cd4bfu);
    assert_int_equal(fw_dropout_bits(0x48218226ff3cd4bfu, 0), 0x5e6046b3u);
    assert_int_equal(fw_dropout_bits(0x48218226ff3cd4bfu, 1000), 0xb5e29cfbu);
    assert_int_equal(fw_dropout_threshold(0), 0);
    assert_int_equal(fw_dropout_threshold(0.5f), 0x80000000u);
}

/* Rows in another order, with another row between them and another device: the same numbers. */
static void test_rows_move(void **state) {
    (void)state;
    enum { C = 37 };
    static const uint64_t key[3] = {11, 22, 33}, moved[4] = {33, 99, 11, 22};
    static const int64_t at[3] = {2, 3, 0};
    float x[4 * C], a[3 * C], b[4 * C];
    for (int i = 0; i < 4 * C; i++) x[i] = (float)(i % C + 1);
    fw_device *ref, *cpu;
    assert_int_equal(fw_device_create(&ref, "ref", NULL), FW_OK);
    assert_int_equal(fw_device_create(&cpu, "cpu", NULL), FW_OK);
    assert_int_equal(fw_dropout(ref, a, x, 0, key, 1, 0.25f, 3, C, FW_F32), FW_OK);
    assert_int_equal(fw_dropout(cpu, b, x, 0, moved, 1, 0.25f, 4, C, FW_F32), FW_OK);
    for (int n = 0; n < 3; n++) assert_memory_equal(a + n * C, b + at[n] * C, C * sizeof *a);
    fw_device_destroy(ref);
    fw_device_destroy(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_bits_stay),
                                       cmocka_unit_test(test_rows_move)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
