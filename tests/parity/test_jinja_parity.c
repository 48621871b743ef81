/* Renderings equal to those of transformers, byte for byte (make_chat_cases.py wrote them down): pieces of the language,
 * and conversations in the templates of the model families in data/chat. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "text/jinja/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW = 1700000000 };

static json_t *load(const char *name) {
    char path[512];
    json_t *value;
    snprintf(path, sizeof path, FW_TEST_DATA "/chat/%s", name);
    if (fw_json_load(&value, path, 64 << 20) != FW_OK) fail_msg("%s", fw_trail_message());
    return value;
}

/* Does the rendering do what the reference did? */
static void check(const fw_jinja_program *program, fw_jinja_memory *memory, const fw_jinja_input *input,
                  const json_t *expected, const char *what, size_t index) {
    fw_jinja_output out;
    fw_status status = fw_jinja_render(&out, memory, program, input);
    const json_t *text = json_object_get(expected, "text");
    if (text == NULL) {
        if (status != FW_ERR_INPUT)
            fail_msg("%s, case %zu: rendered, where the reference says %s", what, index,
                     json_string_value(json_object_get(expected, "error")));
        return;
    }
    if (status != FW_OK) fail_msg("%s, case %zu: %s", what, index, fw_trail_message());
    if (out.bytes != json_string_length(text) || memcmp(out.text, json_string_value(text), out.bytes) != 0)
        fail_msg("%s, case %zu: rendered \"%.*s\" instead of \"%s\"", what, index, (int)out.bytes, out.text,
                 json_string_value(text));
}

static void test_language(void **state) {
    (void)state;
    json_t *cases = load("language.json");
    json_t *talk = json_pack("[{ssss}, {ssss}, {ssss}]", "role", "user", "content", "hi", "role", "assistant",
                             "content", "yo", "role", "user", "content", "x");
    json_t *special = json_pack("{ssssss}", "bos_token", "<s>", "eos_token", "</s>", "pad_token", "<pad>");
    fw_jinja_memory memory = {0};
    assert_true(json_array_size(cases) > 150);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *template = json_object_get(row, "template");
        fw_jinja_input input = {.messages = talk, .special = special, .now = NOW};
        fw_jinja_program *program;
        fw_status status =
            fw_jinja_program_create(&program, json_string_value(template), json_string_length(template), "case");
        if (status == FW_OK)
            check(program, &memory, &input, row, json_string_value(template), i);
        else if (json_object_get(row, "text") != NULL)
            fail_msg("%s: %s", json_string_value(template), fw_trail_message());
        fw_jinja_program_destroy(program);
    }
    fw_jinja_memory_fini(&memory);
    json_decref(special);
    json_decref(talk);
    json_decref(cases);
}

static void test_families(void **state) {
    (void)state;
    json_t *file = load("families.json"), *rows;
    const json_t *cases = json_object_get(file, "cases");
    json_t *special = json_pack("{ssssss}", "bos_token", "<s>", "eos_token", "</s>", "pad_token", "<pad>");
    const char *name;
    fw_jinja_memory memory = {0};
    assert_true(json_object_size(json_object_get(file, "families")) >= 10);
    json_object_foreach(json_object_get(file, "families"), name, rows) {
        char path[512];
        fw_strbuf source = {0};
        fw_jinja_program *program;
        snprintf(path, sizeof path, FW_TEST_DATA "/chat/%s.jinja", name);
        if (fw_file_read(&source, path, 1 << 20) != FW_OK) fail_msg("%s", fw_trail_message());
        if (fw_jinja_program_create(&program, source.data, source.len_bytes, name) != FW_OK)
            fail_msg("%s", fw_trail_message());
        assert_int_equal(json_array_size(rows), json_array_size(cases));
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *one = json_array_get(cases, i);
            fw_jinja_input input = {.messages = json_object_get(one, "messages"),
                                    .tools = json_object_get(one, "tools"),
                                    .documents = json_object_get(one, "documents"),
                                    .variables = {json_object_get(one, "variables")},
                                    .special = special,
                                    .add_generation_prompt = json_is_true(json_object_get(one, "prompt")),
                                    .now = NOW};
            check(program, &memory, &input, json_array_get(rows, i), name, i);
        }
        fw_jinja_program_destroy(program);
        fw_strbuf_fini(&source);
    }
    fw_jinja_memory_fini(&memory);
    json_decref(special);
    json_decref(file);
}

int main(void) {
    setenv("TZ", "UTC", 1); /* strftime_now */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_language), cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
