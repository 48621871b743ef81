/* data: Parquet files made by pyarrow, and what hostile ones do. The files and the rows that pyarrow reads from them are
 * written by tests/data/parquet/make_parquet.py. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "data/parquet/parquet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    fw_strbuf bytes;
    json_t *rows; /* what pyarrow reads */
} table;

static table load(const char *name, const char *answer) {
    table t = {0};
    char path[512];
    snprintf(path, sizeof path, FW_TEST_DATA "/parquet/%s.parquet", name);
    assert_int_equal(fw_file_read(&t.bytes, path, 1 << 20), FW_OK);
    snprintf(path, sizeof path, FW_TEST_DATA "/parquet/%s.json", answer);
    assert_int_equal(fw_json_load(&t.rows, path, 1 << 20), FW_OK);
    return t;
}

static void unload(table *t) {
    fw_strbuf_fini(&t->bytes);
    json_decref(t->rows);
}

static fw_parquet *open_table(const table *t) {
    fw_parquet *p;
    fw_status status = fw_parquet_open(&p, "t.parquet", t->bytes.data, t->bytes.len_bytes, "text");
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
    return p;
}

static void expect_row(fw_parquet_cursor *c, const table *t, int64_t i, const char *name) {
    json_t *row;
    fw_row_place place = {name, i + 1, FW_DROP_REASON_N};
    if (fw_parquet_cursor_get(c, i, &row, &place) != FW_OK) fail_msg("%s", fw_trail_message());
    if (!json_equal(row, json_array_get(t->rows, (size_t)i))) {
        char *ours = json_dumps(row, 0), *theirs = json_dumps(json_array_get(t->rows, (size_t)i), 0);
        fail_msg("%s row %lld\n  read     %s\n  expected %s", name, (long long)i, ours, theirs);
    }
    json_decref(row);
}

static void expect_table(const char *name, const char *answer) {
    table t = load(name, answer);
    fw_parquet *p = open_table(&t);
    fw_parquet_cursor *c;
    int64_t n = fw_parquet_row_n(p);
    assert_int_equal(n, json_array_size(t.rows));
    assert_int_equal(fw_parquet_cursor_create(&c, p), FW_OK);
    for (int64_t i = 0; i < n; i++) expect_row(c, &t, i, name);
    for (int64_t i = n - 1; i >= 0; i -= 3) expect_row(c, &t, i, name); /* backwards, and with gaps */
    for (int64_t i = 0; i < n; i += 7) expect_row(c, &t, i, name);
    fw_parquet_cursor_destroy(c);
    fw_parquet_close(p);
    unload(&t);
}

static void test_nested(void **state) {
    (void)state;
    static const char *const codecs[] = {"none", "snappy", "gzip", "zstd"}, *const encodings[] = {"dictionary",
                                                                                                  "plain"};
    for (int codec = 0; codec < 4; codec++)
        for (int version = 1; version <= 2; version++)
            for (int e = 0; e < 2; e++) {
                char name[64];
                snprintf(name, sizeof name, "nested_%s_v%d_%s", codecs[codec], version, encodings[e]);
                expect_table(name, "nested");
            }
}

static void test_encodings(void **state) {
    (void)state;
    expect_table("flat_deltas", "flat_deltas");
    expect_table("numbers_deltas", "numbers_deltas");
    expect_table("required_text", "required_text");
    expect_table("old_lists", "old_lists");
}

/* Read all there is; any answer but a crash will do. Returns whether there was an error. */
static int read_all(const char *bytes, size_t n_bytes) {
    fw_parquet *p;
    fw_parquet_cursor *c;
    if (fw_parquet_open(&p, "t.parquet", bytes, n_bytes, "text") != FW_OK) return 1;
    assert_int_equal(fw_parquet_cursor_create(&c, p), FW_OK);
    fw_status status = FW_OK;
    for (int64_t i = 0; i < fw_parquet_row_n(p) && status == FW_OK; i++) {
        json_t *row;
        fw_row_place place = {"t.parquet", i + 1, FW_DROP_REASON_N};
        status = fw_parquet_cursor_get(c, i, &row, &place);
        if (status == FW_OK) json_decref(row);
    }
    fw_parquet_cursor_destroy(c);
    fw_parquet_close(p);
    return status != FW_OK;
}

