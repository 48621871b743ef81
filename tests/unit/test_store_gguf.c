/* GGUF: every tensor type bit-equal to the public package's numbers; every damage has its message. */
#include "base/alloc.h"
#include "store/gguf.h"
#include "store/safetensors.h"
#include "support/gguf_builder.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static void test_types(void **state) {
    (void)state;
    static const uint32_t types[] = {FW_GGML_F32,  FW_GGML_F16,  FW_GGML_BF16, FW_GGML_Q8_0, FW_GGML_Q4_0, FW_GGML_Q4_1,
                                     FW_GGML_Q5_0, FW_GGML_Q5_1, FW_GGML_Q4_K, FW_GGML_Q5_K, FW_GGML_Q6_K};
    fw_safetensors file;
    must(fw_safetensors_open(&file, FW_TEST_DATA "/gguf/blocks.safetensors"));
    assert_int_equal(file.tensor_n, 2 * sizeof types / sizeof *types);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[32];
        uint32_t block_n = 0, block_bytes = 0;
        assert_true(fw_gguf_type_block(types[i], &block_n, &block_bytes));
        snprintf(name, sizeof name, "%s.blocks", fw_gguf_type_name(types[i]));
        const fw_stored_tensor *blocks = fw_safetensors_find(&file, name);
        snprintf(name, sizeof name, "%s.values", fw_gguf_type_name(types[i]));
        const fw_stored_tensor *values = fw_safetensors_find(&file, name);
        assert_non_null(blocks);
        assert_non_null(values);
        assert_int_equal(blocks->n / block_bytes * block_n, values->n);
        float *got;
        must(FW_NEW_ARRAY(got, (size_t)values->n));
        fw_gguf_dequantize(got, (fw_gguf_tensor_type)types[i], file.mapping.data + blocks->offset_bytes, values->n);
        for (int64_t k = 0; k < values->n; k++)
            if (memcmp(&got[k], file.mapping.data + values->offset_bytes + 4 * (size_t)k, 4) != 0)
                fail_msg("%s: value %d is %a", name, (int)k, (double)got[k]);
        fw_free(got);
    }
    fw_safetensors_close(&file);
    uint32_t n, bytes;
    assert_false(fw_gguf_type_block(20, &n, &bytes));
    assert_string_equal(fw_gguf_type_name(20), "IQ4_NL");
    assert_null(fw_gguf_type_name(36));
    assert_null(fw_gguf_type_name(UINT32_MAX));
}

/* A small good file: keys of several types and two tensors. */
static void make_sample(fw_test_gguf *g) {
    static const char *const words[] = {"one", "", "three"};
    static const int32_t numbers[] = {-1, 2, 3};
    static const int64_t shape[2] = {2, 32};
    float values[64];
    uint8_t q8[68] = {0, 0x3c}; /* d = 1 */
    for (int i = 0; i < 64; i++) values[i] = (float)i;
    for (int i = 0; i < 32; i++) q8[2 + i] = (uint8_t)(i - 16);
    fw_test_gguf_string(g, "general.architecture", "llama");
    fw_test_gguf_u32(g, "a.number", 77);
    fw_test_gguf_f32(g, "a.fraction", 0.5f);
    fw_test_gguf_bool(g, "a.bool", true);
    fw_test_gguf_strings(g, "a.words", words, 3);
    fw_test_gguf_i32s(g, "a.numbers", numbers, 3);
    fw_test_gguf_tensor(g, "plain", FW_GGML_F32, shape, 2, values, sizeof values);
    fw_test_gguf_tensor(g, "quantised", FW_GGML_Q8_0, shape, 2, q8, sizeof q8);
}

