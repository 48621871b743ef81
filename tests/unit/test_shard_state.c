/* What an optimizer keeps of a parameter: arrays, their types and lengths, and which tensors have none in 8 bits. */
#include "shard/optimizer_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static fw_param param(const char *name, int64_t rows, int64_t cols, int64_t offset_n) {
    fw_param p = {.rows = rows, .cols = cols, .n = cols == 0 ? rows : rows * cols, .offset_n = offset_n};
    strcpy(p.name, name);
    return p;
}

static bool in_8_bits(const char *name, int64_t rows, int64_t cols, int64_t offset_n) {
    const fw_param p = param(name, rows, cols, offset_n);
    return fw_state_is_8bit(&p);
}

/* bitsandbytes' smallest, transformers' rule for the embedding, and no block that two tensors share. */
static void test_8bit(void **state) {
    (void)state;
    static const char name[] = "model.layers.0.mlp.up_proj.weight";
    assert_true(in_8_bits(name, 64, 64, 0));
    assert_false(in_8_bits(name, 4095, 1, 0));
    assert_true(in_8_bits(name, 4097, 1, 0));
    assert_true(in_8_bits(name, 64, 64, 512));
    assert_false(in_8_bits(name, 64, 64, 64));
    assert_true(in_8_bits("model.norm.weight", 8192, 0, 256));
    assert_false(in_8_bits("model.embed_tokens.weight", 512, 64, 0));
    assert_true(in_8_bits("lm_head.weight", 512, 64, 0));
}

/* Bytes of all arrays of a whole parameter. */
static int64_t bytes_of(fw_optimizer optimizer, const fw_param *p) {
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    const int n = fw_state_arrays(array, optimizer, p);
    int64_t bytes = 0;
    for (int k = 0; k < n; k++) bytes += fw_state_whole_n(&array[k], p) * (int64_t)fw_dtype_bytes(array[k].t);
    return bytes;
}

/* The table of docs/optimizers.md. */
static void test_bytes(void **state) {
    (void)state;
    const fw_param matrix = param("model.layers.0.mlp.up_proj.weight", 100, 50, 0), /* 5000: 20 blocks */
        vector = param("model.norm.weight", 100, 0, 0);
    assert_int_equal(bytes_of(FW_OPTIMIZER_ADAMW, &matrix), 8 * 5000);
    assert_int_equal(bytes_of(FW_OPTIMIZER_LAMB, &matrix), 8 * 5000);
    assert_int_equal(bytes_of(FW_OPTIMIZER_LION, &matrix), 4 * 5000);
    assert_int_equal(bytes_of(FW_OPTIMIZER_SGD, &matrix), 0);
    assert_int_equal(bytes_of(FW_OPTIMIZER_SGD_MOMENTUM, &matrix), 4 * 5000);
    assert_int_equal(bytes_of(FW_OPTIMIZER_ADAMW_8BIT, &matrix), 2 * (5000 + 20 * 4));
    assert_int_equal(bytes_of(FW_OPTIMIZER_LION_8BIT, &matrix), 5000 + 20 * 4);
    assert_int_equal(bytes_of(FW_OPTIMIZER_ADAFACTOR, &matrix), 4 * (100 + 50));
    assert_int_equal(bytes_of(FW_OPTIMIZER_ADAMW_8BIT, &vector), 8 * 100);
    assert_int_equal(bytes_of(FW_OPTIMIZER_LION_8BIT, &vector), 4 * 100);
    assert_int_equal(bytes_of(FW_OPTIMIZER_ADAFACTOR, &vector), 4 * 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_8bit), cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
