/* The engine of chat templates: where each character comes from, and that no template can go on for ever. What it renders
 * is compared with the reference in tests/parity/test_jinja_parity.c. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/jinja/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char talk[] =
    "[{\"role\": \"user\", \"content\": \"a\\u00e9 b\"},"
    " {\"role\": \"assistant\", \"content\": \"<think>why</think>so\", \"reasoning_content\": \"deep\", \"tool_calls\":"
    "  [{\"id\": \"c1\", \"function\": {\"name\": \"go\", \"arguments\": {\"x\": 1, \"y\": [true, null]}}}]}]";

typedef struct bench {
    json_t *messages, *tools;
    fw_jinja_memory memory;
    fw_jinja_program *program;
} bench;

static fw_status run(bench *b, const char *template, fw_jinja_output *out) {
    fw_jinja_program_destroy(b->program);
    FW_TRY(fw_jinja_program_create(&b->program, template, strlen(template), "t.jinja"));
    fw_jinja_input input = {.messages = b->messages, .tools = b->tools};
    return fw_jinja_render(out, &b->memory, b->program, &input);
}

static int setup(void **state) {
    bench *b = calloc(1, sizeof *b);
    if (b == NULL || fw_json_parse(&b->messages, talk, sizeof talk - 1, "talk", 1) != FW_OK) return -1;
    b->tools = json_pack("[{ssss}]", "name", "go", "say", "<|x|>");
    *state = b;
    return 0;
}

static int teardown(void **state) {
    bench *b = *state;
    fw_jinja_program_destroy(b->program);
    fw_jinja_memory_fini(&b->memory);
    json_decref(b->messages);
    json_decref(b->tools);
    free(b);
    return 0;
}

/* "text(message field)" for each stretch of one origin, with a letter for the field; ! inside a generation block. */
static void show(const fw_jinja_output *o, fw_strbuf *out) {
    static const char letters[] = "trcTRnaxotdv";
    fw_strbuf_clear(out);
    assert_int_equal(fw_strbuf_puts(out, ""), FW_OK);
    for (size_t start = 0, i = 1; i <= o->bytes; i++) {
        fw_jinja_origin origin = o->origin ? o->origin[start] : o->uniform;
        if (i < o->bytes && (o->origin ? o->origin[i] : o->uniform) == origin) continue;
        assert_int_equal(fw_strbuf_append(out, o->text + start, i - start), FW_OK);
        assert_int_equal(fw_strbuf_printf(out, "(%lld%c%s)", (long long)fw_jinja_origin_message(origin),
                                          letters[fw_jinja_origin_field(origin & ~FW_JINJA_GENERATION)],
                                          origin & FW_JINJA_GENERATION ? "!" : ""),
                         FW_OK);
        start = i;
    }
}