static void test_sample(void **state) {
    (void)state;
    fw_test_gguf g = {0};
    make_sample(&g);
    fw_strbuf all = {0};
    fw_test_gguf_bytes(&g, &all);
    fw_gguf file;
    must(fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "sample.gguf"));
    int64_t number;
    double fraction;
    fw_gguf_string text;
    must(fw_gguf_get_int(&number, &file, "a.number", 0, 100));
    assert_int_equal(number, 77);
    must(fw_gguf_get_int(&number, &file, "a.bool", 0, 1));
    must(fw_gguf_get_float(&fraction, &file, "a.fraction"));
    assert_true(fraction == 0.5);
    must(fw_gguf_get_string(&text, &file, "general.architecture"));
    assert_memory_equal(text.text, "llama", text.bytes);
    expect_message(fw_gguf_get_int(&number, &file, "a.number", 0, 76), FW_ERR_INPUT, "a.number is 77");
    expect_message(fw_gguf_get_int(&number, &file, "a.fraction", 0, 76), FW_ERR_INPUT, "is of type f32; a whole");
    expect_message(fw_gguf_get_float(&fraction, &file, "a.words"), FW_ERR_INPUT, "is of type array of string");
    expect_message(fw_gguf_get_string(&text, &file, "gone"), FW_ERR_INPUT, "key gone is missing");
    const fw_gguf_value *v = fw_gguf_find(&file, "a.words");
    assert_int_equal(v->element_n, 3);
    assert_int_equal(v->string[1].bytes, 0);
    assert_memory_equal(v->string[2].text, "three", 5);
    assert_int_equal(fw_gguf_int_at(fw_gguf_find(&file, "a.numbers"), 0), -1);
    const fw_gguf_tensor *t = fw_gguf_find_tensor(&file, "plain");
    assert_true(t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 32 && t->n == 64);
    float values[32];
    must(fw_gguf_read_f32(values, &file, t, 32, 32));
    for (int i = 0; i < 32; i++) assert_true(values[i] == (float)(32 + i));
    t = fw_gguf_find_tensor(&file, "quantised");
    must(fw_gguf_read_f32(values, &file, t, 0, 32));
    for (int i = 0; i < 32; i++) assert_true(values[i] == (float)(i - 16));
    expect_message(fw_gguf_read_f32(values, &file, t, 16, 32), FW_ERR_INTERNAL, "not made of whole blocks");
    assert_null(fw_gguf_find_tensor(&file, "none"));
    fw_gguf_close(&file);

    /* Cut anywhere, the file is refused; so is any allocation that fails. */
    for (size_t n = 0; n < all.len_bytes - 32; n += 3) {
        uint8_t *cut = malloc(n > 0 ? n : 1);
        assert_non_null(cut);
        memcpy(cut, all.data, n);
        fw_status status = fw_gguf_parse(&file, cut, n, "cut.gguf");
        free(cut);
        if (status != FW_ERR_INPUT) fail_msg("cut at %zu: %s", n, fw_status_name(status));
    }
    uint64_t n = 1;
    for (;; n++) {
        fw_alloc_fail_at(n);
        fw_status status = fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "sample.gguf");
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_null(file.value);
    }
    assert_true(n > 5);
    fw_gguf_close(&file);
    fw_strbuf_fini(&all);
    fw_test_gguf_fini(&g);
}

/* A fraction that is none, and tensors that share bytes or a name. */
static void test_nonsense(void **state) {
    (void)state;
    static const uint8_t no_fractions[2][4] = {{0, 0, 0x80, 0x7f}, {0xff, 0xff, 0xff, 0xff}}; /* infinity, nan */
    fw_gguf file;
    for (size_t i = 0; i < 2; i++) {
        float value;
        double fraction;
        fw_test_gguf g = {0};
        fw_strbuf all = {0};
        memcpy(&value, no_fractions[i], sizeof value);
        fw_test_gguf_f32(&g, "a.fraction", value);
        fw_test_gguf_bytes(&g, &all);
        must(fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "f.gguf"));
        expect_message(fw_gguf_get_float(&fraction, &file, "a.fraction"), FW_ERR_INPUT, "a finite number is needed");
        fw_gguf_close(&file);
        fw_strbuf_fini(&all);
        fw_test_gguf_fini(&g);
    }
    static const char *const names[3] = {"t", "s", "t"};
    static const int64_t shape[1] = {9};
    const float values[9] = {0};
    fw_test_gguf g = {0};
    fw_strbuf all = {0};
    for (size_t i = 0; i < 3; i++) {
        fw_test_gguf_tensor(&g, names[i], FW_GGML_F32, shape, 1, values, sizeof values);
        fw_strbuf_clear(&all);
        fw_test_gguf_bytes(&g, &all);
        if (i < 2) {
            must(fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "t.gguf"));
            fw_gguf_close(&file);
        }
        if (i == 1) { /* 36 bytes each, 64 with padding: 32 is inside the first */
            char *offset = memmem(all.data, all.len_bytes, "\x40\0\0\0\0\0\0\0", 8);
            assert_non_null(offset);
            *offset = 32;
            expect_message(fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "t.gguf"), FW_ERR_INPUT,
                           "tensors t and s overlap");
        }
    }
    expect_message(fw_gguf_parse(&file, (const uint8_t *)all.data, all.len_bytes, "t.gguf"), FW_ERR_INPUT,
                   "tensor t is there twice");
    fw_strbuf_fini(&all);
    fw_test_gguf_fini(&g);
}

