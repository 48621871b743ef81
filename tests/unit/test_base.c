/* base: number formats, trail, random numbers, threads, files, JSON messages. */
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/rng.h"
#include "base/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_dtype(void **state) {
    (void)state;
    /* every fp16 and bf16 value survives a trip through fp32 */
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float h = fw_f16_to_f32((fw_f16)bits);
        if (isnan(h))
            assert_true(isnan(fw_f16_to_f32(fw_f16_from_f32(h))));
        else
            assert_int_equal(fw_f16_from_f32(h), bits);
        float b = fw_bf16_to_f32((fw_bf16)bits);
        if (isnan(b))
            assert_true(isnan(fw_bf16_to_f32(fw_bf16_from_f32(b))));
        else
            assert_int_equal(fw_bf16_from_f32(b), bits);
    }
    /* ties go to even: 1 + 2^-8 lies halfway between two bf16 neighbours, and so does 1 + 3 * 2^-8 */
    assert_int_equal(fw_bf16_from_f32(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(fw_bf16_from_f32(1.0f + 3 * 0x1p-8f), 0x3f82);
    assert_int_equal(fw_f16_from_f32(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(fw_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(fw_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(fw_f16_from_f32(0x1p-25f), 0); /* tie with zero: even */
    assert_int_equal(fw_f16_from_f32(0x1.8p-25f), 1);
}

static fw_status fails(void) { return fw_fail(FW_ERR_INPUT, "value %d is bad", 7); }
static fw_status passes_on(void) {
    FW_TRY(fails());
    return FW_OK;
}

static void test_trail(void **state) {
    (void)state;
    assert_int_equal(passes_on(), FW_ERR_INPUT);
    fw_trail trail;
    fw_trail_copy(&trail);
    assert_int_equal(trail.frame_n, 2);
    assert_string_equal(trail.frame[0].function, "fails");
    assert_string_equal(trail.frame[1].function, "passes_on");
    fw_fail_context(FW_ERR_INPUT, "file %s: ", "x");
    assert_string_equal(fw_trail_message(), "file x: value 7 is bad");
}

static void test_permute(void **state) {
    (void)state;
    enum { N = 1000 };
    uint32_t order[N], again[N];
    bool seen[N] = {false};
    fw_rng_permute(42, 3, order, N);
    fw_rng_permute(42, 3, again, N);
    assert_memory_equal(order, again, sizeof order);
    for (int i = 0; i < N; i++) {
        assert_true(order[i] < N && !seen[order[i]]);
        seen[order[i]] = true;
    }
    fw_rng_permute(42, 4, again, N);
    assert_memory_not_equal(order, again, sizeof order);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        double x = fw_rng_normal(1, 2, i);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 20000) < 0.03 && fabs(squares / 20000 - 1) < 0.04);
}

static void add_one(void *context, int index, int thread_n) {
    int64_t first, last, *cell = context;
    fw_threads_split(&first, &last, 1001, 16, index, thread_n);
    for (int64_t i = first; i < last; i++) cell[i]++;
}

static void test_threads(void **state) {
    (void)state;
    for (int n = 1; n <= 5; n++) {
        fw_threads *pool;
        static int64_t cell[1001];
        memset(cell, 0, sizeof cell);
        assert_int_equal(fw_threads_create(&pool, n, NULL), FW_OK);
        for (int round = 0; round < 300; round++) fw_threads_run(pool, add_one, cell);
        fw_threads_destroy(pool);
        for (int i = 0; i < 1001; i++) assert_int_equal(cell[i], 300);
    }
}

static void test_file(void **state) {
    (void)state;
    char dir[] = "/tmp/fw-test-XXXXXX", path[128], tmp[160];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b/c.txt", dir);
    assert_int_equal(fw_file_write(path, "x", 1), FW_ERR_IO); /* folder missing */
    snprintf(tmp, sizeof tmp, "%s/a/b", dir);
    assert_int_equal(fw_dir_make(tmp), FW_OK);
    assert_int_equal(fw_file_write(path, "hello", 5), FW_OK);
    fw_file_fail_write_at(1);
    assert_int_equal(fw_file_write(path, "other", 5), FW_ERR_IO);
    assert_non_null(strstr(fw_trail_message(), "No space left"));
    fw_mapping map;
    assert_int_equal(fw_file_map(&map, path), FW_OK);
    assert_int_equal(map.bytes, 5);
    assert_memory_equal(map.data, "hello", 5); /* the failed write changed nothing */
    fw_file_unmap(&map);
    char pipe_path[176];
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", tmp);
    assert_int_equal(mkfifo(pipe_path, 0600), 0); /* nobody writes into it: reading it must not wait */
    assert_int_equal(fw_file_map(&map, pipe_path), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "not a plain file"));
    unlink(pipe_path);
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, tmp), FW_OK);
    assert_int_equal(n, 1); /* and left no temporary file */
    fw_dir_list_free(names, n);
    assert_int_equal(fw_dir_remove(dir), FW_OK);
    assert_false(fw_dir_exists(dir));
}

