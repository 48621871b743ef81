/* cli: numbers for people, the progress bar and the plain line. */
#include "cli/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static void test_numbers(void **state) {
    (void)state;
    char text[FW_HUMAN_BYTES];
    assert_string_equal(fw_human_size(text, 0), "0 B");
    assert_string_equal(fw_human_size(text, 1023), "1023 B");
    assert_string_equal(fw_human_size(text, 1024), "1.0 KiB");
    assert_string_equal(fw_human_size(text, 1048575), "1.0 MiB"); /* never 1024.0 KiB */
    assert_string_equal(fw_human_size(text, UINT64_C(1288490189)), "1.2 GiB");
    assert_string_equal(fw_human_size(text, UINT64_MAX), "16.0 EiB");
    assert_string_equal(fw_human_count(text, 0), "0");
    assert_string_equal(fw_human_count(text, 999.4), "999");
    assert_string_equal(fw_human_count(text, 999.6), "1.0 k");
    assert_string_equal(fw_human_count(text, 999960), "1.0 M");
    assert_string_equal(fw_human_count(text, 134515008), "134.5 M");
    assert_true(strlen(fw_human_count(text, 1e300)) < FW_HUMAN_BYTES - 1);
    assert_string_equal(fw_human_duration(text, 4.23), "4.2 s");
    assert_string_equal(fw_human_duration(text, 59.96), "1:00");
    assert_string_equal(fw_human_duration(text, 187), "3:07");
    assert_string_equal(fw_human_duration(text, 3753), "1:02:33");
    assert_string_equal(fw_human_duration(text, 2 * 86400 + 3 * 3600 + 600), "2 d 03:10");
    assert_string_equal(fw_human_duration(text, NAN), "?");
    assert_string_equal(fw_human_duration(text, -1), "?");
    assert_string_equal(fw_human_duration(text, INFINITY), "?");
}

static const fw_progress_values values = {.step = 60,
                                          .step_n = 240,
                                          .epoch = 0.75,
                                          .loss = 1.23456,
                                          .learning_rate = 1.5e-5,
                                          .grad_norm = 0.87,
                                          .tokens_per_s = 1234};

static void test_bar(void **state) {
    (void)state;
    char text[400];
    fw_progress_bar(text, sizeof text, &values, 0, 60, 120);
    assert_string_equal(
        text,
        " 25% [=======>                      ] 60/240  loss 1.235  3:00 left  1.2 k tokens/s  lr 1.50e-05  norm 0.87");
    fw_progress_bar(text, sizeof text, &values, 0, 60, 30);
    assert_string_equal(text, " 25% 60/240  loss 1.235");
    for (int width = 5; width < 300; width++) {
        int n = fw_progress_bar(text, sizeof text, &values, 0, 60, width);
        assert_int_equal(n, strlen(text));
        assert_true(n <= width);
    }
    /* nothing known yet; a resumed run counts its own steps only; a small buffer */
    fw_progress_values v = {
        .step = 0, .step_n = 0, .epoch = NAN, .loss = NAN, .learning_rate = NAN, .grad_norm = NAN, .tokens_per_s = NAN};
    fw_progress_bar(text, sizeof text, &v, 0, 0, 20);
    assert_string_equal(text, "  0% 0/0");
    v.step = 110, v.step_n = 120;
    fw_progress_bar(text, sizeof text, &v, 100, 30, 30);
    assert_string_equal(text, " 91% 110/120  30.0 s left");
    assert_int_equal(fw_progress_bar(text, 6, &values, 0, 60, 120), 5);
}

static void test_line(void **state) {
    (void)state;
    char text[400];
    fw_progress_line(text, sizeof text, &values, 0, 60);
    assert_string_equal(text,
                        "step 60/240, epoch 0.75, loss 1.2346, lr 1.50e-05, grad norm 0.870, 1234 tokens/s, 3:00 left");
    fw_progress_values v = {.step = 3,
                            .step_n = 9,
                            .epoch = NAN,
                            .loss = 1e300,
                            .learning_rate = NAN,
                            .grad_norm = NAN,
                            .tokens_per_s = NAN};
    assert_true(fw_progress_line(text, sizeof text, &v, 3, 1) < 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
