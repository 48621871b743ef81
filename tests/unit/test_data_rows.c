/* data: tables, plain text, compressed files; which files a name stands for. */
#include "base/file.h"
#include "data/reader.h"
#include "data/sources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static fw_rows *open_rows(const char *name, const char *text, size_t n, fw_text_unit unit) {
    fw_rows *r;
    const fw_rows_options options = {.text_unit = unit};
    if (fw_rows_open_memory(&r, name, text, n, &options) != FW_OK) fail_msg("%s", fw_trail_message());
    return r;
}

static void expect_row(const fw_rows *r, int64_t i, int64_t line, const char *json) {
    fw_row_cursor c;
    fw_row_place place;
    json_t *row, *wanted = json_loads(json, JSON_ALLOW_NUL, NULL);
    assert_non_null(wanted);
    fw_row_cursor_init(&c, r);
    if (fw_row_get(&c, i, &row, &place) != FW_OK) fail_msg("%s", fw_trail_message());
    if (!json_equal(row, wanted)) fail_msg("row %lld is %s, not %s", (long long)i, json_dumps(row, 0), json);
    assert_int_equal(place.line, line);
    json_decref(row);
    json_decref(wanted);
    fw_row_cursor_fini(&c);
}

static void expect_refusal(const fw_rows *r, int64_t i, fw_drop_reason reason, const char *part) {
    fw_row_cursor c;
    fw_row_place place;
    json_t *row;
    fw_row_cursor_init(&c, r);
    assert_int_equal(fw_row_get(&c, i, &row, &place), FW_ERR_INPUT);
    assert_int_equal(place.reason, reason);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
    fw_row_cursor_fini(&c);
}

static void refused(const char *name, const char *bytes, size_t n, const char *part) {
    fw_rows *r;
    if (fw_rows_open_memory(&r, name, bytes, n, NULL) != FW_ERR_INPUT) fail_msg("%s of %zu bytes is read", name, n);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
}

/* RFC 4180: quotes, doubled quotes, line breaks and commas inside them, both line ends, a mark at the start. */
static void test_csv(void **state) {
    (void)state;
    const char *text = "\xef\xbb\xbfinstruction,id,output\r\n"
                       "\"a, \"\"b\"\"\r\nc\",1,plain\r\n"
                       "\r\n"
                       "in\"side,2,\"\"\n"
                       "x,3\n"
                       "x,4,y,z\n"
                       "\"x\"y,5,z\n"
                       "\xff,6,z\n"
                       "\xe2\x80\xa8,7,\xc3\xa9\n"
                       "\"never, closed,8\n";
    fw_rows *r = open_rows("t.csv", text, strlen(text), FW_TEXT_LINE);
    assert_int_equal(fw_rows_n(r), 8);
    assert_int_equal(fw_rows_format(r), FW_FORMAT_CSV);
    expect_row(r, 0, 2,
               "{\"instruction\":\"a, \\\"b\\\"\\r\\nc\",\"output\":\"plain\"}"); /* id is no key that is read */
    expect_row(r, 1, 5, "{\"instruction\":\"in\\\"side\",\"output\":\"\"}");
    expect_refusal(r, 2, FW_DROP_SHAPE, "t.csv:6: the row has 2 fields, and the first line names 3");
    expect_refusal(r, 3, FW_DROP_SHAPE, "t.csv:7: the row has 4 fields");
    expect_refusal(r, 4, FW_DROP_JSON, "t.csv:8: byte 4 of the row follows a closing quote");
    expect_refusal(r, 5, FW_DROP_JSON, "t.csv:9: not valid UTF-8 at byte 1");
    expect_row(r, 6, 10, "{\"instruction\":\"\xe2\x80\xa8\",\"output\":\"\xc3\xa9\"}");
    expect_refusal(r, 7, FW_DROP_JSON, "t.csv:11: the quote at byte 1 of the row is never closed");
    fw_rows_close(r);
}

static void test_delimiters(void **state) {
    (void)state;
    const char *semicolons = "text;n\na,b;1\n", *tabs = "n\ttext\n1\ta;b\n", *none = "name,age\nx,1\n";
    fw_rows *r = open_rows("t.csv", semicolons, strlen(semicolons), FW_TEXT_LINE);
    expect_row(r, 0, 2, "{\"text\":\"a,b\"}");
    fw_rows_close(r);
    r = open_rows("t.TSV", tabs, strlen(tabs), FW_TEXT_LINE);
    expect_row(r, 0, 2, "{\"text\":\"a;b\"}");
    fw_rows_close(r);
    refused("t.csv", none, strlen(none), "none of its names is read");
    refused("t.csv", "\"text", 5, "never closed");
}