static void test_origins(void **state) {
    static const struct {
        const char *template, *expected;
    } cases[] = {
        {"x{{ messages[0].content }}y", "x(-1t)a\u00e9 b(0c)y(-1t)"},
        {"{% for m in messages %}<{{ m.role }}>{% endfor %}.", "<(0t)user(0r)>(0t)<(1t)assistant(1r)>(1t).(-1t)"},
        {"{{ '<' + messages[0].role + '>' + messages[0].content[1:3] }}", "<(-1t)user(0r)>(-1t)\u00e9 (0c)"},
        {"{{ messages[0].content | upper | replace(' ', '--') | trim }}", "A\u00c9(0c)--(-1t)B(0c)"},
        {"{{ messages[0].content.split(' ') | join('+') }}", "a\u00e9(0c)+(-1t)b(0c)"},
        {"{{ messages[0].content[::-1] ~ messages[1].content.split('</think>')[-1] }}", "b \u00e9a(0c)so(1c)"},
        {"{{ messages[1].content }}|{{ messages[1].reasoning_content }}", "<think>why</think>(1T)so(1c)|(-1t)deep(1R)"},
        {"{{ messages[1].tool_calls[0].function | tojson }}",
         "{\"name\": (1x)\"go\"(1n), \"arguments\": (1x){\"x\": 1, \"y\": [true, null]}(1a)}(1x)"},
        {"{{ tools[0] | tojson }}{{ tools[0].say }}", "{\"name\": \"go\", \"say\": \"<|x|>\"}<|x|>(-1t)"},
        {"{% set x %}[{{ messages[0].content | first }}]{% endset %}{{ x * 2 }}", "[(-1t)a(0c)][(-1t)a(0c)](-1t)"},
        {"{% macro f(v) %}:{{ v }}{% endmacro %}{% for m in messages[:1] %}{{ f(m.content[:1]) }}{% endfor %}",
         ":(0t)a(0c)"},
        {"{% macro f(m) %}:{{ m.content[:1] }}{% endmacro %}{{ f(messages[0]) }}", ":(0t)a(0c)"},
        {"{% for i in range(1) %}{% set m = messages[i] %}={{ m.content[:1] }}{% endfor %}", "=(0t)a(0c)"},
        {"{{ messages[0].content | indent(2, true) }}{{ 1 + 1 }}", "  (-1t)a\u00e9 b(0c)2(-1t)"},
        {"{% generation %}x{{ messages[0].content[:1] }}{% endgeneration %}y", "x(-1t!)a(0c!)y(-1t)"},
        {"{{ '%s=%d' % (messages[0].role, messages[1].tool_calls[0].function.arguments.x) }}", "user(0r)=(-1t)1(1a)"},
        {"{{ '{}!'.format(messages[0].content[:1]) }}", "a(0c)!(-1t)"},
        {"{{ messages[1].tool_calls[0].function.arguments.y }}", "[True, None](1a)"},
        {"{{ [messages[0].content] }}", "[(-1t)'a\u00e9 b'(0c)](-1t)"},
    };
    bench *b = *state;
    fw_strbuf text = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        fw_jinja_output out;
        if (run(b, cases[i].template, &out) != FW_OK) fail_msg("%s: %s", cases[i].template, fw_trail_message());
        show(&out, &text);
        if (i == 8) { /* tools are of no message */
            assert_int_equal(fw_jinja_origin_field(out.origin ? out.origin[0] : out.uniform), FW_CHAT_TOOLS);
            continue;
        }
        assert_string_equal(text.data, cases[i].expected);
    }
    fw_strbuf_fini(&text);
}

/* Whatever a template tries, it ends soon, with its line. */
static void test_limits(void **state) {
    static const char *const cases[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "\n{{ range(10 ** 18) }}",
        "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f() %}{% for x in [1] %}{% if true %}{{ f() }}{% endif %}{% endfor %}{% endmacro %}{{ f() }}",
        "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | "
        "tojson }}",
        "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, "
        "n.y] %}"
        "{% endfor %}{{ n.x == n.y }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{{ 'x' * 10 ** 12 }}",
        "{{ [0] * 10 ** 12 }}",
        "{{ 'x'.center(10 ** 12) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ 2 ** 64 }}",
        "{{ 99999999999999999999 }}",
        "{{ 'a' | indent(10 ** 12) }}",
        "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{{ ('a' * 100000).rfind('b' + 'a' * 50000 ) }}{% for i in range(9999) %}{{ ('a' * 100000).rfind('b' + 'a' * "
        "50000) }}{% endfor %}",
        "{{ 1 | batch(0) | list }}{{ [1] | slice(10 ** 12) | list }}",
        "{{ ('a,' * 100000).split(',') | map('replace', '', 'b' * 1000) | join('c' * 1000) }}",
    };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fw_jinja_output out;
        fw_status status = run(b, cases[i], &out);
        if (status != FW_ERR_INPUT) fail_msg("%s: status %d", cases[i], status);
        if (strncmp(fw_trail_message(), "t.jinja:", 8) != 0)
            fail_msg("%s: \"%s\" does not say where", cases[i], fw_trail_message());
        assert_true(b->memory.taken_bytes < (size_t)80 << 20);
    }
}

