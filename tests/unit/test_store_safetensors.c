/* safetensors: every damage has its message; what is written is read back; the n-th failure leaves nothing. */
#include "base/alloc.h"
#include "store/safetensors.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static char dir[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message;
} bad[] = {
    {"{", 0, "not valid JSON"},
    {"[]", 0, "not a JSON object"},
    {"{\"a\":1}", 0, "the header's entry a is not an object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a has no \"dtype\""},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor a has no \"shape\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor a: \"data_offsets\" must be"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a has the unknown dtype \"F33\""},
    {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "F8_E4M3, which is not supported"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", 20, "shape [2, 3] of F32 does not fit"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "size 0 of its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "size 0 of its shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4, "shape overflows"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "does not fit"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "has 9 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "two rising whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "two rising whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[4,12]}}",
     12, "tensors a and b overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[8,12]}}",
     12, "hole in the data before tensor b: bytes 4 to 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 5,
     "the file is truncated: header says 8 bytes of data, 5 are there"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 6, "2 bytes are behind the last tensor"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     4, "duplicate object key"},
    {"{\"__metadata__\":{\"format\":1}}", 0, "\"__metadata__\": \"format\" is not a string"},
    {"{\"__metadata__\":[]}", 0, "\"__metadata__\" is not an object"},
    {"{\"a\\u001b[31m\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "control character 0x1b"},
};

static void test_bad_headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = fw_test_path(dir, "bad.safetensors");
        fw_test_write_safetensors(path, bad[i].header, bad[i].data_bytes);
        fw_safetensors file;
        fw_status status = fw_safetensors_open(&file, path);
        expect_message(status, FW_ERR_INPUT, bad[i].message);
        expect_message(status, FW_ERR_INPUT, "bad.safetensors");
        assert_null(file.tensor);
    }
}

