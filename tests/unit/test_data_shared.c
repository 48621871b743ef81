/* data: real files of four kinds, read as they are. They are not part of the project: without them the test is skipped. */
#include "base/file.h"
#include "data/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const char *const folder = FW_SOURCE_DIR "/../shared/data";

typedef struct counts {
    int64_t row_n, message_n, assistant_n, tool_call_n, tool_n, with_tools_n, learn_n, not_learn_n;
} counts;

/* Every row must be used: none of these files has a faulty one. */
static counts read_file(const char *name, fw_shape shape) {
    char path[512];
    fw_reader *r;
    fw_row_cursor cursor;
    counts n = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (fw_reader_open(&r, path, NULL) != FW_OK) fail_msg("%s", fw_trail_message());
    assert_int_equal(fw_reader_shape(r), shape);
    fw_row_cursor_init(&cursor, fw_reader_rows(r));
    for (int64_t i = 0; i < fw_reader_n(r); i++) {
        fw_conversation c;
        fw_row_place place;
        if (fw_reader_get(r, &cursor, i, &c, &place) != FW_OK) fail_msg("%s", fw_trail_message());
        n.row_n++;
        n.message_n += (int64_t)c.message_n;
        n.with_tools_n += c.tools != NULL;
        for (size_t k = 0; k < c.message_n; k++) {
            n.assistant_n += strcmp(c.message[k].role, "assistant") == 0;
            n.tool_n += strcmp(c.message[k].role, "tool") == 0;
            n.tool_call_n += (int64_t)json_array_size(json_object_get(c.message[k].json, "tool_calls"));
            n.learn_n += c.message[k].learn == FW_LEARN_YES;
            n.not_learn_n += c.message[k].learn == FW_LEARN_NO;
        }
        fw_conversation_fini(&c);
    }
    fw_row_cursor_fini(&cursor);
    fw_reader_close(r);
    return n;
}

static void test_alpaca(void **state) {
    (void)state;
    counts n = read_file("alpaca_en_demo.json", FW_SHAPE_ALPACA);
    assert_int_equal(n.row_n, 999);
    assert_int_equal(n.message_n, 2 * 999);
    n = read_file("identity.json", FW_SHAPE_ALPACA);
    assert_int_equal(n.row_n, 91);
    assert_int_equal(n.assistant_n, 91);
}

/* The numbers are those that a script of a few lines counts in the file. */
static void test_tool_calls(void **state) {
    (void)state;
    counts n = read_file("glaive_toolcall_en_demo.json", FW_SHAPE_SHAREGPT);
    assert_int_equal(n.row_n, 300);
    assert_int_equal(n.message_n, 746 + 746 + 211 + 211);
    assert_int_equal(n.assistant_n, 746 + 211);
    assert_int_equal(n.tool_n, 211);
    assert_in_range(n.tool_call_n, 211, 300); /* a turn may make several */
    assert_true(n.with_tools_n > 100);
}

static void test_typed_parts_and_marks(void **state) {
    (void)state;
    counts n = read_file("v1_sft_demo.jsonl", FW_SHAPE_MESSAGES);
    assert_int_equal(n.row_n, 500);
    assert_int_equal(n.message_n, 1000);
    assert_int_equal(n.learn_n, 500);
    assert_int_equal(n.not_learn_n, 500);
}

int main(void) {
    if (!fw_dir_exists(folder)) {
        printf("skipped: there is no folder of real data files beside the project\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alpaca), cmocka_unit_test(test_tool_calls),
                                       cmocka_unit_test(test_typed_parts_and_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
