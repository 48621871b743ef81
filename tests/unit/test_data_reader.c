/* data: files of conversations, good and hostile. */
#include "base/alloc.h"
#include "base/file.h"
#include "data/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN(role, content) "{\"role\":\"" role "\",\"content\":\"" content "\"}"
#define TALK(question, answer) "{\"messages\":[" TURN("user", question) "," TURN("assistant", answer) "]}"

static fw_reader *open_text(const char *text, size_t n) {
    fw_reader *r;
    fw_status status = fw_reader_open_memory(&r, "t.jsonl", text, n, NULL);
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
    return r;
}

static fw_status get(const fw_reader *r, int64_t index, fw_conversation *c) {
    fw_row_cursor cursor;
    fw_row_place place;
    fw_row_cursor_init(&cursor, fw_reader_rows(r));
    fw_status status = fw_reader_get(r, &cursor, index, c, &place);
    if (status == FW_ERR_INPUT) assert_in_range(place.reason, 0, FW_DROP_ROW_N - 1);
    fw_row_cursor_fini(&cursor);
    return status;
}

/* Opening, or reading some conversation, fails with a message that holds `part`. */
static void refused_named(const char *name, const char *text, size_t n, const char *part) {
    fw_reader *r = NULL;
    fw_status status = fw_reader_open_memory(&r, name, text, n, NULL);
    for (int64_t i = 0; status == FW_OK && i < fw_reader_n(r); i++) {
        fw_conversation c;
        status = get(r, i, &c);
        if (status == FW_OK) fw_conversation_fini(&c);
    }
    assert_int_equal(status, FW_ERR_INPUT);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
    fw_reader_close(r);
}
/* The file as a whole is refused. */
static void refused_file(const char *name, const char *text, size_t n, const char *part) {
    fw_reader *r = NULL;
    assert_int_equal(fw_reader_open_memory(&r, name, text, n, NULL), FW_ERR_INPUT);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
}
static void refused(const char *text, const char *part) { refused_named("t.jsonl", text, strlen(text), part); }

static void expect_content(fw_reader *r, int64_t index, size_t message, const char *content, int64_t line) {
    fw_conversation c;
    assert_int_equal(get(r, index, &c), FW_OK);
    assert_true(message < c.message_n);
    assert_int_equal(c.message[message].content_bytes, strlen(content));
    assert_string_equal(c.message[message].content, content);
    assert_int_equal(c.line, line);
    fw_conversation_fini(&c);
}

/* E45: a mark at the start, both line ends, blank lines, and line separators of Unicode inside a text. */
static void test_lines(void **state) {
    (void)state;
    const char *text = "\xef\xbb\xbf" TALK("one", "eins") "\r\n\n  \t\r\n" TALK(
        "a\xe2\x80\xa8z\xc2\x85", "b\xe2\x80\xa9") "\n" TALK("three", "drei");
    fw_reader *r = open_text(text, strlen(text));
    assert_int_equal(fw_reader_n(r), 3);
    expect_content(r, 0, 1, "eins", 1);
    expect_content(r, 1, 0, "a\xe2\x80\xa8z\xc2\x85", 4);
    expect_content(r, 2, 1, "drei", 5);
    fw_reader_close(r);
}

static void test_array(void **state) {
    (void)state;
    const char *text = "\n[\n  " TALK("[1]", "say \\\"]}\\\"") ",\n\n  " TALK("2", "\\u00e9") "\n]\n";
    fw_reader *r = open_text(text, strlen(text));
    assert_int_equal(fw_reader_n(r), 2);
    expect_content(r, 0, 1, "say \"]}\"", 3);
    expect_content(r, 1, 1, "\xc3\xa9", 5);
    fw_reader_close(r);
}

static void test_long_line(void **state) {
    (void)state;
    const size_t filler_n = 9u << 20;
    const char *head = "{\"messages\":[{\"role\":\"user\",\"content\":\"",
               *tail = "\"}," TURN("assistant", "ok") "]}\n";
    char *text = malloc(filler_n + 200);
    assert_non_null(text);
    strcpy(text, head);
    memset(text + strlen(head), 'x', filler_n);
    strcpy(text + strlen(head) + filler_n, tail);
    fw_reader *r = open_text(text, strlen(text));
    fw_conversation c;
    assert_int_equal(get(r, 0, &c), FW_OK);
    assert_int_equal(c.message[0].content_bytes, filler_n);
    fw_conversation_fini(&c);
    fw_reader_close(r);
    free(text);
}

