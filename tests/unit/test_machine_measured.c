/* Measurements: what is written is read back, the newest of a key is found, times between points are those of the line
 * through them, and files that cannot be true are refused by name. */
#include "base/alloc.h"
#include "base/file.h"
#include "machine/measured.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[FW_TEST_PATH_BYTES];

static fw_measured_record link_record(int world, fw_dtype dtype, double seconds) {
    return (fw_measured_record){.key = {.what = FW_MEASURED_ALL_REDUCE,
                                        .host = "here: a CPU, 2 CPUs",
                                        .device = "cpu",
                                        .transport = "shm",
                                        .world = world,
                                        .thread_n = 1,
                                        .dtype = dtype},
                                .date = "2026-11-29",
                                .point_n = 3,
                                .point = {{1024, seconds}, {2048, 2 * seconds}, {8192, 1.0 / 3}}};
}

/* Numbers that binary fractions hold exactly. */
static void test_seconds(void **state) {
    (void)state;
    const fw_measured_record r = {.point_n = 3, .point = {{1000, 2}, {2000, 3}, {10000, 5}}};
    assert_true(fw_measured_seconds(&r, 0) == 0);
    assert_true(fw_measured_seconds(&r, 10) == 2); /* the latency */
    assert_true(fw_measured_seconds(&r, 1000) == 2);
    assert_true(fw_measured_seconds(&r, 1500) == 2.5);
    assert_true(fw_measured_seconds(&r, 6000) == 4);
    assert_true(fw_measured_seconds(&r, 10000) == 5);
    assert_true(fw_measured_seconds(&r, 40000) == 20);
    assert_true(fw_measured_rate(&r) == 2000);
}

static void test_put_and_find(void **state) {
    (void)state;
    fw_measured m = {0};
    fw_measured_record two = link_record(2, FW_F32, 1e-6), four = link_record(4, FW_F32, 1e-6),
                       newer = link_record(2, FW_F32, 7e-6), bf16 = link_record(2, FW_BF16, 1e-6);
    assert_int_equal(fw_measured_put(&m, &two), FW_OK);
    assert_int_equal(fw_measured_put(&m, &four), FW_OK);
    assert_int_equal(fw_measured_put(&m, &newer), FW_OK);
    assert_int_equal(m.record_n, 2); /* replaced */
    assert_int_equal(fw_measured_put(&m, &bf16), FW_OK);
    fw_measured_key key = {.what = FW_MEASURED_ALL_REDUCE, .transport = "shm", .world = 2, .dtype = FW_F32};
    const fw_measured_record *found = fw_measured_find(&m, &key);
    assert_non_null(found);
    assert_true(found->point[0].seconds == 7e-6);
    key.dtype = FW_DTYPE_N;
    assert_int_equal(fw_measured_find(&m, &key)->key.dtype, FW_BF16); /* the last of those that fit */
    key.world = 3;
    assert_null(fw_measured_find(&m, &key));
    key = (fw_measured_key){.what = FW_MEASURED_ALL_REDUCE, .host = "elsewhere", .dtype = FW_DTYPE_N};
    assert_null(fw_measured_find(&m, &key));
    key = (fw_measured_key){.what = FW_MEASURED_GEMM, .dtype = FW_DTYPE_N};
    assert_null(fw_measured_find(&m, &key));
    fw_measured_fini(&m);
}

