/* x is NAME. */
#include "text/jinja/jinja_call.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <string.h>

#define TEST(name, expression)                                                                                         \
    static fw_status name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {                                  \
        const fw_jinja_value *v = c->self;                                                                             \
        (void)j;                                                                                                       \
        (void)v;                                                                                                       \
        *out = fw_jinja_bool(expression);                                                                              \
        return FW_OK;                                                                                                  \
    }

TEST(is_defined, v->kind != FW_JINJA_UNDEFINED)
TEST(is_undefined, v->kind == FW_JINJA_UNDEFINED)
TEST(is_none, v->kind == FW_JINJA_NONE)
TEST(is_boolean, v->kind == FW_JINJA_BOOL)
TEST(is_true, v->kind == FW_JINJA_BOOL && v->boolean)
TEST(is_false, v->kind == FW_JINJA_BOOL && !v->boolean)
TEST(is_integer, v->kind == FW_JINJA_INT)
TEST(is_float, v->kind == FW_JINJA_FLOAT)
TEST(is_number, fw_jinja_is_number(v))
TEST(is_string, v->kind == FW_JINJA_TEXT)
TEST(is_mapping, v->kind == FW_JINJA_DICT)
TEST(is_iterable, fw_jinja_is_iterable(v) || v->kind == FW_JINJA_LOOP)
TEST(is_sequence, v->kind == FW_JINJA_TEXT || v->kind == FW_JINJA_DICT || v->kind == FW_JINJA_UNDEFINED ||
                      (v->kind == FW_JINJA_LIST && v->list->kind <= FW_JINJA_IS_RANGE))
TEST(is_callable, v->kind == FW_JINJA_FUNCTION || v->kind == FW_JINJA_MACRO || v->kind == FW_JINJA_LOOP ||
                      v->kind == FW_JINJA_JOINER || v->kind == FW_JINJA_UNDEFINED)
TEST(is_escaped, false)
TEST(is_filter, v->kind == FW_JINJA_TEXT && fw_jinja_find_filter(v->text->data, v->text->bytes) != NULL)
TEST(is_test, v->kind == FW_JINJA_TEXT && fw_jinja_find_test(v->text->data, v->text->bytes) != NULL)

/* v % n as the reference computes it, so that it fails where that does. */
static fw_status remainder_of(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *n, int64_t is,
                              fw_jinja_value *out) {
    fw_jinja_value rest, wanted = fw_jinja_int(is);
    bool same;
    FW_TRY(fw_jinja_arithmetic(j, FW_JINJA_MOD, v, n, &rest));
    FW_TRY(fw_jinja_same(j, &rest, &wanted, &same));
    *out = fw_jinja_bool(same);
    return FW_OK;
}

static fw_status is_odd(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    fw_jinja_value two = fw_jinja_int(2);
    return remainder_of(j, c->self, &two, 1, out);
}

static fw_status is_even(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    fw_jinja_value two = fw_jinja_int(2);
    return remainder_of(j, c->self, &two, 0, out);
}

static fw_status is_divisible(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    return remainder_of(j, c->self, &c->v[0], 0, out);
}

static fw_status is_sameas(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    const fw_jinja_value *a = c->self, *b = &c->v[0];
    bool same = false;
    if (a->kind == b->kind) {
        switch (a->kind) {
        case FW_JINJA_LIST: same = a->list == b->list; break;
        case FW_JINJA_DICT:
        case FW_JINJA_NAMESPACE: same = a->dict == b->dict; break;
        case FW_JINJA_UNDEFINED: same = a->undefined == b->undefined; break;
        default: FW_TRY(fw_jinja_same(j, a, b, &same));
        }
    }
    *out = fw_jinja_bool(same);
    return FW_OK;
}

static fw_status comparison(fw_jinja *j, const fw_jinja_call *c, fw_jinja_operator op, fw_jinja_value *out) {
    bool holds;
    FW_TRY(fw_jinja_compare(j, op, c->self, &c->v[0], &holds));
    *out = fw_jinja_bool(holds);
    return FW_OK;
}
#define COMPARISON(name, op)                                                                                           \
    static fw_status name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {                                  \
        return comparison(j, c, op, out);                                                                              \
    }
COMPARISON(is_eq, FW_JINJA_EQ)
COMPARISON(is_ne, FW_JINJA_NE)
COMPARISON(is_lt, FW_JINJA_LT)
COMPARISON(is_le, FW_JINJA_LE)
COMPARISON(is_gt, FW_JINJA_GT)
COMPARISON(is_ge, FW_JINJA_GE)
COMPARISON(is_in, FW_JINJA_IN)

/* str.isupper, str.islower: some letter has the case, none has the other. */
bool fw_jinja_all_cased(const fw_jinja_text *text, bool upper) {
    bool some = false;
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += fw_utf8_next(&code, text->data + at);
        if (upper ? fw_jinja_is_lower(code) : fw_jinja_is_upper(code)) return false;
        some |= upper ? fw_jinja_is_upper(code) : fw_jinja_is_lower(code);
    }
    return some;
}

static fw_status is_cased(fw_jinja *j, const fw_jinja_call *c, bool upper, fw_jinja_value *out) {
    fw_jinja_value text;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    FW_TRY(fw_jinja_spend(j, text.text->bytes * 4));
    *out = fw_jinja_bool(fw_jinja_all_cased(text.text, upper));
    return FW_OK;
}
static fw_status is_upper(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    return is_cased(j, c, true, out);
}
static fw_status is_lower(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out) {
    return is_cased(j, c, false, out);
}

const fw_jinja_function fw_jinja_tests[] = {
    {"defined", "", 0, is_defined},
    {"undefined", "", 0, is_undefined},
    {"none", "", 0, is_none},
    {"boolean", "", 0, is_boolean},
    {"true", "", 0, is_true},
    {"false", "", 0, is_false},
    {"integer", "", 0, is_integer},
    {"float", "", 0, is_float},
    {"number", "", 0, is_number},
    {"string", "", 0, is_string},
    {"mapping", "", 0, is_mapping},
    {"iterable", "", 0, is_iterable},
    {"sequence", "", 0, is_sequence},
    {"callable", "", 0, is_callable},
    {"escaped", "", 0, is_escaped},
    {"filter", "", 0, is_filter},
    {"test", "", 0, is_test},
    {"odd", "", 0, is_odd},
    {"even", "", 0, is_even},
    {"divisibleby", "num", 1, is_divisible},
    {"sameas", "other", 1, is_sameas},
    {"lower", "", 0, is_lower},
    {"upper", "", 0, is_upper},
    {"in", "seq", 1, is_in},
    {"==", "/other", 1, is_eq},
    {"eq", "/other", 1, is_eq},
    {"equalto", "/other", 1, is_eq},
    {"!=", "/other", 1, is_ne},
    {"ne", "/other", 1, is_ne},
    {"<", "/other", 1, is_lt},
    {"lt", "/other", 1, is_lt},
    {"lessthan", "/other", 1, is_lt},
    {"<=", "/other", 1, is_le},
    {"le", "/other", 1, is_le},
    {">", "/other", 1, is_gt},
    {"gt", "/other", 1, is_gt},
    {"greaterthan", "/other", 1, is_gt},
    {">=", "/other", 1, is_ge},
    {"ge", "/other", 1, is_ge},
    {0},
};
