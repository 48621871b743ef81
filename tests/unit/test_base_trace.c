/* base: the trace recorder and its file, read back with jansson. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/threads.h"
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/scratch.h"

static char dir[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_trace_stop();
    fw_test_scratch_remove(dir);
    return 0;
}

/* The file as JSON; release with json_decref. */
static json_t *load(const char *path) {
    json_t *file;
    assert_int_equal(fw_json_load(&file, path, 1 << 24), FW_OK);
    assert_true(json_is_array(json_object_get(file, "traceEvents")));
    return file;
}

static int64_t number(const json_t *object, const char *key) {
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    assert_non_null(value);
    return value;
}

/* The n-th event of this phase of a rank, NULL after the last. */
static const json_t *event(const json_t *file, const char *phase, int rank, int n) {
    size_t i;
    const json_t *e;
    json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
        if (strcmp(text(e, "ph"), phase) != 0 || number(e, "pid") != rank) continue;
        if (n-- == 0) return e;
    }
    return NULL;
}

/* The arguments of the only metadata event of this name, rank and lane. */
static const json_t *metadata(const json_t *file, const char *name, int rank, int lane) {
    const json_t *e, *found = NULL;
    for (int i = 0; (e = event(file, "M", rank, i)) != NULL; i++) {
        if (strcmp(text(e, "name"), name) != 0 || number(e, "tid") != lane) continue;
        assert_null(found);
        found = json_object_get(e, "args");
    }
    return found;
}

static void assert_span(const json_t *e, const char *name, int lane, double ts_us, double dur_us) {
    assert_non_null(e);
    assert_string_equal(text(e, "name"), name);
    assert_int_equal(number(e, "tid"), lane);
    assert_true(fabs(json_number_value(json_object_get(e, "ts")) - ts_us) < 1e-4);
    assert_true(fabs(json_number_value(json_object_get(e, "dur")) - dur_us) < 1e-4);
}

static void record_rank(const char *path, int rank) {
    assert_int_equal(fw_trace_start(16), FW_OK);
    assert_true(fw_trace_on());
    /* inner spans end, and so are recorded, before the outer one; both begin together */
    fw_trace_span(FW_TRACE_STEP, "forward", 1000000, 1500250);
    fw_trace_span(FW_TRACE_STEP, "step", 1000000, 4000000);
    fw_trace_span(FW_TRACE_STEP, "backward", 1500250, 3999999);
    fw_trace_span(FW_TRACE_COMM, "backwards in time", 900, 800);
    assert_int_equal(fw_trace_file_append(path, rank), FW_OK);
    assert_false(fw_trace_on());
}

static void test_ranks_append_in_turn(void **state) {
    (void)state;
    const char *path = fw_test_path(dir, "trace.json");
    assert_int_equal(fw_trace_file_begin(path, 3), FW_OK);
    for (int rank = 0; rank < 3; rank++) record_rank(path, rank);
    assert_false(fw_file_exists(path));
    assert_int_equal(fw_trace_file_end(path), FW_OK);
    assert_int_equal(fw_test_count_entries(dir), 1);

    json_t *file = load(path);
    assert_int_equal(number(metadata(file, "finewire_run", 0, 0), "world"), 3);
    for (int rank = 0; rank < 3; rank++) {
        char name[32];
        snprintf(name, sizeof name, "rank %d", rank);
        assert_string_equal(text(metadata(file, "process_name", rank, 0), "name"), name);
        assert_int_equal(number(metadata(file, "process_sort_index", rank, 0), "sort_index"), rank);
        const char *const lanes[] = {"step", "compute", "wait", "communication", "host", "behind"};
        for (int lane = 0; lane < FW_TRACE_LANE_N; lane++) {
            assert_string_equal(text(metadata(file, "thread_name", rank, lane), "name"), lanes[lane]);
            assert_int_equal(number(metadata(file, "thread_sort_index", rank, lane), "sort_index"), lane);
        }
        assert_null(metadata(file, "process_labels", rank, 0));
        assert_int_equal(number(metadata(file, "finewire_spans", rank, 0), "kept"), 4);
        /* the outer span stands before those inside it */
        assert_span(event(file, "X", rank, 0), "step", FW_TRACE_STEP, 1000, 3000);
        assert_span(event(file, "X", rank, 1), "forward", FW_TRACE_STEP, 1000, 500.25);
        assert_span(event(file, "X", rank, 2), "backward", FW_TRACE_STEP, 1500.25, 2499.749);
        assert_span(event(file, "X", rank, 3), "backwards in time", FW_TRACE_COMM, 0.9, 0);
        assert_null(event(file, "X", rank, 4));
    }
    json_decref(file);
}