static void test_zero_byte_and_roles(void **state) {
    (void)state;
    const char *text = "{\"id\": 4, \"messages\":[" TURN("system", "") "," TURN("assistant", "a\\u0000b") "]}";
    fw_reader *r = open_text(text, strlen(text));
    fw_conversation c;
    assert_int_equal(get(r, 0, &c), FW_OK);
    assert_int_equal(c.message[1].content_bytes, 3);
    assert_memory_equal(c.message[1].content, "a\0b", 3);
    assert_int_equal(c.has_assistant, 1);
    assert_string_equal(c.message[0].role, "system");
    fw_conversation_fini(&c);
    fw_reader_close(r);
    text = "{\"messages\":[" TURN("user", "nobody answers") "]}";
    r = open_text(text, strlen(text));
    assert_int_equal(get(r, 0, &c), FW_OK);
    assert_int_equal(c.has_assistant, 0);
    fw_conversation_fini(&c);
    assert_int_equal(get(r, 1, &c), FW_ERR_INTERNAL);
    fw_reader_close(r);
}

/* File, line and column of what is not JSON. */
static void test_places(void **state) {
    (void)state;
    refused(TALK("a", "b") "\n\n{\"messages\": [}\n", "t.jsonl:3:15: not valid JSON");
    refused(TALK("a", "b") "\n{\"messages\": [{\"role\": \"us", "t.jsonl:2:");
    refused(TALK("a", "b") "\n{\"messages\": [{\"role\": \"us", "cut off?");
    refused("{\n\"messages\": []}\n", "every line must hold one whole conversation");
    refused(TALK("a", "b") "\n" TALK("\xff", "b") "\n", "t.jsonl:2:");
    refused(TALK("\xc0\x80", "overlong"), "t.jsonl:1:");
    refused(TALK("\xed\xa0\x80", "surrogate"), "t.jsonl:1:");
    refused(TALK("\\ud800", "half a pair"), "t.jsonl:1:");
    refused("{\"messages\": 1, \"messages\": 2}", "duplicate object key");
    /* in an array, columns count from the start of the line, not of the element */
    refused("[\n    {\"messages\": tru}]", "t.jsonl:2:");
    refused("[\n    {\"messages\": tru}]", ":20: not valid JSON");
    refused("[" TALK("a", "b") "\n", "t.jsonl:2:");
    refused("[" TALK("a", "b") ",]", "t.jsonl:1:");
    refused("[" TALK("a", "b") "] x", "t.jsonl:1:");
    refused("[" TALK("a", "b") "}", "t.jsonl:1:");
    refused("[\"", "t.jsonl:1:");
}

/* An object over several lines, as programs print it for people: said with what to do. */
static void test_goes_on(void **state) {
    (void)state;
    const char *hint = "goes on over the next lines, but every line must hold one whole conversation";
    refused("{\n  \"messages\": [\n" TURN("user", "a") ",\n" TURN("assistant", "b") "]\n}\n", hint);
    refused("\n{\n\"messages\": []}\n{\n\"messages\": []}\n", hint); /* one behind the other */
    refused_named("t.json", "{\n\"messages\": []}\n", 19, "put [ and ] around");
    const char *broken = "{\n\"messages\": [}\n" TALK("a", "b") "\n";
    fw_reader *r = open_text(broken, strlen(broken));
    fw_conversation c;
    assert_int_equal(get(r, 0, &c), FW_ERR_INPUT);
    assert_null(strstr(fw_trail_message(), hint));
    fw_reader_close(r);
}

/* Shards without rows are no error: a set without any is one. */
static void test_no_rows(void **state) {
    (void)state;
    static const char *const files[][2] = {{"t.jsonl", ""},     {"t.jsonl", "\xef\xbb\xbf \r\n\n"},
                                           {"t.json", "[]"},    {"t.json", " [ ]\n"},
                                           {"t.json", "\n"},    {"t.csv", ""},
                                           {"t.csv", "text\n"}, {"t.txt", "\n\n"},
                                           {"t.md", ""}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fw_reader *r;
        if (fw_reader_open_memory(&r, files[i][0], files[i][1], strlen(files[i][1]), NULL) != FW_OK)
            fail_msg("%s", fw_trail_message());
        assert_int_equal(fw_reader_n(r), 0);
        fw_reader_close(r);
    }
    refused_file("t", "", 0, "t is empty");
    refused_file("t.parquet", "", 0, "does not begin with PAR1");
    refused_named("t.csv", "a,b\n", 4, "the first line of a table must name its columns");
}