/* A file that is cut off is an error wherever it is cut. The copy has no byte to spare: sanitizers see a step beyond. */
static void test_cut_off(void **state) {
    (void)state;
    table t = load("nested_snappy_v2_dictionary", "nested");
    for (size_t n = 0; n < t.bytes.len_bytes; n += 1 + n / 40) {
        char *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy, t.bytes.data, n);
        assert_int_equal(read_all(copy, n), 1);
        free(copy);
    }
    unload(&t);
}

/* Single bytes changed, a fixed pseudo-random choice: lying lengths, offsets, counts, levels. */
static void test_changed_bytes(void **state) {
    (void)state;
    static const char *const names[] = {"nested_none_v1_dictionary", "nested_gzip_v1_plain", "nested_zstd_v2_plain",
                                        "flat_deltas", "numbers_deltas"};
    uint64_t seed = 12345;
    int wrong_n = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        table t = load(names[k], k < 3 ? "nested" : names[k]);
        for (int round = 0; round < 1500; round++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(seed >> 33) % t.bytes.len_bytes;
            char before = t.bytes.data[at];
            t.bytes.data[at] = (char)(seed >> 20 | 1);
            wrong_n += read_all(t.bytes.data, t.bytes.len_bytes);
            t.bytes.data[at] = before;
        }
        unload(&t);
    }
    assert_true(wrong_n > 1000);
}

static void refused(const char *bytes, size_t n, const char *part) {
    fw_parquet *p;
    assert_int_equal(fw_parquet_open(&p, "t.parquet", bytes, n, "text"), FW_ERR_INPUT);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
}

/* Footers by hand: thrift's compact protocol. */
#define FILE_OF(footer, length) "PAR1" footer length "PAR1"
static void test_lying_footers(void **state) {
    (void)state;
    refused("PAR1PAR1", 8, "begin with PAR1");
    refused(FILE_OF("", "\xff\xff\xff\x7f"), 12, "longer than the file");
    /* a schema of 2^60 elements */
    refused(FILE_OF("\x29\xfc\x80\x80\x80\x80\x80\x80\x80\x80\x10", "\x0b\0\0\0"), 23, "the schema");
    /* structs in structs without end */
    char deep[4 + 4000 + 8] = "PAR1";
    memset(deep + 4, 0x1c, 4000);
    memcpy(deep + 4004, "\xa0\x0f\0\0PAR1", 8);
    refused(deep, sizeof deep, "the footer");
    /* 2^40 rows of nulls, said in a few bytes */
    static const char rows[] = FILE_OF("\x15\x02"                                                    /* version */
                                       "\x19\x2c\x48\x01r\x15\x02\0"                                 /* root */
                                       "\x15\x0c\x25\x02\x18\x04text\0"                              /* text */
                                       "\x16\x80\x80\x80\x80\x80\x40"                                /* num_rows */
                                       "\x19\x1c\x19\x1c\x3c\x46\0\x16\x80\x80\x80\x80\x80\x40"      /* column */
                                       "\x16\0\x16\x08\x26\x08\0\0\x26\x80\x80\x80\x80\x80\x40\0\0", /* rows */
                                       "\x00\0\0\0");
    char bytes[sizeof rows];
    memcpy(bytes, rows, sizeof rows);
    bytes[sizeof rows - 1 - 8] = (char)(sizeof rows - 1 - 12);
    refused(bytes, sizeof rows - 1, "no table of text does");
}

static void test_names(void **state) {
    (void)state;
    table t = load("required_text", "required_text");
    fw_parquet *p;
    assert_int_equal(fw_parquet_open(&p, "t.parquet", t.bytes.data, t.bytes.len_bytes, "body"), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "its columns are text"));
    unload(&t);
}

/* Names of columns and fields become keys of JSON: one that is not UTF-8 is damage, not a lack of memory. */
static void test_broken_name(void **state) {
    (void)state;
    table t = load("two_fields", "required_text");
    char *end = t.bytes.data + t.bytes.len_bytes;
    int wrong_n = 0;
    for (char *at = t.bytes.data; (at = memmem(at, (size_t)(end - at), "content", 7)) != NULL; wrong_n++)
        *at = (char)0xff;
    assert_true(wrong_n > 0);
    refused(t.bytes.data, t.bytes.len_bytes,
            "t.parquet: the Parquet file is damaged: the name of a column is not UTF-8");
    unload(&t);
}

