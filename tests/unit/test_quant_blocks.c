/* Packing and unpacking against bitsandbytes, bit by bit: tests/data/quant/reference.json, which
 * tests/parity/make_quant_reference.py writes. */
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/json.h"
#include "quant/quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *reference;

static int open_reference(void **state) {
    (void)state;
    json_error_t error;
    reference = json_load_file(FW_TEST_DATA "/quant/reference.json", 0, &error);
    if (reference == NULL) print_error("%s\n", error.text);
    return reference == NULL;
}
static int close_reference(void **state) {
    (void)state;
    json_decref(reference);
    return 0;
}

static unsigned half_byte(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }
/* Bytes of a hex text; owned by the caller. */
static uint8_t *bytes_of(const json_t *text, int64_t *n) {
    const char *hex = json_string_value(text);
    assert_non_null(hex);
    *n = (int64_t)json_string_length(text) / 2;
    uint8_t *out;
    assert_int_equal(FW_NEW_ARRAY(out, (size_t)*n), FW_OK);
    for (int64_t i = 0; i < *n; i++) out[i] = (uint8_t)(half_byte(hex[2 * i]) << 4 | half_byte(hex[2 * i + 1]));
    return out;
}
/* Numbers written as the bits of fp32, the most significant byte first. */
static float *floats_of(const json_t *text, int64_t *n) {
    uint8_t *bytes = bytes_of(text, n);
    *n /= 4;
    float *out;
    assert_int_equal(FW_NEW_ARRAY(out, (size_t)*n), FW_OK);
    for (int64_t i = 0; i < *n; i++) {
        const uint8_t *b = bytes + 4 * i;
        const uint32_t word = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        memcpy(&out[i], &word, sizeof word);
    }
    fw_free(bytes);
    return out;
}

static void same_bytes(const char *what, const json_t *text, const void *ours, int64_t n) {
    int64_t expected_n;
    uint8_t *expected = bytes_of(text, &expected_n);
    assert_int_equal(expected_n, n);
    for (int64_t i = 0; i < n; i++)
        if (expected[i] != ((const uint8_t *)ours)[i])
            fail_msg("%s: byte %lld is %02x, bitsandbytes has %02x", what, (long long)i, ((const uint8_t *)ours)[i],
                     expected[i]);
    fw_free(expected);
}
static void same_floats(const char *what, const json_t *text, const float *ours, int64_t n) {
    int64_t expected_n;
    float *expected = floats_of(text, &expected_n);
    assert_int_equal(expected_n, n);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&expected[i], &ours[i], sizeof *ours) != 0)
            fail_msg("%s: number %lld is %a, bitsandbytes has %a", what, (long long)i, (double)ours[i],
                     (double)expected[i]);
    fw_free(expected);
}

static void test_maps(void **state) {
    (void)state;
    for (int kind = 0; kind < FW_QUANT_KIND_N; kind++) {
        const char *name = fw_quant_kind_name((fw_quant_kind)kind);
        same_floats(name, json_object_get(json_object_get(reference, "map4"), name), fw_quant_map4((fw_quant_kind)kind),
                    FW_QUANT_MAP4_N);
    }
    for (int with_sign = 0; with_sign < 2; with_sign++) {
        float map[FW_QUANT_MAP8_N];
        fw_quant_map8(map, with_sign);
        same_floats("dynamic map", json_array_get(json_object_get(reference, "map8"), (size_t)with_sign), map,
                    FW_QUANT_MAP8_N);
    }
}

typedef struct packed {
    int64_t n, block_n;
    uint8_t *code, *scale_code;
    float *absmax, *nested, *y, offset, map8[FW_QUANT_MAP8_N];
} packed;

static void open_packed(packed *p, int64_t n, int64_t block) {
    *p = (packed){.n = n, .block_n = fw_quant_block_n(n, block)};
    assert_int_equal(FW_NEW_ARRAY(p->code, (size_t)n), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(p->scale_code, (size_t)p->block_n), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(p->absmax, (size_t)p->block_n), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(p->nested, (size_t)p->block_n), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(p->y, (size_t)n), FW_OK);
    fw_quant_map8(p->map8, 1);
}
static void close_packed(packed *p) {
    fw_free(p->code);
    fw_free(p->scale_code);
    fw_free(p->absmax);
    fw_free(p->nested);
    fw_free(p->y);
}

/* FP4's code 8 is 0 with a sign in one loop of bitsandbytes and without in another: either will do. The bytes of bf16 lie
 * as little-endian machines have them. */
static void check_unpacked(const char *what, const json_t *c, fw_quant_kind kind, float *y, int64_t n) {
    int64_t expected_n;
    float *expected = floats_of(json_object_get(c, "unpacked"), &expected_n);
    for (int64_t i = 0; i < n && kind == FW_QUANT_FP4; i++)
        if (y[i] == 0 && expected[i] == 0) y[i] = expected[i];
    fw_free(expected);
    same_floats(what, json_object_get(c, "unpacked"), y, n);
    uint8_t *narrow = bytes_of(json_object_get(c, "unpacked_bf16"), &expected_n);
    assert_int_equal(expected_n, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        const unsigned theirs = narrow[2 * i] | (unsigned)narrow[2 * i + 1] << 8, ours = fw_bf16_from_f32(y[i]);
        const int flushed =
            (ours & 0x7f80) == 0 && (theirs & 0x7fff) == 0; /* subnormal bf16 to 0, where AVX-512 rounds */
        if (theirs != ours && !flushed)
            fail_msg("%s: bf16 number %lld is %04x, bitsandbytes has %04x", what, (long long)i, ours, theirs);
    }
    fw_free(narrow);
}