/* Sources that nest more deeply than any reader should follow. */
static void test_deep_sources(void **state) {
    static const struct {
        const char *open, *middle, *close;
    } cases[] = {
        {"(", "1", ")"},
        {"[", "", "]"},
        {"not ", "1", ""},
        {"-", "1", ""},
        {"1+", "1", ""},
        {"", "x", ".y"},
        {"", "x", "|f"},
        {"{1:", "1", "}"},
        {"", "x", "[0]"},
        {"", "x", " is y"},
        {"1 if 1 else ", "1", ""},
        {"f(", "1", ")"},
        {"1**", "1", ""},
        {"{% if 1 %}", "", "{% endif %}"},
        {"{% for x in y %}", "", "{% endfor %}"},
        {"{% macro f() %}", "", "{% endmacro %}"},
    };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fw_strbuf source = {0};
        fw_jinja_output out;
        bool tag = cases[i].open[0] == '{' && cases[i].open[1] == '%';
        if (!tag) assert_int_equal(fw_strbuf_puts(&source, "{{ "), FW_OK);
        for (int k = 0; k < 20000; k++) assert_int_equal(fw_strbuf_puts(&source, cases[i].open), FW_OK);
        assert_int_equal(fw_strbuf_puts(&source, cases[i].middle), FW_OK);
        for (int k = 0; k < 20000; k++) assert_int_equal(fw_strbuf_puts(&source, cases[i].close), FW_OK);
        if (!tag) assert_int_equal(fw_strbuf_puts(&source, " }}"), FW_OK);
        assert_int_equal(run(b, source.data, &out), FW_ERR_INPUT);
        assert_non_null(strstr(fw_trail_message(), "t.jinja:1:"));
        fw_strbuf_fini(&source);
    }
}

static void test_messages(void **state) {
    static const struct {
        const char *template, *message;
    } cases[] = {
        {"\n\n{{ x.y }}", "t.jinja:3: 'x' is undefined"},
        {"{{ messages[0].x.y }}", "t.jinja:1: a value of type dict has no attribute 'x'"},
        {"a\n{% if 1 %}\nb", "t.jinja:2: the block that begins here is not closed by {% endif %}"},
        {"{{ 1 + 'a' }}", "+ does not work between values of type int and str"},
        {"{{ raise_exception('no ' ~ 'way') }}", "t.jinja:1: the chat template refuses this conversation: no way"},
        {"{{ messages.append(1) }}", "a chat template may not change lists and dicts"},
        {"{% include 'x' %}", "{% include %} is not supported in a chat template"},
        {"{{ 1 | nope }}", "there is no filter \"nope\" here"},
        {"{% endif %}", "the statement \"endif\" is not known, or has no beginning here"},
        {"\n{{ 'x", "t.jinja:2: the template opens a string that does not end"},
        {"{{ x)", "t.jinja:1: the template has a \")\" too many, or in the wrong place"},
        {"{% set x.y = 1 %}", "x is no namespace"},
        {"{{ 'a'.split('') }}", "empty separator"},
        {"{{ messages | map('upper') }}", "without making a list of it"},
    };
    bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fw_jinja_output out;
        assert_int_equal(run(b, cases[i].template, &out), FW_ERR_INPUT);
        if (strstr(fw_trail_message(), cases[i].message) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].template, fw_trail_message(), cases[i].message);
    }
}

/* A text that grows by a piece a round takes time in proportion to it: a megabyte, a byte at a time. */
static void test_growing_text(void **state) {
    bench *b = *state;
    fw_jinja_output out;
    assert_int_equal(run(b,
                         "{% set ns = namespace(x='') %}{% for i in range(100000) %}{% set ns.x = ns.x ~ 'abcdefghij' "
                         "%}{% endfor %}{{ ns.x }}",
                         &out),
                     FW_OK);
    assert_int_equal(out.bytes, 1000000);
    assert_true(b->memory.taken_bytes < (size_t)64 << 20);
}

/* Every failed allocation is an error, and nothing is lost. */
static void test_faults(void **state) {
    static const char template[] =
        "{% macro f(a, b=2) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{% set ns = namespace(x='') %}"
        "{% for m in messages if m.content %}{% set ns.x = ns.x ~ m.content | upper %}{{ f(m.role, 3, 4, k=5) }}{% "
        "endfor %}"
        "{{ messages | tojson(indent=2) }}{{ ns.x.split(' ') | map('length') | list | sort }}{{ 'x' * 100000 }}";
    bench *b = *state;
    fw_jinja_output out;
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        fw_jinja_memory_fini(&b->memory);
        fw_alloc_fail_at(n);
        fw_status status = run(b, template, &out);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_origins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growing_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