/* Every name becomes valid JSON that reads back as what it was, but for bytes that are no characters. */
static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *given, *read;
    } cases[] = {
        {"say \"block\\3\"", "say \"block\\3\""},
        {"line\nfeed\ttab\x01", "line\nfeed\ttab\x01"},
        {"", ""},
        {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\xff\xc3(\xe2\x82", "a("},                   /* not UTF-8 */
        {"\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf.", "."}, /* surrogates, beyond Unicode, overlong */
        {"0123456789012345678901234567890123456789012345678", "01234567890123456789012345678901234567890123456"},
        {"012345678901234567890123456789012345678901234\xe2\x82\xac", "012345678901234567890123456789012345678901234"},
    };
    const char *path = fw_test_path(dir, "names.json");
    const int n = sizeof cases / sizeof cases[0];
    assert_int_equal(fw_trace_start(n), FW_OK);
    for (int i = 0; i < n; i++)
        fw_trace_span(FW_TRACE_HOST, cases[i].given, (uint64_t)i * 1000, (uint64_t)i * 1000 + 1);
    assert_int_equal(fw_trace_file_begin(path, 1), FW_OK);
    assert_int_equal(fw_trace_file_append(path, 0), FW_OK);
    assert_int_equal(fw_trace_file_end(path), FW_OK);
    json_t *file = load(path);
    for (int i = 0; i < n; i++) assert_span(event(file, "X", 0, i), cases[i].read, FW_TRACE_HOST, i, 0.001);
    json_decref(file);
}

enum { THREAD_N = 4, EACH_N = 500, BUFFER_N = 1500 };

static void record_many(void *context, int index, int thread_n) {
    (void)context;
    (void)thread_n;
    char name[32];
    for (int i = 0; i < EACH_N; i++) {
        snprintf(name, sizeof name, "%d.%d", index, i);
        fw_trace_span((fw_trace_lane)index, name, (uint64_t)i * 1000, (uint64_t)i * 1000 + 500);
    }
}

/* Four threads record more than the buffer holds: what is kept is whole, each span once, and the rest is counted. */
static void test_threads_and_overflow(void **state) {
    (void)state;
    const char *path = fw_test_path(dir, "full.json");
    fw_threads *pool;
    assert_int_equal(fw_threads_create(&pool, THREAD_N, NULL), FW_OK);
    assert_int_equal(fw_trace_start(BUFFER_N), FW_OK);
    fw_threads_run(pool, record_many, NULL);
    fw_threads_destroy(pool);
    uint64_t kept_n, dropped_n;
    fw_trace_counts(&kept_n, &dropped_n);
    assert_int_equal(kept_n, BUFFER_N);
    assert_int_equal(dropped_n, THREAD_N * EACH_N - BUFFER_N);
    assert_int_equal(fw_trace_file_begin(path, 8), FW_OK);
    assert_int_equal(fw_trace_file_append(path, 7), FW_OK);
    assert_int_equal(fw_trace_file_end(path), FW_OK);

    json_t *file = load(path);
    static unsigned char seen[THREAD_N][EACH_N];
    memset(seen, 0, sizeof seen);
    size_t i, span_n = 0;
    const json_t *e;
    json_array_foreach(json_object_get(file, "traceEvents"), i, e) { /* event() would walk the list each time */
        if (strcmp(text(e, "ph"), "X") != 0) continue;
        int thread, at;
        assert_int_equal(sscanf(text(e, "name"), "%d.%d", &thread, &at), 2);
        assert_in_range(thread, 0, THREAD_N - 1);
        assert_in_range(at, 0, EACH_N - 1);
        assert_span(e, text(e, "name"), thread, at, 0.5);
        assert_int_equal(seen[thread][at]++, 0);
        span_n++;
    }
    assert_int_equal(span_n, BUFFER_N);
    assert_int_equal(number(metadata(file, "finewire_spans", 7, 0), "kept"), BUFFER_N);
    assert_int_equal(number(metadata(file, "finewire_spans", 7, 0), "dropped"), THREAD_N * EACH_N - BUFFER_N);
    assert_string_equal(text(metadata(file, "process_labels", 7, 0), "labels"), "500 later spans dropped");
    json_decref(file);
}

static void test_off(void **state) {
    (void)state;
    uint64_t kept_n, dropped_n;
    fw_trace_stop();
    assert_false(fw_trace_on());
    fw_trace_span(FW_TRACE_STEP, "nobody listens", 1, 2);
    fw_trace_counts(&kept_n, &dropped_n);
    assert_int_equal(kept_n + dropped_n, 0);
    /* a rank that recorded nothing still has its lanes in the file; a second start forgets the first */
    const char *path = fw_test_path(dir, "off.json");
    assert_int_equal(fw_trace_start(4), FW_OK);
    fw_trace_span(FW_TRACE_STEP, "forgotten", 1, 2);
    assert_int_equal(fw_trace_start(4), FW_OK);
    assert_int_equal(fw_trace_file_begin(path, 1), FW_OK);
    assert_int_equal(fw_trace_file_append(path, 0), FW_OK);
    assert_int_equal(fw_trace_file_end(path), FW_OK);
    json_t *file = load(path);
    assert_null(event(file, "X", 0, 0));
    assert_int_equal(number(metadata(file, "finewire_spans", 0, 0), "kept"), 0);
    json_decref(file);
}

static fw_status whole_life(const char *path) {
    fw_status status;
    FW_TRY_OR(fw_trace_file_check(path), fail);
    FW_TRY_OR(fw_trace_start(8), fail);
    fw_trace_span(FW_TRACE_STEP, "step", 10, 20);
    FW_TRY_OR(fw_trace_file_begin(path, 1), fail);
    FW_TRY_OR(fw_trace_file_append(path, 0), fail);
    FW_TRY_OR(fw_trace_file_end(path), fail);
    fw_trace_stop();
    return FW_OK;
fail:
    fw_trace_file_cancel(path);
    fw_trace_stop();
    return status;
}

static void test_bad_paths(void **state) {
    (void)state;
    assert_int_equal(fw_trace_file_begin(dir, 1), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "a folder"));
    assert_int_equal(fw_trace_file_begin("/dev/null", 1), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "not a plain file"));
    const char *nowhere = fw_test_path(dir, "missing/trace.json");
    assert_int_equal(fw_trace_file_begin(nowhere, 1), FW_ERR_IO);
    assert_non_null(strstr(fw_trail_message(), nowhere));
    const char *path = fw_test_path(dir, "never_begun.json");
    assert_int_equal(fw_trace_file_append(path, 0), FW_ERR_IO);
    assert_int_equal(fw_trace_file_end(path), FW_ERR_IO);
    fw_trace_file_cancel(path);
    /* asked before: the same answers, and nothing is left behind */
    assert_int_equal(fw_trace_file_check(dir), FW_ERR_OPTION);
    assert_int_equal(fw_trace_file_check("/dev/null"), FW_ERR_OPTION);
    assert_int_equal(fw_trace_file_check(nowhere), FW_ERR_IO);
    assert_non_null(strstr(fw_trail_message(), "--trace"));
    assert_int_equal(fw_trace_file_check(path), FW_OK);
    assert_int_equal(fw_test_count_entries(dir), 0);
    /* an older trace stays until the new one is whole */
    fw_test_write(path, "old", 3);
    assert_int_equal(fw_trace_file_begin(path, 1), FW_OK);
    fw_trace_file_cancel(path);
    assert_int_equal(fw_test_file_bytes(path), 3);
    assert_int_equal(fw_test_count_entries(dir), 1);
    /* what a killed run left is replaced */
    const char *left = fw_test_path(dir, "never_begun.json.unfinished");
    fw_test_write(left, "half", 4);
    assert_int_equal(fw_trace_file_check(path), FW_OK);
    assert_int_equal(fw_test_file_bytes(left), 4);
    assert_int_equal(whole_life(path), FW_OK);
    json_decref(load(path));
    assert_int_equal(fw_test_count_entries(dir), 1);
    assert_int_equal(mkdir(left, 0777), 0);
    assert_int_equal(fw_trace_file_check(path), FW_ERR_OPTION);
    assert_int_equal(fw_trace_file_begin(path, 1), FW_ERR_OPTION);
    assert_int_equal(rmdir(left), 0);
}

static void test_nth_failure(void **state) {
    (void)state;
    const char *path = fw_test_path(dir, "failing.json");
    fw_alloc_fail_at(UINT64_MAX); /* counts */
    assert_int_equal(whole_life(path), FW_OK);
    uint64_t allocation_n = fw_alloc_count();
    assert_true(allocation_n > 4);
    for (uint64_t n = 1; n <= allocation_n; n++) {
        fw_alloc_fail_at(n);
        assert_int_equal(whole_life(path), FW_ERR_NOMEM);
        fw_alloc_fail_at(0);
        assert_int_equal(fw_test_count_entries(dir), 1);
    }
    for (uint64_t n = 1; n <= 3; n++) { /* head, part of the rank, tail */
        fw_file_fail_write_at(n);
        assert_int_equal(whole_life(path), FW_ERR_IO);
        assert_non_null(strstr(fw_trail_message(), "--trace"));
        assert_null(strstr(fw_trail_message(), "output_dir"));
        fw_file_fail_write_at(0);
        assert_int_equal(fw_test_count_entries(dir), 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranks_append_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_and_overflow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nth_failure, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
