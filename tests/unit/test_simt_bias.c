/* fw_cuda_bias_forward, which only products without an epilogue of their own need: y + b, rounded once, for every pair of
 * types, aligned rows and others. */
#include "device/cuda/cuda_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#ifdef FW_HAS_SIMT

enum { N = 5, O_MAX = 48 };

static float value_at(const void *x, fw_dtype t, int64_t i) {
    return t == FW_F32 ? ((const float *)x)[i] : fw_bf16_to_f32(((const fw_bf16 *)x)[i]);
}
static void set(void *x, fw_dtype t, int64_t i, float value) {
    if (t == FW_F32)
        ((float *)x)[i] = value;
    else
        ((fw_bf16 *)x)[i] = fw_bf16_from_f32(value);
}

static void check(fw_dtype t_b, fw_dtype t_y, int64_t O) {
    static _Alignas(16) float y[N * O_MAX], before[N * O_MAX], b[O_MAX], expected;
    const fw_cuda_launch l = {.sm_n = 1};
    for (int64_t i = 0; i < N * O; i++) set(y, t_y, i, (float)(i * 37 % 101) / 7);
    for (int64_t i = 0; i < O; i++) set(b, t_b, i, (float)(i * 53 % 89) / 3 - 11);
    memcpy(before, y, sizeof y);
    assert_int_equal(fw_cuda_bias_forward(&l, y, b, N, O, t_b, t_y), 0);
    for (int64_t i = 0; i < N * O; i++) {
        set(&expected, t_y, 0, value_at(before, t_y, i) + value_at(b, t_b, i % O));
        assert_true(value_at(y, t_y, i) == value_at(&expected, t_y, 0));
    }
}

static void test_pairs_of_types(void **state) {
    (void)state;
    static const fw_dtype types[] = {FW_F32, FW_BF16};
    for (int i = 0; i < 4; i++) {
        check(types[i / 2], types[i % 2], O_MAX);
        check(types[i / 2], types[i % 2], 7);
        check(types[i / 2], types[i % 2], 1);
    }
}

static void test_no_rows(void **state) {
    (void)state;
    const fw_cuda_launch l = {.sm_n = 1};
    assert_int_equal(fw_cuda_bias_forward(&l, NULL, NULL, 0, 3, FW_F32, FW_F32), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs_of_types), cmocka_unit_test(test_no_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    puts("skipped: built without a C++ compiler, so without the emulated GPU");
    return 77;
}

#endif