/* A row that is refused does not take the others with it. */
static void test_refused_row(void **state) {
    (void)state;
    table t = load("required_text", "required_text");
    char *at = memmem(t.bytes.data, t.bytes.len_bytes, "line 7", 6);
    assert_non_null(at);
    at[2] = (char)0xff;
    fw_parquet *p = open_table(&t);
    fw_parquet_cursor *c;
    assert_int_equal(fw_parquet_cursor_create(&c, p), FW_OK);
    for (int64_t i = 0; i < 20; i++) {
        json_t *row;
        fw_row_place place = {"t.parquet", i + 1, FW_DROP_REASON_N};
        if (i != 7) {
            expect_row(c, &t, i, "t.parquet");
            continue;
        }
        assert_int_equal(fw_parquet_cursor_get(c, i, &row, &place), FW_ERR_INPUT);
        assert_int_equal(place.reason, FW_DROP_JSON);
        assert_non_null(strstr(fw_trail_message(), "t.parquet:8: a text of column text is not valid UTF-8"));
    }
    fw_parquet_cursor_destroy(c);
    fw_parquet_close(p);
    unload(&t);
}

/* A shard without rows is whole: its columns have no pages. */
static void test_no_rows(void **state) {
    (void)state;
    expect_table("no_rows", "no_rows");
}

/* Which of two columns of one name is meant, nobody knows. */
static void test_twins(void **state) {
    (void)state;
    static const char *const files[][2] = {{"two_columns", "two columns are called text"},
                                           {"two_fields", "two fields of a column are called role"}};
    for (int i = 0; i < 2; i++) {
        fw_strbuf bytes = {0};
        fw_parquet *p;
        char path[512];
        snprintf(path, sizeof path, FW_TEST_DATA "/parquet/%s.parquet", files[i][0]);
        assert_int_equal(fw_file_read(&bytes, path, 1 << 20), FW_OK);
        assert_int_equal(fw_parquet_open(&p, "t.parquet", bytes.data, bytes.len_bytes, "text"), FW_ERR_INPUT);
        assert_non_null(strstr(fw_trail_message(), files[i][1]));
        fw_strbuf_fini(&bytes);
    }
}

static void test_unread_encoding(void **state) {
    (void)state;
    table t = load("byte_stream_split", "byte_stream_split");
    fw_parquet *p = open_table(&t);
    fw_parquet_cursor *c;
    json_t *row;
    fw_row_place place = {"t.parquet", 1, FW_DROP_REASON_N};
    assert_int_equal(fw_parquet_cursor_create(&c, p), FW_OK);
    assert_int_equal(fw_parquet_cursor_get(c, 0, &row, &place), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "column messages is written in encoding 9 (BYTE_STREAM_SPLIT)"));
    assert_null(strstr(fw_trail_message(), "damaged"));
    fw_parquet_cursor_destroy(c);
    fw_parquet_close(p);
    unload(&t);
}

static void test_allocations(void **state) {
    (void)state;
    table t = load("nested_zstd_v1_dictionary", "nested");
    for (uint64_t n = 1;; n++) {
        fw_parquet *p = NULL;
        fw_parquet_cursor *c = NULL;
        json_t *row = NULL;
        fw_row_place place = {"t", 1, FW_DROP_REASON_N};
        fw_alloc_fail_at(n);
        fw_status status = fw_parquet_open(&p, "t.parquet", t.bytes.data, t.bytes.len_bytes, "text");
        if (status == FW_OK) status = fw_parquet_cursor_create(&c, p);
        if (status == FW_OK) status = fw_parquet_cursor_get(c, 1, &row, &place);
        fw_alloc_fail_at(0);
        json_decref(row);
        fw_parquet_cursor_destroy(c);
        fw_parquet_close(p);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_true(n < 10000);
    }
    unload(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested),        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_cut_off),       cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_lying_footers), cmocka_unit_test(test_names),
        cmocka_unit_test(test_broken_name),   cmocka_unit_test(test_refused_row),
        cmocka_unit_test(test_no_rows),       cmocka_unit_test(test_unread_encoding),
        cmocka_unit_test(test_twins),         cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