static void test_bad_lengths(void **state) {
    (void)state;
    fw_safetensors file;
    const char *path = fw_test_path(dir, "short.safetensors");
    expect_message(fw_safetensors_open(&file, path), FW_ERR_INPUT, "cannot open");
    fw_test_write(path, "", 0);
    expect_message(fw_safetensors_open(&file, path), FW_ERR_INPUT, "0 bytes, and the length of the header takes 8");
    fw_test_write(path, "\x40\0\0\0\0\0\0\0{}", 10);
    expect_message(fw_safetensors_open(&file, path), FW_ERR_INPUT, "64 bytes long, longer than the file (10 bytes)");
    fw_test_write(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect_message(fw_safetensors_open(&file, path), FW_ERR_INPUT, "18446744073709551615 bytes long");
    expect_message(fw_safetensors_open(&file, dir), FW_ERR_INPUT, "it is a folder");
}

static const fw_safetensors_entry entries[] = {
    {"second", FW_STORED_F32, 2, {2, 3}}, {"first", FW_STORED_BF16, 1, {5}}, {"empty", FW_STORED_F16, 2, {0, 7}},
    {"third", FW_STORED_F16, 1, {3}},     {"raw", FW_STORED_I64, 0, {0}},
};
enum { ENTRY_N = sizeof entries / sizeof *entries };
static const float values[14] = {1,     -2,    3.5f, 0.1f, 1e-30f,    7,        1.00390625f,
                                 -0.0f, 3e38f, 5,    6,    0.333333f, 65519.0f, -8};

static fw_status write_sample(const char *path) {
    fw_safetensors_writer w;
    fw_status status = fw_safetensors_writer_open(&w, path, entries, ENTRY_N, NULL);
    if (status != FW_OK) return status;
    int64_t raw = -5;
    FW_TRY_OR(fw_safetensors_writer_put_f32(&w, values, 1), done);
    FW_TRY_OR(fw_safetensors_writer_put_f32(&w, values + 1, 8), done); /* over the end of a tensor */
    FW_TRY_OR(fw_safetensors_writer_put_f32(&w, values + 9, 5), done);
    FW_TRY_OR(fw_safetensors_writer_put_bytes(&w, &raw, 3), done);
    FW_TRY_OR(fw_safetensors_writer_put_bytes(&w, (char *)&raw + 3, 5), done);
    FW_TRY_OR(fw_safetensors_writer_commit(&w), done);
done:
    fw_safetensors_writer_close(&w);
    return status;
}

static void test_round_trip(void **state) {
    (void)state;
    const char *path = fw_test_path(dir, "good.safetensors");
    assert_int_equal(write_sample(path), FW_OK);
    fw_safetensors file;
    assert_int_equal(fw_safetensors_open(&file, path), FW_OK);
    assert_int_equal(file.tensor_n, ENTRY_N);
    assert_string_equal(json_string_value(json_object_get(file.metadata, "format")), "pt");
    uint64_t bytes;
    assert_int_equal(fw_safetensors_file_bytes(&bytes, entries, ENTRY_N, NULL), FW_OK);
    assert_int_equal(bytes, fw_test_file_bytes(path));
    float out[6];
    const fw_stored_tensor *t = fw_safetensors_find(&file, "second");
    assert_non_null(t);
    assert_int_equal(t->offset_bytes % 8, 0);
    assert_int_equal(fw_safetensors_read_f32(out, &file, t, 0, 6), FW_OK);
    assert_memory_equal(out, values, 6 * sizeof *out);
    t = fw_safetensors_find(&file, "first");
    assert_int_equal(fw_safetensors_read_f32(out, &file, t, 1, 4), FW_OK);
    for (int i = 0; i < 4; i++) assert_true(out[i] == fw_bf16_to_f32(fw_bf16_from_f32(values[7 + i])));
    t = fw_safetensors_find(&file, "third");
    assert_int_equal(fw_safetensors_read_f32(out, &file, t, 2, 1), FW_OK);
    assert_true(out[0] == -8);
    assert_int_equal(fw_safetensors_read_f32(out, &file, fw_safetensors_find(&file, "empty"), 0, 0), FW_OK);
    t = fw_safetensors_find(&file, "raw");
    int64_t raw;
    memcpy(&raw, file.mapping.data + t->offset_bytes, sizeof raw);
    assert_int_equal(raw, -5);
    expect_message(fw_safetensors_read_f32(out, &file, t, 0, 1), FW_ERR_INPUT, "tensor raw is stored as I64");
    assert_null(fw_safetensors_find(&file, "fourth"));
    assert_null(fw_safetensors_find(&file, ""));
    fw_safetensors_close(&file);
}

static void test_writer_contract(void **state) {
    (void)state;
    const char *path = fw_test_path(dir, "contract.safetensors");
    fw_safetensors_writer w;
    assert_int_equal(fw_safetensors_writer_open(&w, path, entries, 2, NULL), FW_OK);
    assert_int_equal(fw_safetensors_writer_put_f32(&w, values, 10), FW_OK);
    expect_message(fw_safetensors_writer_commit(&w), FW_ERR_INTERNAL, "data is missing from tensor 2 of 2");
    assert_int_equal(fw_safetensors_writer_put_f32(&w, values, 1), FW_OK);
    expect_message(fw_safetensors_writer_put_f32(&w, values, 1), FW_ERR_INTERNAL, "more data than its tensors have");
    fw_safetensors_writer_close(&w);
    fw_safetensors_entry twice[2] = {entries[0], entries[0]};
    expect_message(fw_safetensors_writer_open(&w, path, twice, 2, NULL), FW_ERR_INTERNAL, "to be written twice");
    fw_safetensors_entry huge = {"huge", FW_STORED_F32, 3, {INT64_MAX, INT64_MAX, 4}};
    expect_message(fw_safetensors_writer_open(&w, path, &huge, 1, NULL), FW_ERR_INTERNAL, "overflows");
    assert_false(fw_file_exists(path));
}

/* The n-th write or allocation fails: an error, and nothing new in the folder. */
static void test_faults(void **state) {
    (void)state;
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    const char *path = fw_test_path(own, "f.safetensors");
    int failures = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        fw_file_fail_write_at(n);
        fw_status status = write_sample(path);
        fw_file_fail_write_at(0);
        if (status == FW_OK) break;
        expect_message(status, FW_ERR_IO, "No space left");
        assert_int_equal(fw_test_count_entries(own), 0);
        failures++;
    }
    assert_true(failures >= 1);
    failures = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        assert_int_equal(remove(path), failures == 0 ? 0 : -1);
        fw_alloc_fail_at(n);
        fw_status status = write_sample(path);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        expect_message(status, FW_ERR_NOMEM, "");
        assert_int_equal(fw_test_count_entries(own), 0);
        failures++;
    }
    assert_true(failures > 10);
    failures = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        fw_safetensors file;
        fw_alloc_fail_at(n);
        fw_status status = fw_safetensors_open(&file, path);
        fw_alloc_fail_at(0);
        if (status == FW_OK) {
            fw_safetensors_close(&file);
            break;
        }
        expect_message(status, FW_ERR_NOMEM, "");
        assert_null(file.tensor);
        failures++;
    }
    assert_true(failures > 10);
    fw_test_scratch_remove(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_headers),     cmocka_unit_test(test_bad_lengths), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_writer_contract), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