static void test_file(void **state) {
    (void)state;
    char path[FW_TEST_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/made/for/it/measured.json", folder);
    fw_measured m, again;
    assert_int_equal(fw_measured_load(&m, path), FW_OK); /* nothing there: nothing known */
    assert_int_equal(m.record_n, 0);
    fw_measured_record link = link_record(2, FW_F32, 1.1e-6);
    fw_measured_record disk = {
        .key = {.what = FW_MEASURED_DISK_WRITE, .device = "/data", .world = 1, .dtype = FW_DTYPE_N},
        .point_n = 1,
        .point = {{1e9, 0.7}}};
    assert_int_equal(fw_measured_put(&m, &link), FW_OK);
    assert_int_equal(fw_measured_put(&m, &disk), FW_OK);
    assert_int_equal(fw_measured_save(&m, path), FW_OK);
    assert_int_equal(fw_measured_load(&again, path), FW_OK);
    assert_int_equal(again.record_n, 2);
    for (int i = 0; i < 2; i++) {
        const fw_measured_record *a = &m.record[i], *b = &again.record[i];
        assert_int_equal(a->key.what, b->key.what);
        assert_string_equal(a->key.host, b->key.host);
        assert_string_equal(a->key.device, b->key.device);
        assert_string_equal(a->key.transport, b->key.transport);
        assert_int_equal(a->key.world, b->key.world);
        assert_int_equal(a->key.thread_n, b->key.thread_n);
        assert_int_equal(a->key.dtype, b->key.dtype);
        assert_string_equal(a->date, b->date);
        assert_int_equal(a->point_n, b->point_n);
        assert_memory_equal(a->point, b->point, (size_t)a->point_n * sizeof a->point[0]);
    }
    /* a failed write leaves what was there */
    fw_file_fail_write_at(1);
    assert_int_equal(fw_measured_save(&m, path), FW_ERR_IO);
    fw_file_fail_write_at(0);
    fw_measured_fini(&again);
    assert_int_equal(fw_measured_load(&again, path), FW_OK);
    assert_int_equal(again.record_n, 2);
    fw_measured_fini(&again);
    fw_measured_fini(&m);
}

static void refused(const char *text, const char *why) {
    fw_measured m;
    assert_int_equal(fw_measured_parse(&m, text, strlen(text), "measured.json"), FW_ERR_INPUT);
    if (strstr(fw_trail_message(), why) == NULL || strstr(fw_trail_message(), "measured.json") == NULL)
        fail_msg("\"%s\" does not say \"%s\"", fw_trail_message(), why);
    assert_null(m.record);
}

static void test_hostile(void **state) {
    (void)state;
#define RECORD(fields) "{\"format\": \"finewire measured 1\", \"records\": [" fields "]}"
    refused("", "not valid JSON");
    refused("[]", "must be an object");
    refused("{}", "format");
    refused("{\"format\": \"finewire measured 2\", \"records\": []}", "another version");
    refused("{\"format\": \"finewire measured 1\"}", "must be a list");
    refused(RECORD("7"), "records[0]");
    refused(RECORD("{\"what\": \"tea\"}"), "tea");
    refused(RECORD("{\"what\": \"gemm\", \"points\": [[1, 1]]}"), "\"world\" is missing");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 0, \"points\": [[1, 1]]}"), "\"world\" is 0");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"threads\": -1, \"points\": [[1, 1]]}"), "\"threads\" is -1");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"dtype\": \"fp7\", \"points\": [[1, 1]]}"), "fp7");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1}"), "points");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": []}"), "points");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": [[1, 0]]}"), "point 0");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": [[1, 1e300]]}"), "point 0");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": [[1, \"1\"]]}"), "point 0");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": [[1, 1, 1]]}"), "point 0");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"points\": [[2, 1], [2, 1]]}"), "point 1");
    refused(RECORD("{\"what\": \"gemm\", \"world\": 1, \"transport\": \"0123456789abcdef\", \"points\": [[1, 1]]}"),
            "transport");
#undef RECORD
}

static void test_path(void **state) {
    (void)state;
    char *path;
    setenv("FINEWIRE_MEASURED", "/a/b.json", 1);
    setenv("XDG_CONFIG_HOME", "/config", 1);
    setenv("HOME", "/people/me", 1);
#define EXPECT(given, text)                                                                                            \
    assert_int_equal(fw_measured_path(&path, given), FW_OK);                                                           \
    assert_string_equal(path, text);                                                                                   \
    fw_free(path)
    EXPECT("mine.json", "mine.json");
    EXPECT(NULL, "/a/b.json");
    unsetenv("FINEWIRE_MEASURED");
    EXPECT("", "/config/finewire/measured.json");
    setenv("XDG_CONFIG_HOME", "not/absolute", 1); /* the specification: to be ignored */
    EXPECT(NULL, "/people/me/.config/finewire/measured.json");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
#undef EXPECT
    assert_int_equal(fw_measured_path(&path, NULL), FW_ERR_OPTION);
}

static void test_allocations(void **state) {
    (void)state;
    char path[FW_TEST_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/measured.json", folder);
    fw_measured m = {0}, again;
    fw_measured_record link = link_record(2, FW_F32, 1e-6);
    assert_int_equal(fw_measured_put(&m, &link), FW_OK);
    assert_int_equal(fw_measured_save(&m, path), FW_OK);
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_alloc_fail_at(n);
        status = fw_measured_save(&m, path);
        fw_alloc_fail_at(0);
        assert_true(status == FW_OK || status == FW_ERR_NOMEM);
    }
    status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_alloc_fail_at(n);
        status = fw_measured_load(&again, path);
        fw_alloc_fail_at(0);
        assert_true(status == FW_OK || status == FW_ERR_NOMEM);
    }
    assert_int_equal(again.record_n, 1);
    fw_measured_fini(&again);
    fw_measured_fini(&m);
}

static void test_host(void **state) {
    (void)state;
    char host[FW_MEASURED_TEXT_BYTES], again[FW_MEASURED_TEXT_BYTES];
    fw_measured_host(host);
    fw_measured_host(again);
    assert_string_equal(host, again);
    assert_non_null(strstr(host, ": "));
    assert_non_null(strstr(host, " CPU"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seconds), cmocka_unit_test(test_put_and_find), cmocka_unit_test(test_file),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_path),         cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_host),
    };
    fw_test_scratch_make(folder);
    int failed_n = cmocka_run_group_tests(tests, NULL, NULL);
    fw_test_scratch_remove(folder);
    return failed_n;
}