/* What the quick reader takes, what it leaves to jansson; tests/fuzz/fuzz_json.c compares their values. */
static void test_json_read(void **state) {
    (void)state;
    static const char *const taken[] = {"{\"model\": {\"vocab\": {\"\xc4\xa0the\": 0}, \"merges\": [[\"a\", \"b\"]]}}",
                                        "[0, -12, 999999999999999999, true, false, null]", " \"a\\n\\u00e9\\\"\" "};
    static const char *const left[] = {"",
                                       "1.5",
                                       "1e3",
                                       "1234567890123456789",
                                       "01",
                                       "tru",
                                       "truex",
                                       "[1,]",
                                       "[1",
                                       "{\"a\":1,\"a\":2}",
                                       "\"\\u0000\"",
                                       "\"\\ud83d\\ude00\"",
                                       "\"\xc0\xaf\"",
                                       "\"\xed\xa0\x80\"",
                                       "\"a\nb\"",
                                       "1 2",
                                       "{\"a\" 1}",
                                       "\"a\\"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        json_t *value = fw_json_read(taken[i], strlen(taken[i]));
        if (value == NULL) fail_msg("left to jansson: %s", taken[i]);
        json_decref(value);
    }
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (fw_json_read(left[i], strlen(left[i])) != NULL) fail_msg("not left to jansson: %s", left[i]);
}

static void test_json(void **state) {
    (void)state;
    json_t *value;
    const char *bad = "{\"a\": 1,\n \"b\": }";
    assert_int_equal(fw_json_parse(&value, bad, strlen(bad), "f.jsonl", 10), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "f.jsonl:11:"));
    const char *good = "\xef\xbb\xbf{\"a\": 5, \"s\": \"t\", \"z\": \"\\u0000\"}";
    assert_int_equal(fw_json_parse(&value, good, strlen(good), "f", 1), FW_OK);
    int64_t a;
    const char *s;
    assert_int_equal(fw_json_get_int(&a, value, "a", 0, 0, 4, "f"), FW_ERR_INPUT);
    assert_string_equal(fw_trail_message(), "f: \"a\" is 5; it must be from 0 to 4");
    assert_int_equal(fw_json_get_int(&a, value, "missing", 9, 0, 4, "f"), FW_OK);
    assert_int_equal(a, 9);
    assert_int_equal(fw_json_get_string(&s, value, "a", NULL, "f"), FW_ERR_INPUT);
    assert_int_equal(fw_json_get_string(&s, value, "z", NULL, "f"), FW_ERR_INPUT);
    json_decref(value);
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    const char *text = "{\"a\": [1, 2, {\"b\": \"c\"}]}";
    json_t *value;
    uint64_t n = 1;
    for (;; n++) {
        fw_alloc_fail_at(n);
        fw_status status = fw_json_parse(&value, text, strlen(text), "f", 1);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_true(n > 3);
    fw_strbuf whole = {0};
    assert_int_equal(fw_json_dump(&whole, value, JSON_COMPACT), FW_OK);
    assert_string_equal(fw_strbuf_text(&whole), "{\"a\":[1,2,{\"b\":\"c\"}]}");
    for (n = 1;; n++) { /* never a text that lacks a piece */
        fw_strbuf out = {0};
        fw_alloc_fail_at(n);
        fw_status status = fw_json_dump(&out, value, JSON_COMPACT);
        fw_alloc_fail_at(0);
        if (status == FW_OK) assert_string_equal(fw_strbuf_text(&out), fw_strbuf_text(&whole));
        fw_strbuf_fini(&out);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_true(n > 3);
    fw_strbuf_clear(&whole);
    json_decref(value);
    text = "[1e-5,0.1,3.0,0.30000000000000004,1e300]";
    assert_int_equal(fw_json_parse(&value, text, strlen(text), "f", 1), FW_OK);
    assert_int_equal(fw_json_dump(&whole, value, JSON_COMPACT), FW_OK);
    assert_string_equal(fw_strbuf_text(&whole),
                        "[1.0000000000000001e-5,0.10000000000000001,3.0,0.30000000000000004,1.0000000000000001e300]");
    json_array_remove(value, 3);
    fw_strbuf_clear(&whole);
    assert_int_equal(fw_json_dump(&whole, value, JSON_COMPACT), FW_OK);
    assert_string_equal(fw_strbuf_text(&whole), "[1e-5,0.1,3.0,1e300]"); /* as few digits as tell the values apart */
    fw_strbuf_fini(&whole);
    json_decref(value);
}

/* Values of the public xxhash package. */
static void test_hash(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint64_t value;
    } known[] = {{0, 0xef46db3751d8e999u},   {13, 0xf78b031308f5bfc8u},  {26, 0x76a5852d6e1cab15u},
                 {39, 0x880bbeea606e4b37u},  {52, 0xe3bba384bc67d6eeu},  {117, 0x3a5c7c3ef48535abu},
                 {130, 0x96ec2d682f7eb97fu}, {182, 0x73b37d533105e1b1u}, {195, 0x3bbfd4520357f536u}};
    uint8_t bytes[200];
    for (int i = 0; i < 200; i++) bytes[i] = (uint8_t)(i * 7 + 3);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        assert_true(fw_hash_bytes(bytes, known[k].n) == known[k].value);
        for (size_t piece = 1; piece < 70; piece += 6) { /* however it is fed */
            fw_hash h;
            fw_hash_init(&h);
            for (size_t at = 0; at < known[k].n; at += piece)
                fw_hash_update(&h, bytes + at, known[k].n - at < piece ? known[k].n - at : piece);
            assert_true(fw_hash_value(&h) == known[k].value);
        }
    }
}