static void test_text(void **state) {
    (void)state;
    const char *text = "one\ntwo\r\n\n \n{three}\n\n\nfour";
    fw_rows *r = open_rows("t.txt", text, strlen(text), FW_TEXT_LINE);
    assert_int_equal(fw_rows_n(r), 4);
    expect_row(r, 1, 2, "{\"text\":\"two\"}");
    expect_row(r, 2, 5, "{\"text\":\"{three}\"}");
    expect_row(r, 3, 8, "{\"text\":\"four\"}");
    fw_rows_close(r);
    r = open_rows("t.md", text, strlen(text), FW_TEXT_PARAGRAPH);
    assert_int_equal(fw_rows_n(r), 3);
    expect_row(r, 0, 1, "{\"text\":\"one\\ntwo\"}");
    expect_row(r, 1, 5, "{\"text\":\"{three}\"}");
    expect_row(r, 2, 8, "{\"text\":\"four\"}");
    fw_rows_close(r);
    r = open_rows("t.txt", text, strlen(text), FW_TEXT_DOCUMENT);
    assert_int_equal(fw_rows_n(r), 1);
    expect_row(r, 0, 1, "{\"text\":\"one\\ntwo\\r\\n\\n \\n{three}\\n\\n\\nfour\"}");
    fw_rows_close(r);
    r = open_rows("t.txt", "a\n\xc3\n", 4, FW_TEXT_LINE);
    expect_refusal(r, 1, FW_DROP_JSON, "t.txt:2: not valid UTF-8 at byte 1 of the row (0xc3)");
    fw_rows_close(r);
}

/* ---- compressed ---- */

static size_t gzip(char *out, size_t cap, const char *text, size_t n) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (unsigned)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (unsigned)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static void test_compressed(void **state) {
    (void)state;
    const char *lines = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n", *table = "text\n\"a\nb\"\n",
               *array = "[{\"text\":\"a\"}]";
    char bytes[1000];
    size_t n = gzip(bytes, sizeof bytes, lines, strlen(lines));
    n += gzip(bytes + n, sizeof bytes - n, lines, strlen(lines)); /* two streams are one file */
    fw_rows *r = open_rows("t.jsonl.gz", bytes, n, FW_TEXT_LINE);
    assert_int_equal(fw_rows_n(r), 4);
    expect_row(r, 3, 4, "{\"text\":\"b\"}");
    fw_rows_close(r);
    r = open_rows("no ending", bytes, n, FW_TEXT_LINE); /* the first bytes say it */
    assert_int_equal(fw_rows_n(r), 4);
    fw_rows_close(r);
    for (size_t cut = 2; cut < n / 2; cut++) refused("t.jsonl.gz", bytes, cut, cut < 10 ? "cut off" : "gzip stream");
    bytes[n / 2 - 6] ^= 1; /* the checksum of the first stream */
    refused("t.jsonl.gz", bytes, n, "damaged");
    n = gzip(bytes, sizeof bytes, table, strlen(table));
    r = open_rows("t.csv.gz", bytes, n, FW_TEXT_LINE);
    expect_row(r, 0, 2, "{\"text\":\"a\\nb\"}");
    fw_rows_close(r);
    n = ZSTD_compress(bytes, sizeof bytes, array, strlen(array), 3);
    n += ZSTD_compress(bytes + n, sizeof bytes - n, "  ", 2, 3);
    r = open_rows("t.json.zst", bytes, n, FW_TEXT_LINE);
    assert_int_equal(fw_rows_format(r), FW_FORMAT_JSON);
    expect_row(r, 0, 1, "{\"text\":\"a\"}");
    fw_rows_close(r);
    refused("t.json.zst", bytes, n - 1, "cut off");
    char blanks[100];
    size_t blank_n = gzip(blanks, sizeof blanks, " \n\n", 3);
    r = open_rows("t.jsonl.gz", blanks, blank_n, FW_TEXT_LINE); /* a shard without rows */
    assert_int_equal(fw_rows_n(r), 0);
    fw_rows_close(r);
    refused("t.gz", blanks, blank_n, "t.gz is empty");
    bytes[6] |= 6; /* a kind of block that is not there */
    refused("t.json.zst", bytes, n, "zstd stream");
}