static void test_depth(void **state) {
    (void)state;
    char *text = calloc(1, 200001);
    assert_non_null(text);
    memset(text, '[', 200000);
    refused(text, "t.jsonl:1:");
    strcpy(text, "{\"messages\":");
    memset(text + strlen("{\"messages\":"), '[', 199000);
    refused(text, "t.jsonl:1:");
    free(text);
}

static void test_forms(void **state) {
    (void)state;
    refused(TALK("a", "b") "\n{\"messages\": []}", "t.jsonl:2: \"messages\" is empty");
    refused("{\"messages\": {}}", "\"messages\" must be a list");
    refused("{\"messages\": null}", "\"messages\" must be a list");
    refused("{\"messages\": [3]}", "messages[0] must be an object");
    refused("{\"messages\": [" TURN("user", "a") "," TURN("narrator", "b") "]}",
            "t.jsonl:1: messages[1] has the unknown role \"narrator\"");
    refused("{\"messages\": [{\"content\":\"a\"}]}", "messages[0] needs a \"role\"");
    refused("{\"messages\": [{\"role\":7,\"content\":\"a\"}]}", "messages[0] needs a \"role\"");
    refused("{\"messages\": [{\"role\":\"user\",\"content\":null}]}", "messages[0] (user) is null");
    refused("{\"messages\": [{\"role\":\"user\"}]}", "messages[0] (user) is missing");
    refused("{\"messages\": [{\"role\":\"assistant\",\"content\":null}]}", "or tool_calls");
    refused("{\"messages\": [{\"role\":\"user\",\"content\":5}]}", "content of messages[0] is not a string");
    refused("{\"messages\": [{\"role\":\"assistant\",\"content\":\"a\",\"loss_weight\":-0.5}]}",
            "t.jsonl:1: \"loss_weight\" of messages[0] must be a number from 0 to 1000");
    refused("{\"messages\": [{\"role\":\"assistant\",\"content\":\"a\",\"loss_weight\":NaN}]}", "t.jsonl:1:");
    refused("{\"tools\": [1], \"messages\": [" TURN("user", "a") "]}", "\"tools\" must be a list of objects");
    /* keys that say nothing are no reason to refuse */
    const char *text = "{\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":null}]}";
    fw_reader *r = open_text(text, strlen(text));
    expect_content(r, 0, 0, "a", 1);
    fw_reader_close(r);
}

static void test_other_formats(void **state) {
    (void)state;
    refused("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "preference");
    refused("{\"message\": \"a\"}", "no \"messages\"");
    refused("[1]", "must be a JSON object");
    refused_file("x.jsonl.gz", "\x1f\x8b\x08\0", 4, "cut off");
    refused_file("x.jsonl.zst", "\x28\xb5\x2f\xfd\0", 5, "zstd stream is cut off");
    refused_file("x.parquet", "PAR1\0\0", 6, "damaged");
    refused_file("x.parquet", "{}", 2, "no Parquet file");
    refused_file("x.zip", "PK\x03\x04", 4, "zip archive");
    refused_file("x.json", "\xff\xfe[\0", 4, "UTF-16");
    refused_file("x.jsonl", "hello", 5, "0x68");
    refused_file("x.yaml", "a: b", 4, "YAML");
}

static void test_file(void **state) {
    (void)state;
    char path[] = "/tmp/fw-data-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *text = TALK("a", "b") "\n";
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    fw_reader *r;
    assert_int_equal(fw_reader_open(&r, path, NULL), FW_OK);
    expect_content(r, 0, 1, "b", 1);
    fw_reader_close(r);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(fw_reader_open(&r, path, NULL), FW_ERR_INPUT);
    unlink(path);
    assert_int_equal(fw_reader_open(&r, path, NULL), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), path));
}

/* Whatever allocation fails, the answer is FW_ERR_NOMEM and nothing leaks (the sanitizer build sees leaks). */
static void test_allocations(void **state) {
    (void)state;
    const char *text = "[" TALK("a", "b") ", " TALK("c", "d") "]";
    for (uint64_t n = 1;; n++) {
        fw_reader *r = NULL;
        fw_conversation c = {0};
        fw_alloc_fail_at(n);
        fw_status status = fw_reader_open_memory(&r, "t.json", text, strlen(text), NULL);
        if (status == FW_OK) status = get(r, 1, &c);
        fw_alloc_fail_at(0);
        if (status == FW_OK) assert_string_equal(c.message[0].content, "c");
        fw_conversation_fini(&c);
        fw_reader_close(r);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_true(n < 10000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_array),
        cmocka_unit_test(test_long_line), cmocka_unit_test(test_places),
        cmocka_unit_test(test_goes_on),   cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_depth),     cmocka_unit_test(test_zero_byte_and_roles),
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_file),      cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