/* tokenizer_config.json of most folders says 10^30 for "no limit". */
static void test_json_big_integers(void **state) {
    (void)state;
    const char *text = "{\"max\": 1000000000000000019884624838656, \"low\": -99999999999999999999,\n"
                       " \"fits\": 9223372036854775807, \"least\": -9223372036854775808,\n"
                       " \"text\": \"\\\"1000000000000000019884624838656\", \"real\": 1234567890123456789012.5e-3}";
    json_t *object;
    assert_int_equal(fw_json_parse(&object, text, strlen(text), "f", 1), FW_OK);
    double value;
    int64_t number;
    const char *string;
    assert_int_equal(fw_json_get_double(&value, object, "max", 0, 0, 1e40, "f"), FW_OK);
    assert_true(fabs(value / 1e30 - 1) < 1e-15);
    assert_int_equal(fw_json_get_double(&value, object, "low", 0, -1e40, 1e40, "f"), FW_OK);
    assert_true(fabs(value / -1e20 - 1) < 1e-15);
    assert_int_equal(fw_json_get_double(&value, object, "real", 0, 0, 1e40, "f"), FW_OK);
    assert_true(fabs(value / 1234567890123456789.0125 - 1) < 1e-15);
    assert_int_equal(fw_json_get_int(&number, object, "fits", 0, INT64_MIN, INT64_MAX, "f"), FW_OK);
    assert_true(number == INT64_MAX);
    assert_int_equal(fw_json_get_int(&number, object, "least", 0, INT64_MIN, INT64_MAX, "f"), FW_OK);
    assert_true(number == INT64_MIN);
    assert_int_equal(fw_json_get_int(&number, object, "max", 0, 1, 4096, "f"), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "\"max\" is 1e+30; it must be from 1 to 4096"));
    assert_int_equal(fw_json_get_string(&string, object, "text", "", "f"), FW_OK);
    assert_string_equal(string, "\"1000000000000000019884624838656");
    json_decref(object);
    /* positions stay what they are in the file; a number that no real can hold is still refused */
    text = "[10000000000000000000000, 2,\n 3 4]";
    assert_int_equal(fw_json_parse(&object, text, strlen(text), "f", 1), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "f:2:4:"));
    text = "[10000000000000000000000, 1e999]";
    assert_int_equal(fw_json_parse(&object, text, strlen(text), "f", 1), FW_ERR_INPUT);
    text = "[1, 10000000000000000000000";
    assert_int_equal(fw_json_parse(&object, text, strlen(text), "f", 1), FW_ERR_INPUT);
    for (uint64_t n = 1; n < 30; n++) { /* with memory failing anywhere on the way */
        text = "[10000000000000000000000]";
        fw_alloc_fail_at(n);
        fw_status status = fw_json_parse(&object, text, strlen(text), "f", 1);
        fw_alloc_fail_at(0);
        assert_true(status == FW_OK || status == FW_ERR_NOMEM);
        if (status == FW_OK) json_decref(object);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype),     cmocka_unit_test(test_trail),   cmocka_unit_test(test_json_big_integers),
        cmocka_unit_test(test_permute),   cmocka_unit_test(test_threads), cmocka_unit_test(test_file),
        cmocka_unit_test(test_json_read), cmocka_unit_test(test_json),    cmocka_unit_test(test_nth_allocation_fails),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