static void check_four_bit(const char *tensor, const json_t *c, const float *x, int64_t n) {
    const int64_t block = json_integer_value(json_object_get(c, "block"));
    const int nested = json_is_true(json_object_get(c, "nested"));
    fw_quant_kind kind;
    assert_int_equal(fw_quant_kind_parse(&kind, json_string_value(json_object_get(c, "kind"))), FW_OK);
    char what[128];
    snprintf(what, sizeof what, "%s, %s, blocks of %lld%s", tensor, fw_quant_kind_name(kind), (long long)block,
             nested ? ", nested" : "");
    packed p;
    open_packed(&p, n, block);
    assert_int_equal(fw_quant_pack4(p.code, p.absmax, x, n, block, kind), FW_OK);
    same_bytes(what, json_object_get(c, "code"), p.code, fw_quant_code_bytes(n));
    fw_quant_scales scales = {.block = block, .absmax = p.absmax};
    if (nested) {
        const fw_status status = fw_quant_nest(p.scale_code, p.nested, &p.offset, p.absmax, p.block_n, p.map8);
        int64_t one;
        float *offset = floats_of(json_object_get(c, "offset"), &one);
        const int overflows = !isfinite(*offset); /* the sum of scales: bitsandbytes goes on with no numbers */
        fw_free(offset);
        assert_int_equal(status, overflows ? FW_ERR_INPUT : FW_OK);
        if (overflows) {
            close_packed(&p);
            return;
        }
        same_bytes(what, json_object_get(c, "scale_code"), p.scale_code, p.block_n);
        same_floats(what, json_object_get(c, "nested_absmax"), p.nested,
                    fw_quant_block_n(p.block_n, FW_QUANT_NESTED_BLOCK));
        same_floats(what, json_object_get(c, "offset"), &p.offset, 1);
        scales = (fw_quant_scales){.block = block,
                                   .scale_code = p.scale_code,
                                   .map8 = p.map8,
                                   .nested = p.nested,
                                   .offset = &p.offset,
                                   .nested_block = FW_QUANT_NESTED_BLOCK};
    } else {
        same_floats(what, json_object_get(c, "absmax"), p.absmax, p.block_n);
    }
    fw_quant_unpack4(p.y, p.code, fw_quant_map4(kind), &scales, n);
    check_unpacked(what, c, kind, p.y, n);
    close_packed(&p);
}

static void check_eight_bit(const char *tensor, const json_t *c, const float *x, int64_t n) {
    const int64_t block = json_integer_value(json_object_get(c, "block"));
    const int with_sign = json_is_true(json_object_get(c, "signed"));
    packed p;
    open_packed(&p, n, block);
    fw_quant_map8(p.map8, with_sign);
    for (int64_t i = 0; i < n; i++) p.y[i] = with_sign ? x[i] : fabsf(x[i]);
    assert_int_equal(fw_quant_pack8(p.code, p.absmax, p.y, n, block, p.map8), FW_OK);
    same_bytes(tensor, json_object_get(c, "code"), p.code, n);
    same_floats(tensor, json_object_get(c, "absmax"), p.absmax, p.block_n);
    close_packed(&p);
}

static void test_tensors(void **state) {
    (void)state;
    size_t index, i;
    json_t *tensor, *c;
    json_array_foreach(json_object_get(reference, "tensors"), index, tensor) {
        const char *name = json_string_value(json_object_get(tensor, "name"));
        int64_t n;
        float *x = floats_of(json_object_get(tensor, "x"), &n);
        json_array_foreach(json_object_get(tensor, "four_bit"), i, c) check_four_bit(name, c, x, n);
        json_array_foreach(json_object_get(tensor, "eight_bit"), i, c) check_eight_bit(name, c, x, n);
        fw_free(x);
    }
    assert_true(index > 15);
}

/* The mean of scales decides every bit of double quantisation. */
static void test_means(void **state) {
    (void)state;
    size_t index;
    json_t *c;
    json_array_foreach(json_object_get(reference, "means"), index, c) {
        int64_t n;
        float *x = floats_of(json_object_get(c, "x"), &n);
        packed p;
        open_packed(&p, n, 1);
        assert_int_equal(fw_quant_nest(p.scale_code, p.nested, &p.offset, x, n, p.map8), FW_OK);
        same_floats("mean", json_object_get(c, "mean"), &p.offset, 1);
        close_packed(&p);
        fw_free(x);
    }
    assert_true(index > 5);
}

static void test_no_numbers(void **state) {
    (void)state;
    static const float bad[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    float map[FW_QUANT_MAP8_N], absmax[2], x[100];
    uint8_t code[100];
    fw_quant_map8(map, 1);
    for (int i = 0; i < 3; i++) {
        for (int at = 0; at < 100; at += 33) {
            for (int k = 0; k < 100; k++) x[k] = (float)k;
            x[at] = bad[i];
            char text[32];
            snprintf(text, sizeof text, "element %d is", at);
            assert_int_equal(fw_quant_pack4(code, absmax, x, 100, 64, FW_QUANT_NF4), FW_ERR_INPUT);
            assert_non_null(strstr(fw_trail_message(), text));
            assert_int_equal(fw_quant_pack8(code, absmax, x, 100, 64, map), FW_ERR_INPUT);
            assert_non_null(strstr(fw_trail_message(), text));
        }
    }
    fw_quant_kind kind;
    assert_int_equal(fw_quant_kind_parse(&kind, "nf5"), FW_ERR_OPTION);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_maps), cmocka_unit_test(test_tensors),
                                       cmocka_unit_test(test_means), cmocka_unit_test(test_no_numbers)};
    return cmocka_run_group_tests(tests, open_reference, close_reference);
}
