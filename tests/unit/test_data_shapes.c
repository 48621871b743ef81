/* data: rows of every shape into the one form of a conversation. */
#include "base/alloc.h"
#include "base/json.h"
#include "data/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static json_t *parse(const char *text) {
    json_t *value;
    if (fw_json_parse(&value, text, strlen(text), "test", 1) != FW_OK) fail_msg("%s", fw_trail_message());
    return value;
}

static void read_row(fw_conversation *c, const char *row) {
    fw_row_place place = {"f", 7, FW_DROP_REASON_N};
    if (fw_shape_read(c, FW_SHAPE_AUTO, "text", parse(row), &place) != FW_OK) fail_msg("%s", fw_trail_message());
    assert_int_equal(c->line, 7);
    assert_int_equal(c->message_n, c->is_text ? 0 : json_array_size(c->messages));
}

/* The messages of a row are those of `expected`, a JSON array. */
static void expect(const char *row, const char *expected) {
    fw_conversation c;
    json_t *wanted = parse(expected);
    read_row(&c, row);
    if (!json_equal(c.messages, wanted))
        fail_msg("%s\n  became   %s\n  expected %s", row, json_dumps(c.messages, 0), expected);
    for (size_t i = 0; i < c.message_n; i++) {
        assert_ptr_equal(c.message[i].json, json_array_get(c.messages, i));
        assert_string_equal(c.message[i].role, json_string_value(json_object_get(c.message[i].json, "role")));
        const json_t *content = json_object_get(c.message[i].json, "content");
        assert_string_equal(c.message[i].content, json_is_string(content) ? json_string_value(content) : "");
    }
    json_decref(wanted);
    fw_conversation_fini(&c);
}

static void refused(const char *row, fw_drop_reason reason, const char *part) {
    fw_conversation c;
    fw_row_place place = {"f", 7, FW_DROP_REASON_N};
    assert_int_equal(fw_shape_read(&c, FW_SHAPE_AUTO, "text", parse(row), &place), FW_ERR_INPUT);
    if (place.reason != reason) fail_msg("%s: reason %s", row, fw_drop_reason_key(place.reason));
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
    assert_memory_equal(fw_trail_message(), "f:7: ", 5);
    assert_null(c.json);
}

#define U(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

static void test_messages(void **state) {
    (void)state;
    expect("{\"messages\":[" U("a") "," A("b") "]}", "[" U("a") "," A("b") "]");
    expect("{\"messages\":\"["
           "{\\\"role\\\":\\\"human\\\",\\\"content\\\":\\\"a\\\"}"
           "]\"}",
           "[" U("a") "]"); /* as tables have it */
    expect("{\"messages\":[{\"role\":\"ipython\",\"content\":\"x\",\"name\":\"run\",\"tool_call_id\":\"1\"}]}",
           "[{\"role\":\"tool\",\"content\":\"x\",\"name\":\"run\",\"tool_call_id\":\"1\"}]");
}

/* E47: parts are joined; what is no text is refused by name. */
static void test_content(void **state) {
    (void)state;
    expect("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
           "\"value\":\"b\"},\"c\"]}]}",
           "[" U("abc") "]");
    expect("{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"reasoning\",\"value\":\"why\"},{\"type\":"
           "\"text\",\"text\":\"b\"}]}]}",
           "[{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"why\"}]");
    expect("{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\",\"thinking\":\"why\"}]}",
           "[{\"role\":\"assistant\",\"content\":\"b\",\"thinking\":\"why\",\"reasoning_content\":\"why\"}]");
    expect("{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"why\"}]}",
           "[{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"why\"}]");
    expect("{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", "[" U("") "]");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"x\"}]}]}", FW_DROP_MEDIA,
            "messages[0] is of type \"image\"");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}", FW_DROP_MEDIA,
            "input_audio");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"poem\",\"text\":\"x\"}]}]}", FW_DROP_CONTENT,
            "\"poem\"");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", FW_DROP_CONTENT, "has no text");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":[3]}]}", FW_DROP_CONTENT, "needs a \"type\"");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", FW_DROP_CONTENT, "is not a string");
    refused("{\"messages\":[{\"role\":\"tool\",\"content\":null}]}", FW_DROP_CONTENT, "messages[0] (tool) is null");
    refused("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":[]}]}", FW_DROP_CONTENT,
            "\"reasoning\"");
}