/* A few bytes that would fill the disk: refused after 64 MiB. */
static void test_bomb(void **state) {
    (void)state;
    enum { ZEROS = 96 << 20 };
    char *zeros = calloc(1, ZEROS), small[20000];
    assert_non_null(zeros);
    size_t n = ZSTD_compress(small, sizeof small, zeros, ZEROS, 3);
    assert_false(ZSTD_isError(n));
    refused("t.jsonl.zst", small, n, "more than 2000 times as large");
    free(zeros);
}

/* ---- sources ---- */

static void touch(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(fw_file_write(path, "{\"text\":\"a\"}\n", 13), FW_OK);
}

static void expect_sources(const char *folder, const char *text, const char *const *names, int n) {
    fw_sources s;
    char written[1024];
    snprintf(written, sizeof written, text, folder, folder);
    if (fw_sources_find(&s, written) != FW_OK) fail_msg("%s: %s", written, fw_trail_message());
    assert_int_equal(s.path_n, n);
    for (int i = 0; i < n; i++) assert_string_equal(s.path[i] + strlen(folder) + 1, names[i]);
    fw_sources_fini(&s);
}

static void expect_no_sources(const char *folder, const char *text, fw_status status, const char *part) {
    fw_sources s;
    char written[1024];
    snprintf(written, sizeof written, text, folder, folder);
    assert_int_equal(fw_sources_find(&s, written), status);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
}

static void test_sources(void **state) {
    (void)state;
    char folder[] = "/tmp/fw-sources-XXXXXX", below[64];
    assert_non_null(mkdtemp(folder));
    snprintf(below, sizeof below, "%s/below", folder);
    assert_int_equal(fw_dir_make(below), FW_OK);
    snprintf(below, sizeof below, "%s/empty", folder);
    assert_int_equal(fw_dir_make(below), FW_OK);
    touch(folder, "b.jsonl");
    touch(folder, "a.jsonl.gz");
    touch(folder, "below/c.parquet");
    touch(folder, "readme.pdf");
    touch(folder, ".hidden.jsonl");
    touch(folder, "with,comma.json");
    touch(folder, "with:2");
    expect_sources(folder, "%s", (const char *const[]){"a.jsonl.gz", "b.jsonl", "below/c.parquet", "with,comma.json"},
                   4);
    expect_sources(folder, "%s/*.json*", (const char *const[]){"a.jsonl.gz", "b.jsonl", "with,comma.json"}, 3);
    expect_sources(folder, "%s/b.jsonl,%s/below:0.5", (const char *const[]){"b.jsonl", "below/c.parquet"}, 2);
    expect_sources(folder, "%s/with,comma.json", (const char *const[]){"with,comma.json"}, 1);
    expect_sources(folder, "%s/with\\,comma.json,%s/b.jsonl", (const char *const[]){"with,comma.json", "b.jsonl"}, 2);
    expect_sources(folder, "%s/with:2", (const char *const[]){"with:2"}, 1); /* a name, no weight */
    expect_no_sources(folder, "%s/none.jsonl", FW_ERR_INPUT, "there is no dataset");
    expect_no_sources(folder, "%s/none*", FW_ERR_INPUT, "no file matches");
    expect_no_sources(folder, "%s/empty", FW_ERR_INPUT, "holds no file of conversations");
    expect_no_sources(folder, "%s/b.jsonl,", FW_ERR_OPTION, "empty name");
    expect_no_sources(folder, "%s/b.jsonl:-1", FW_ERR_OPTION, "weight");
    expect_no_sources(folder, "%s/b.jsonl:1e999", FW_ERR_OPTION, "weight");
    expect_no_sources(folder, "%s/b.jsonl:nan", FW_ERR_OPTION, "weight");
    fw_sources s;
    char written[128];
    snprintf(written, sizeof written, "%s/b.jsonl:2.5", folder);
    assert_int_equal(fw_sources_find(&s, written), FW_OK);
    assert_true(s.set[0].weight == 2.5);
    fw_sources_fini(&s);
    fw_dir_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),        cmocka_unit_test(test_delimiters), cmocka_unit_test(test_text),
        cmocka_unit_test(test_compressed), cmocka_unit_test(test_bomb),       cmocka_unit_test(test_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
