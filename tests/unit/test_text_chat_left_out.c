/* What a template writes nothing of is found by the origins of its text: content and parts of it, reasoning, tool calls,
 * tools, documents. An answer of tool calls that would be learnt as an empty one is refused. */
#include "support/text_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TURN(body) "{% for m in messages %}<|im_start|>{{ m.role }}\n" body "<|im_end|>\n{% endfor %}"
#define CALL_OF(content, name)                                                                                         \
    "{'role': 'assistant', 'content': " content ", 'tool_calls': [{'type': 'function', 'function': {'name': '" name    \
    "', 'arguments': {'x': 1}}}]}"
#define USER(text) "{'role': 'user', 'content': '" text "'}"
#define SAY(text) "{'role': 'assistant', 'content': '" text "'}"

/* Which counts are not 0, as letters: r(easoning) m(essage) p(art) c(alls) t(ools) d(ocuments) n(o content). */
static void expect_left_out(const char *jinja, const char *conversation, const char *expected) {
    static const char letters[] = "rmpctdn";
    char found[FW_CHAT_LEFT_N + 1] = "";
    fw_chat_template chat;
    fw_lab_chat talk;
    size_t n = 0;
    fw_lab_chat_init(&talk, conversation);
    if (fw_chat_template_parse(&chat, jinja, "test") != FW_OK) fail_msg("%s", fw_trail_message());
    if (fw_chat_render(&talk.rendering, &chat, &talk.c, 0) != FW_OK) fail_msg("%s", fw_trail_message());
    for (int i = 0; i < FW_CHAT_LEFT_N; i++)
        if (talk.rendering.left_out_n[i] > 0) found[n++] = letters[i];
    if (strcmp(found, expected) != 0)
        fail_msg("of %s, %s leaves out \"%s\", not \"%s\"", conversation, jinja, found, expected);
    fw_lab_chat_fini(&talk);
    fw_chat_template_fini(&chat);
}