#define CALL "{\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":[2]}}}"
#define CALLS "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALL "]}]"

/* E47: arguments as a string and as an object are the same; every way of writing a call gives one form. */
static void test_tool_calls(void **state) {
    (void)state;
    static const char *const written[] = {
        "\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":[2]}}}]",
        "\"tool_calls\":[{\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\": 1, \\\"b\\\": [2]}\"}}]",
        "\"tool_calls\":[{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":[2]}}]",
        "\"tool_calls\":[{\"name\":\"add\",\"parameters\":{\"a\":1,\"b\":[2]}}]",
        "\"function_call\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1,\\\"b\\\":[2]}\"}",
        "\"tool_calls\":\"[{\\\"name\\\":\\\"add\\\",\\\"arguments\\\":{\\\"a\\\":1,\\\"b\\\":[2]}}]\"",
        "\"tool_calls\":null,\"function_call\":{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":[2]}}",
    };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        char row[512];
        snprintf(row, sizeof row, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,%s}]}", written[i]);
        expect(row, CALLS);
    }
    expect("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"function\":{\"name\":\"now\","
           "\"arguments\":\"\"}}]}]}",
           "[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"now\","
           "\"arguments\":{}},\"id\":\"c1\"}]}]");
    expect("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[],\"function_call\":null}]}",
           "[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[]}]");
    static const struct {
        const char *call, *part;
    } bad[] = {{"[{\"name\":\"f\",\"arguments\":\"{broken\"}]", "not a JSON object: \"{broken\""},
               {"[{\"name\":\"f\",\"arguments\":\"[1]\"}]", "not a JSON object"},
               {"[{\"name\":\"f\",\"arguments\":7}]", "neither an object nor a string"},
               {"[{\"arguments\":{}}]", "no \"name\""},
               {"[7]", "no \"name\""},
               {"{\"name\":\"f\"}", "is not a list"},
               {"\"nonsense\"", "is not JSON"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char row[512];
        snprintf(row, sizeof row, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":%s}]}",
                 bad[i].call);
        refused(row, FW_DROP_TOOLS, bad[i].part);
    }
}

static void test_tools(void **state) {
    (void)state;
    static const char *const rows[] = {"{\"tools\":[{\"name\":\"f\"}],\"messages\":[" U("a") "]}",
                                       "{\"tools\":\"[{\\\"name\\\":\\\"f\\\"}]\",\"messages\":[" U("a") "]}",
                                       "{\"functions\":[{\"name\":\"f\"}],\"messages\":[" U("a") "]}"};
    for (int i = 0; i < 3; i++) {
        fw_conversation c;
        read_row(&c, rows[i]);
        assert_int_equal(json_array_size(c.tools), 1);
        assert_string_equal(json_string_value(json_object_get(json_array_get(c.tools, 0), "name")), "f");
        fw_conversation_fini(&c);
    }
    fw_conversation c;
    read_row(&c, "{\"tools\":\"[]\",\"documents\":[{\"title\":\"t\"}],\"chat_template_kwargs\":{\"enable_thinking\":"
                 "false},\"messages\":[" U("a") "]}");
    assert_null(c.tools);
    assert_int_equal(json_array_size(c.documents), 1);
    assert_true(json_is_false(json_object_get(c.kwargs, "enable_thinking")));
    fw_conversation_fini(&c);
    refused("{\"tools\":{},\"messages\":[" U("a") "]}", FW_DROP_SHAPE, "\"tools\" must be a list");
    refused("{\"tools\":\"[\",\"messages\":[" U("a") "]}", FW_DROP_SHAPE, "\"tools\" is a string that is not JSON");
    refused("{\"tools\":[\"f\"],\"messages\":[" U("a") "]}", FW_DROP_TOOLS, "entry 0 is none");
    refused("{\"chat_template_kwargs\":[],\"messages\":[]}", FW_DROP_EMPTY, "is empty");
    refused("{\"chat_template_kwargs\":[1],\"messages\":[" U("a") "]}", FW_DROP_SHAPE, "must be an object");
    /* what a template is called with is no variable of it */
    refused("{\"chat_template_kwargs\":{\"continue_final_message\":true},\"messages\":[" U("a") "]}", FW_DROP_SHAPE,
            "has \"continue_final_message\", which is no variable");
    read_row(&c, "{\"chat_template_kwargs\":{\"add_generation_prompt\":false},\"messages\":[" U("a") "]}");
    fw_conversation_fini(&c);
}