/* `text` with \0 inside is a file; the reader says `message`. */
static void refuse(const char *bytes, size_t n, const char *message) {
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    fw_gguf file;
    expect_message(fw_gguf_parse(&file, copy, n, "bad.gguf"), FW_ERR_INPUT, message);
    free(copy);
}
#define REFUSE(literal, message) refuse(literal, sizeof(literal) - 1, message)

#define HEAD(tensors, keys) "GGUF\3\0\0\0" tensors "\0\0\0\0\0\0\0" keys "\0\0\0\0\0\0\0"
#define KEY_K "\1\0\0\0\0\0\0\0k"
#define TENSOR_T "\1\0\0\0\0\0\0\0t"
#define U64(byte) byte "\0\0\0\0\0\0\0"

static void test_bad_files(void **state) {
    (void)state;
    REFUSE("", "does not start with \"GGUF\"");
    REFUSE("GGML\3\0\0\0", "does not start with \"GGUF\"");
    REFUSE("GGUF\1\0\0\0", "GGUF version 1; versions 2 and 3");
    REFUSE("GGUF\0\0\0\3", "(a big-endian file)");
    REFUSE("GGUF\3\0\0\0\1\0\0", "position 8: the number of tensors needs 8 bytes and 3 are left");
    REFUSE(HEAD("\0", "\xff"), "the list of keys needs 255 bytes");
    REFUSE("GGUF\3\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0", "the list of tensors needs");
    REFUSE(HEAD("\0", "\1") "\xff\xff\xff\xff\xff\xff\xff\x7f"
                            "kkkkkkkkkkkk",
           "a key needs 9223372036854775807 bytes");
    REFUSE(HEAD("\0", "\1") "\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\0\0", "the length of a key is 0");
    REFUSE(HEAD("\0", "\1") "\1\0\0\0\0\0\0\0\033\4\0\0\0\0\0\0\0\0\0", "control character 0x1b");
    REFUSE(HEAD("\0", "\1") KEY_K "\x0d\0\0\0\0\0\0\0", "key k has value type 13, which is not known");
    REFUSE(HEAD("\0", "\1") KEY_K "\x09\0\0\0\x09\0\0\0\1\0\0\0\0\0\0\0", "key k has element type 9");
    REFUSE(HEAD("\0", "\1") KEY_K "\x09\0\0\0\4\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "an array needs");
    REFUSE(HEAD("\0", "\1") KEY_K "\x09\0\0\0\x08\0\0\0\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "an array needs 255");
    REFUSE(HEAD("\0", "\2") KEY_K "\4\0\0\0\1\0\0\0" KEY_K "\4\0\0\0\1\0\0\0", "key k is there twice");
    REFUSE(HEAD("\1", "\1") "\x11\0\0\0\0\0\0\0general.alignment"
                            "\4\0\0\0\3\0\0\0" TENSOR_T "\1\0\0\0" U64("\1") "\0\0\0\0" U64("\0"),
           "general.alignment is 3; a power of two");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\5\0\0\0" U64("\1") "\0\0\0\0" U64("\0") "\0\0\0\0\0\0\0", "tensor t has 5 dim");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\0\0\0\0" U64("\1") "\0\0\0\0" U64("\0"), "tensor t has 0 dim");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\0") "\0\0\0\0" U64("\0"), "tensor t: size 0 is out of bounds");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\2\0\0\0"
                                     "\0\0\0\0\0\0\0\x40"
                                     "\4\0\0\0\0\0\0\0"
                                     "\0\0\0\0" U64("\0"),
           "tensor t: size");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0"
                                     "\xff\xff\xff\xff\xff\xff\xff\x7f"
                                     "\0\0\0\0" U64("\0"),
           "tensor t: its size overflows");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\1") "\x14\0\0\0" U64("\0"), "stored as IQ4_NL, which is not");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\1") "\x63\0\0\0" U64("\0"), "stored as type number 99");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\x21") "\x08\0\0\0" U64("\0"), "rows of 33 values are not made");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\1") "\0\0\0\0" U64("\4"), "offset 4 is not a multiple");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\1") "\0\0\0\0"
                                                          "\0\0\0\0\0\0\0\xff",
           "reach behind the end");
    REFUSE(HEAD("\1", "\0") TENSOR_T "\1\0\0\0" U64("\1") "\0\0\0\0" U64("\0"),
           "tensor t: 4 bytes at offset 0 reach behind the end; 0 bytes of data are there: the file is truncated");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