static void test_counts(void **state) {
    (void)state;
    static const char whole[] = TURN("{{ m.content }}"), trimmed[] = TURN("{{ m.content | trim | upper }}"),
                      cut[] = TURN("{{ m.content[:3] }}"), none[] = TURN(""),
                      calls[] = TURN("{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}"),
                      first_call[] =
                          TURN("{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}"),
                      tools[] = "{% for t in tools or [] %}{{ t.name }}{% endfor %}" TURN("{{ m.content }}"),
                      documents[] = "{{ documents | tojson }}" TURN("{{ m.content }}"),
                      answers[] = TURN("{{ m.content.split('</think>')[-1] }}");
    static const char with_tools[] = "{'messages': [" USER("q") "," SAY("a") "], 'tools': [{'name': 'f'}]}",
                      with_documents[] = "{'messages': [" USER("q") "," SAY("a") "], 'documents': [{'title': 'd'}]}",
                      two_calls[] =
                          "[" USER("q") ",{'role': 'assistant', 'content': '', 'tool_calls': [{'function': {'name': "
                                        "'f', 'arguments': {}}}, {'function': {'name': 'g', 'arguments': {}}}]}]";
    static const struct {
        const char *jinja, *conversation, *left_out;
    } cases[] = {
        {whole, "[" USER("question") "," SAY("answer") "]", ""},
        {whole, "[" USER("q </think> r") "," SAY("a") "]", ""},
        {whole, "[" USER("q") "," CALL_OF("''", "f") "]", "c"},
        {whole, "[" USER("q") "," CALL_OF("'I look'", "f") "]", "c"},
        {whole, with_tools, "t"},
        {whole, with_documents, "d"},
        {trimmed, "[" USER("  \\u3000question stra\\u00dfe\\n") "," SAY(" a ") "]", ""},
        {cut, "[" USER("question") "," SAY("a") "]", "p"},
        {cut, "[" USER("q r  ") "," SAY("abc") "]", ""},
        {none, "[" USER("q") "]", "m"},
        {none, "[" USER(" ") "]", ""},
        {calls, "[" USER("q") "," CALL_OF("''", "f") "]", ""},
        {calls, two_calls, ""},
        {first_call, two_calls, "c"},
        {tools, with_tools, ""},
        {tools, with_documents, "d"},
        {documents, with_documents, ""},
        {answers, "[" USER("q") "," SAY("<think>w</think>a") "]", "r"},
        {answers, "[" USER("q</think>r") "," SAY("a") "]", "p"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) expect_left_out(cases[i].jinja, cases[i].conversation, cases[i].left_out);
}

/* Calls in the form that a template takes: equal texts, however the file has them. */
static void expect_form(const char *jinja, const char *message, const char *expected, size_t refused_n) {
    fw_chat_template chat;
    fw_lab_chat talk;
    char conversation[512];
    snprintf(conversation, sizeof conversation, "[" USER("q") ", {'role': 'assistant', %s}]", message);
    fw_lab_chat_init(&talk, conversation);
    if (fw_chat_template_parse(&chat, jinja, "test") != FW_OK) fail_msg("%s", fw_trail_message());
    const fw_status status = fw_chat_render(&talk.rendering, &chat, &talk.c, 0);
    if (expected == NULL) {
        assert_int_equal(status, FW_ERR_INPUT);
    } else if (status != FW_OK || talk.rendering.text_bytes != strlen(expected) ||
               memcmp(talk.rendering.text, expected, strlen(expected)) != 0) {
        fail_msg("%s of %s: \"%.*s\" (%s), not \"%s\"", jinja, message, (int)talk.rendering.text_bytes,
                 talk.rendering.text, status == FW_OK ? "" : fw_trail_message(), expected);
    } else {
        assert_int_equal(talk.rendering.left_out_n[FW_CHAT_LEFT_CONTENT], refused_n);
    }
    fw_lab_chat_fini(&talk);
    fw_chat_template_fini(&chat);
}

static void test_forms(void **state) {
    (void)state;
#define CALLS "'tool_calls': [{'type': 'function', 'function': {'name': 'f', 'arguments': {'x': [1.0, true]}}}]"
#define CALL_BY(call) "{% for c in m.tool_calls %}" call "{% endfor %}"
    static const char plain[] = "{% for m in messages if m.role != 'user' %}{{ m.content }}|" CALL_BY(
        "{{ c.function.arguments | tojson }}") "{% endfor %}",
                      adds[] = "{% for m in messages %}{% if m.role != 'user' %}{{ m.content + '|' }}" CALL_BY(
                          "{{ c.function.arguments | tojson }}") "{% endif %}{% endfor %}",
                      tests[] = "{% for m in messages %}{% if m.role != 'user' %}{% if m.content is none %}" CALL_BY(
                          "{{ c.function.name + c.function.arguments }}") "{% else %}{{ m.content + '|' }}{% endif %}"
                                                                          "{% endif %}{% endfor %}",
                      prints[] = "{% for m in messages if m.role != 'user' %}" CALL_BY(
                          "{{ c.function.arguments }}") "{% endfor %}",
                      joins[] = "{% for m in messages if m.role != 'user' %}" CALL_BY(
                          "{{ c.function.arguments ~ '' }}") "{% endfor %}",
                      items[] = "{% for m in messages if m.role != 'user' %}" CALL_BY(
                          "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}") "{% endfor %}",
                      never[] = "{{ raise_exception('no') if messages[-1].role == 'assistant' }}";
    static const char json[] = "{\"x\": [1.0, true]}";
    static const struct {
        const char *jinja, *message, *expected;
        size_t refused_n;
    } cases[] = {
        {plain, CALLS, "|{\"x\": [1.0, true]}", 0},
        {plain, "'content': null, " CALLS, "|{\"x\": [1.0, true]}", 0},
        {adds, "'content': null, " CALLS, "|{\"x\": [1.0, true]}", 1},
        {adds, CALLS, "|{\"x\": [1.0, true]}", 1},
        {adds, "'content': '', " CALLS, "|{\"x\": [1.0, true]}", 0},
        {adds, "'reasoning_content': 'w'", "|", 1},
        {tests, "'content': null, " CALLS, "f{\"x\": [1.0, true]}", 1},
        {tests, "'content': '', " CALLS, "f{\"x\": [1.0, true]}", 1},
        {tests, "'content': 'I look', " CALLS, "I look|", 0},
        {tests, "'content': ''", "|", 0},
        {prints, CALLS, json, 0},
        {joins, CALLS, json, 0},
        {items, CALLS, "x=[1.0, True]", 0}, /* what is inside them stays as Python has it */
        {never, CALLS, NULL, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_form(cases[i].jinja, cases[i].message, cases[i].expected, cases[i].refused_n);
}

static fw_status encode(const char *conversation, unsigned flags, fw_lab_chat *chat) {
    fw_text_lab lab;
    fw_text_lab_init_family(&lab, "chatml");
    fw_lab_chat_init(chat, conversation);
    fw_status status = fw_lab_chat_encode(chat, &lab, flags);
    fw_text_lab_fini(&lab);
    return status;
}

static void test_empty_answers(void **state) {
    (void)state;
    static const struct {
        const char *conversation;
        unsigned flags;
        bool refused;
    } cases[] = {
        {"[" USER("q") "," CALL_OF("''", "f") "]", 0, true},
        {"[" USER("q") "," CALL_OF("''", "f") "]", FW_CHAT_ALL_TOKENS, true},
        {"[" USER("q") "," CALL_OF("''", "f") "," USER("r") "," SAY("a") "]", 0, true},
        {"[" USER("q") "," CALL_OF("''", "f") "," USER("r") "," SAY("a") "]", FW_CHAT_LAST_TURN, false},
        {"[" USER("q") "," CALL_OF("'I look'", "f") "]", 0, false}, /* counted, but an answer */
        {"[" USER("q") "," SAY("") "]", 0, false},                  /* as the data has it */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fw_lab_chat chat;
        const fw_status status = encode(cases[i].conversation, cases[i].flags, &chat);
        if (status != (cases[i].refused ? FW_ERR_INPUT : FW_OK)) fail_msg("case %zu gives %d", i, (int)status);
        assert_int_equal(chat.rendering.is_answer_lost, cases[i].refused);
        if (cases[i].refused) {
            assert_non_null(strstr(fw_trail_message(), "the tool call that messages[1] is"));
            assert_int_equal(chat.ids.n, 0);
        }
        fw_lab_chat_fini(&chat);
    }
}

static void test_words(void **state) {
    (void)state;
    char text[FW_CHAT_LEFT_OUT_BYTES];
    for (int i = 0; i < FW_CHAT_LEFT_N; i++) {
        assert_non_null(strstr(fw_chat_left_out_words(text, (fw_chat_left_out)i, INT64_MAX), "9223372036854775807"));
        const bool refuses = strcmp(fw_chat_left_out_verb((fw_chat_left_out)i), "refuses") == 0;
        assert_non_null(strstr(fw_chat_left_out_key((fw_chat_left_out)i), refuses ? "refused" : "left_out"));
        assert_non_null(fw_chat_left_out_hint((fw_chat_left_out)i));
    }
    assert_string_equal(fw_chat_left_out_words(text, FW_CHAT_LEFT_CALLS, 1), "tool calls of 1 message");
    assert_string_equal(fw_chat_left_out_words(text, FW_CHAT_LEFT_TOOLS, 2), "the tools of 2 conversations");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_empty_answers),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