static void test_marks(void **state) {
    (void)state;
    fw_conversation c;
    read_row(&c, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"loss_weight\":0.0},{\"role\":\"assistant\","
                 "\"content\":\"b\",\"train\":true},"
                 "{\"role\":\"assistant\",\"content\":\"c\",\"weight\":null},{\"role\":\"assistant\",\"content\":\"d\","
                 "\"weight\":0,\"train\":false}]}");
    const fw_learn wanted[] = {FW_LEARN_NO, FW_LEARN_YES, FW_LEARN_AS_ASKED, FW_LEARN_NO};
    assert_true(c.has_marks);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.message[i].learn, wanted[i]);
        assert_int_equal(json_object_size(c.message[i].json), 2); /* the template does not see marks */
    }
    fw_conversation_fini(&c);
    refused("{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"weight\":\"1\"}]}", FW_DROP_MARK,
            "\"weight\" of messages[0]");
    refused("{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"weight\":1,\"train\":false}]}", FW_DROP_MARK,
            "contradict");
}

#define MARKED(marks) "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"," marks "}]}"

/* Weights are kept in 2^-16; what is no number from 0 to 1000 is refused by name. */
static void test_weights(void **state) {
    (void)state;
    static const struct {
        const char *row;
        fw_learn learn;
        fw_loss_weight weight;
    } read[] = {
        {MARKED("\"loss_weight\":0.25"), FW_LEARN_YES, FW_LOSS_WEIGHT_ONE / 4},
        {MARKED("\"weight\":2.5,\"train\":true"), FW_LEARN_YES, FW_LOSS_WEIGHT_ONE * 5 / 2},
        {MARKED("\"loss_weight\":1000"), FW_LEARN_YES, FW_LOSS_WEIGHT_ONE * 1000},
        {MARKED("\"loss_weight\":1,\"weight\":true"), FW_LEARN_YES, FW_LOSS_WEIGHT_ONE},
        {MARKED("\"loss_weight\":0.1,\"weight\":0.1"), FW_LEARN_YES, 6554},
        {MARKED("\"loss_weight\":0.00001"), FW_LEARN_YES, 1},
        {MARKED("\"loss_weight\":0.000001"), FW_LEARN_NO, 0}, /* nearest to none */
        {MARKED("\"loss_weight\":-0.0"), FW_LEARN_NO, 0},
        {MARKED("\"train\":true"), FW_LEARN_YES, 0},
        {MARKED("\"weight\":null"), FW_LEARN_AS_ASKED, 0},
    };
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        fw_conversation c;
        read_row(&c, read[i].row);
        assert_int_equal(c.message[0].learn, read[i].learn);
        assert_int_equal(c.message[0].weight, read[i].weight);
        assert_int_equal(json_object_size(c.message[0].json), 2);
        fw_conversation_fini(&c);
    }
    static const char *const bad[] = {"-1", "-0.001", "1000.5", "1e300", "\"0.5\"", "[1]", "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char row[128];
        snprintf(row, sizeof row, MARKED("\"loss_weight\":%s"), bad[i]);
        refused(row, FW_DROP_MARK, "\"loss_weight\" of messages[0] must be a number from 0 to 1000");
    }
    refused(MARKED("\"train\":0.5"), FW_DROP_MARK, "\"train\" of messages[0] must be 0 or 1 (false or true)");
    refused(MARKED("\"loss_weight\":0.5,\"weight\":1"), FW_DROP_MARK, "contradict");
    refused(MARKED("\"loss_weight\":0.5,\"train\":false"), FW_DROP_MARK, "contradict");
    refused(MARKED("\"loss_weight\":0,\"train\":true"), FW_DROP_MARK, "contradict");
}

static void test_sharegpt(void **state) {
    (void)state;
    expect("{\"system\":\"s\",\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
           "\"b\"}]}",
           "[{\"role\":\"system\",\"content\":\"s\"}," U("a") "," A("b") "]");
    expect("{\"conversations\":[{\"from\":\"function_call\",\"value\":\"{\\\"name\\\":\\\"add\\\",\\\"arguments\\\":{"
           "\\\"a\\\":1,\\\"b\\\":[2]}}\"},"
           "{\"from\":\"observation\",\"value\":\"3\"}]}",
           "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" CALL
           "]},{\"role\":\"tool\",\"content\":\"3\"}]");
    expect("{\"conversations\":[{\"role\":\"user\",\"content\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}",
           "[" U("a") "," A("b") "]");
    refused("{\"conversations\":[{\"from\":\"bard\",\"value\":\"a\"}]}", FW_DROP_ROLE,
            "conversations[0] is \"from\" \"bard\"");
    refused("{\"conversations\":[{\"value\":\"a\"}]}", FW_DROP_ROLE, "needs a \"from\"");
    refused("{\"conversations\":[{\"from\":\"human\"}]}", FW_DROP_CONTENT, "is missing");
    refused("{\"conversations\":[{\"from\":\"function_call\",\"value\":\"add 1 and 2\"}]}", FW_DROP_TOOLS,
            "is not JSON");
    refused("{\"conversations\":[]}", FW_DROP_EMPTY, "\"conversations\" is empty");
    refused("{\"conversations\":null}", FW_DROP_EMPTY, "\"conversations\" is empty");
    refused("{\"conversations\":[3]}", FW_DROP_ROLE, "needs a \"from\"");
}

static void test_alpaca(void **state) {
    (void)state;
    expect("{\"instruction\":\"a\",\"input\":\"\",\"output\":\"b\"}", "[" U("a") "," A("b") "]");
    expect("{\"instruction\":\"a\",\"input\":\"i\",\"output\":\"b\",\"system\":\"s\",\"history\":[[\"q\",\"r\"]]}",
           "[{\"role\":\"system\",\"content\":\"s\"}," U("q") "," A("r") "," U("a\\ni") "," A("b") "]");
    expect("{\"instruction\":\"\",\"input\":\"i\",\"output\":\"b\",\"system\":null}", "[" U("i") "," A("b") "]");
    refused("{\"instruction\":\"\",\"input\":\"\",\"output\":\"\"}", FW_DROP_NO_ANSWER, "\"output\" is empty");
    refused("{\"instruction\":\"a\",\"output\":\" \\n\"}", FW_DROP_NO_ANSWER, "\"output\" is empty");
    refused("{\"instruction\":\"a\",\"output\":[\"b\",\"c\"]}", FW_DROP_CONTENT, "\"output\" is not a string");
    refused("{\"instruction\":\"a\",\"output\":\"b\",\"history\":[[\"q\"]]}", FW_DROP_SHAPE,
            "history[0] must be a pair");
    refused("{\"instruction\":\"a\",\"output\":\"b\",\"history\":[3]}", FW_DROP_SHAPE, "history[0] must be a pair");
}

static void test_prompt_and_text(void **state) {
    (void)state;
    fw_conversation c;
    read_row(&c, "{\"prompt\":\"2+2=\",\"completion\":\"4\"}");
    assert_true(c.is_text);
    assert_string_equal(c.text, "2+2=4");
    assert_int_equal(c.prompt_bytes, 4);
    fw_conversation_fini(&c);
    read_row(&c, "{\"prompt\":[" U("a") "," A("b") "],\"completion\":[" A("c") "]}");
    assert_false(c.is_text);
    assert_int_equal(c.message_n, 3);
    assert_int_equal(c.prompt_n, 2);
    fw_conversation_fini(&c);
    read_row(&c, "{\"text\":\"a\\u0000b\"}");
    assert_true(c.is_text);
    assert_int_equal(c.text_bytes, 3);
    fw_conversation_fini(&c);
    refused("{\"text\":\"\"}", FW_DROP_EMPTY, "\"text\" is empty");
    refused("{\"text\":5}", FW_DROP_CONTENT, "\"text\" is not a string");
    refused("{\"prompt\":\"a\",\"completion\":[" A("c") "]}", FW_DROP_SHAPE, "\"prompt\"");
    refused("{\"prompt\":[" U("a") "],\"completion\":[]}", FW_DROP_EMPTY, "no \"completion\"");
    refused("{\"chosen\":[],\"rejected\":[]}", FW_DROP_SHAPE, "preference pair");
    refused("{\"question\":\"a\"}", FW_DROP_SHAPE, "keys of another shape");
    refused("[]", FW_DROP_SHAPE, "must be a JSON object");
}

/* A shape that is asked for counts, whatever keys are there. */
static void test_asked_for(void **state) {
    (void)state;
    fw_conversation c;
    fw_row_place place = {"f", 1, FW_DROP_REASON_N};
    assert_int_equal(fw_shape_read(&c, FW_SHAPE_TEXT, "body", parse("{\"messages\":[],\"body\":\"b\"}"), &place),
                     FW_OK);
    assert_string_equal(c.text, "b");
    fw_conversation_fini(&c);
    for (int shape = FW_SHAPE_MESSAGES; shape < FW_SHAPE_N; shape++)
        assert_int_equal(fw_shape_read(&c, (fw_shape)shape, "text", parse("{\"x\":1}"), &place), FW_ERR_INPUT);
}

static void test_allocations(void **state) {
    (void)state;
    static const char row[] =
        "{\"tools\":\"[{\\\"name\\\":\\\"f\\\"}]\",\"conversations\":[{\"from\":\"human\",\"value\":[\"a\",{\"type\":"
        "\"reasoning\",\"text\":\"r\"}]},"
        "{\"from\":\"function_call\",\"value\":\"{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":\\\"{}\\\"}\"}]}";
    for (uint64_t n = 1;; n++) {
        fw_conversation c;
        fw_row_place place = {"f", 1, FW_DROP_REASON_N};
        json_t *parsed = parse(row);
        fw_alloc_fail_at(n);
        fw_status status = fw_shape_read(&c, FW_SHAPE_AUTO, "text", parsed, &place);
        fw_alloc_fail_at(0);
        if (status == FW_OK) {
            assert_int_equal(c.message_n, 2);
            fw_conversation_fini(&c);
            break;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_true(n < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),  cmocka_unit_test(test_content),     cmocka_unit_test(test_tool_calls),
        cmocka_unit_test(test_tools),     cmocka_unit_test(test_marks),       cmocka_unit_test(test_weights),
        cmocka_unit_test(test_sharegpt),  cmocka_unit_test(test_alpaca),      cmocka_unit_test(test_prompt_and_text),
        cmocka_unit_test(test_asked_for), cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
