/* Values, and what follows a value: .name, [item], (call), | filter, is test. */
#include "text/jinja/jinja_parser.h"

#include "text/jinja/jinja_unicode.h"

#include <string.h>

static fw_status parse_postfix(fw_jinja_parser *p, fw_jinja_node **node);

/* A chain such as a + b + c makes a tree that is as deep as the chain is long. */
fw_status fw_jinja_deepen(fw_jinja_parser *p, fw_jinja_node *node, const fw_jinja_node *a, const fw_jinja_node *b) {
    int of_b = b ? b->depth : 0;
    node->depth = 1 + (a->depth > of_b ? a->depth : of_b);
    if (node->depth > 2 * FW_JINJA_NODE_DEPTH_MAX)
        return fw_jinja_syntax_error(p, "the expression is nested too deeply");
    return FW_OK;
}

fw_status fw_jinja_new_binary(fw_jinja_parser *p, fw_jinja_node **out, fw_jinja_node_kind kind, int line,
                              fw_jinja_node *a, fw_jinja_node *b) {
    FW_TRY(fw_jinja_new_node(p, out, kind, line));
    (*out)->a = a;
    (*out)->b = b;
    return fw_jinja_deepen(p, *out, a, b);
}

static fw_status new_constant(fw_jinja_parser *p, fw_jinja_node **out, int line, fw_jinja_value value) {
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_CONST, line));
    (*out)->value = value;
    return FW_OK;
}

static fw_status add_keyword(fw_jinja_parser *p, fw_jinja_arguments *arguments, const fw_jinja_name *name,
                             fw_jinja_node *value) {
    struct fw_jinja_keyword *wider;
    if (arguments->keyword_n == 255) return fw_jinja_syntax_error(p, "a call has more than 255 named arguments");
    for (size_t i = 0; i < arguments->keyword_n; i++)
        if (arguments->keyword[i].name == name)
            return fw_jinja_syntax_error(p, "the argument %.*s is given twice", (int)name->bytes, name->text);
    if ((arguments->keyword_n & (arguments->keyword_n - 1)) == 0) { /* full at every power of two */
        FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, wider, arguments->keyword_n ? 2 * arguments->keyword_n : 1));
        if (arguments->keyword_n) memcpy(wider, arguments->keyword, arguments->keyword_n * sizeof *wider);
        arguments->keyword = wider;
    }
    arguments->keyword[arguments->keyword_n].name = name;
    arguments->keyword[arguments->keyword_n++].value = value;
    return FW_OK;
}

static fw_status parse_argument(fw_jinja_parser *p, fw_jinja_arguments *arguments, fw_jinja_nodes *values) {
    static const char order[] = "the arguments of a call are in the wrong order";
    fw_jinja_node *value;
    if (fw_jinja_skip_op(p, "*")) {
        if (arguments->rest || arguments->rest_keywords) return fw_jinja_syntax_error(p, "%s", order);
        return fw_jinja_parse_expression(p, &arguments->rest, true);
    }
    if (fw_jinja_skip_op(p, "**")) {
        if (arguments->rest_keywords) return fw_jinja_syntax_error(p, "%s", order);
        return fw_jinja_parse_expression(p, &arguments->rest_keywords, true);
    }
    bool keyword =
        p->at->kind == FW_JINJA_T_NAME && p->at[1].kind == FW_JINJA_T_OPERATOR && strcmp(p->at[1].op, "=") == 0;
    if (keyword) {
        const fw_jinja_name *name;
        if (arguments->rest_keywords) return fw_jinja_syntax_error(p, "%s", order);
        FW_TRY(fw_jinja_expect_name(p, &name));
        p->at++;
        FW_TRY(fw_jinja_parse_expression(p, &value, true));
        return add_keyword(p, arguments, name, value);
    }
    if (arguments->rest || arguments->rest_keywords || arguments->keyword_n)
        return fw_jinja_syntax_error(p, "%s", order);
    FW_TRY(fw_jinja_parse_expression(p, &value, true));
    return fw_jinja_nodes_add(p, values, value);
}

/* (a, b, name=c, *d, **e) */
static fw_status parse_arguments(fw_jinja_parser *p, fw_jinja_arguments **out) {
    fw_jinja_nodes values = {0};
    FW_TRY(FW_JINJA_NEW(p->memory, *out));
    FW_TRY(fw_jinja_expect_op(p, "("));
    for (bool first = true; !fw_jinja_at_op(p, ")"); first = false) {
        if (!first) FW_TRY(fw_jinja_expect_op(p, ","));
        if (fw_jinja_at_op(p, ")")) {
            if (first) return fw_jinja_syntax_error(p, "a comma without an argument");
            break;
        }
        FW_TRY(parse_argument(p, *out, &values));
    }
    p->at++;
    (*out)->value = values.node;
    (*out)->n = values.n;
    return FW_OK;
}

static fw_status dotted_name(fw_jinja_parser *p, const fw_jinja_name **name) {
    FW_TRY(fw_jinja_expect_name(p, name));
    if (fw_jinja_at_op(p, "."))
        return fw_jinja_syntax_error(p, "there is no filter or test \"%.*s.\"", (int)(*name)->bytes, (*name)->text);
    return FW_OK;
}

fw_status fw_jinja_parse_filters(fw_jinja_parser *p, fw_jinja_node **node, bool in_front) {
    while (in_front || fw_jinja_skip_op(p, "|")) {
        fw_jinja_node *filter;
        FW_TRY(fw_jinja_new_node(p, &filter, FW_JINJA_FILTER, p->at->line));
        FW_TRY(dotted_name(p, &filter->name));
        if (fw_jinja_at_op(p, "(")) FW_TRY(parse_arguments(p, &filter->arguments));
        filter->a = *node;
        if (*node != NULL) FW_TRY(fw_jinja_deepen(p, filter, *node, NULL));
        *node = filter;
        in_front = false;
    }
    return FW_OK;
}

/* Can the token begin the one argument of a test that has no parentheses? */
static bool begins_argument(const fw_jinja_parser *p) {
    switch (p->at->kind) {
    case FW_JINJA_T_STRING:
    case FW_JINJA_T_INT:
    case FW_JINJA_T_FLOAT: return true;
    case FW_JINJA_T_NAME:
        return !fw_jinja_at_name(p, "else") && !fw_jinja_at_name(p, "or") && !fw_jinja_at_name(p, "and");
    default: return fw_jinja_at_op(p, "[") || fw_jinja_at_op(p, "{");
    }
}

static fw_status parse_test(fw_jinja_parser *p, fw_jinja_node **node) {
    fw_jinja_node *test, *argument;
    FW_TRY(fw_jinja_new_node(p, &test, FW_JINJA_TEST, p->at->line));
    p->at++;
    bool negated = fw_jinja_skip_name(p, "not");
    FW_TRY(dotted_name(p, &test->name));
    if (fw_jinja_at_op(p, "(")) {
        FW_TRY(parse_arguments(p, &test->arguments));
    } else if (begins_argument(p)) {
        if (fw_jinja_at_name(p, "is")) return fw_jinja_syntax_error(p, "tests cannot be chained with is");
        FW_TRY(fw_jinja_parse_primary(p, &argument, false));
        FW_TRY(parse_postfix(p, &argument));
        FW_TRY(FW_JINJA_NEW(p->memory, test->arguments));
        fw_jinja_nodes values = {0};
        FW_TRY(fw_jinja_nodes_add(p, &values, argument));
        test->arguments->value = values.node;
        test->arguments->n = 1;
    }
    test->a = *node;
    FW_TRY(fw_jinja_deepen(p, test, *node, NULL));
    *node = test;
    if (!negated) return FW_OK;
    FW_TRY(fw_jinja_new_node(p, node, FW_JINJA_NOT, test->line));
    (*node)->a = test;
    return fw_jinja_deepen(p, *node, test, NULL);
}

/* [item] or [start:stop:step] */
static fw_status parse_subscript(fw_jinja_parser *p, fw_jinja_node **node) {
    fw_jinja_node *result, *part[3] = {NULL, NULL, NULL};
    int line = p->at->line, part_n = 0;
    p->at++;
    bool slice = false;
    for (;; part_n++) {
        if (!fw_jinja_at_op(p, ":") && !fw_jinja_at_op(p, "]"))
            FW_TRY(fw_jinja_parse_expression(p, &part[part_n], true));
        if (part_n == 2 || !fw_jinja_skip_op(p, ":")) break;
        slice = true;
    }
    if (fw_jinja_at_op(p, ",")) return fw_jinja_syntax_error(p, "a subscript of several values is not supported");
    if (!slice && part[0] == NULL) return fw_jinja_syntax_error(p, "an empty subscript");
    FW_TRY(fw_jinja_expect_op(p, "]"));
    FW_TRY(fw_jinja_new_node(p, &result, slice ? FW_JINJA_SLICE : FW_JINJA_ITEM, line));
    result->a = *node;
    if (slice) {
        FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, result->child, 3));
        memcpy(result->child, part, sizeof part);
        result->child_n = 3;
    } else {
        result->b = part[0];
    }
    FW_TRY(fw_jinja_deepen(p, result, *node, part[0]));
    *node = result;
    return FW_OK;
}

static fw_status parse_dot(fw_jinja_parser *p, fw_jinja_node **node) {
    fw_jinja_node *result;
    int line = p->at->line;
    p->at++;
    if (p->at->kind == FW_JINJA_T_INT) { /* x.0 is x[0] */
        fw_jinja_node *index;
        FW_TRY(new_constant(p, &index, line, fw_jinja_int(p->at->integer)));
        p->at++;
        FW_TRY(fw_jinja_new_binary(p, &result, FW_JINJA_ITEM, line, *node, index));
    } else {
        FW_TRY(fw_jinja_new_node(p, &result, FW_JINJA_ATTRIBUTE, line));
        result->a = *node;
        FW_TRY(fw_jinja_expect_name(p, &result->name));
        FW_TRY(fw_jinja_deepen(p, result, *node, NULL));
    }
    *node = result;
    return FW_OK;
}

static fw_status parse_call(fw_jinja_parser *p, fw_jinja_node **node) {
    fw_jinja_node *call;
    FW_TRY(fw_jinja_new_node(p, &call, FW_JINJA_CALL, p->at->line));
    call->a = *node;
    FW_TRY(parse_arguments(p, &call->arguments));
    FW_TRY(fw_jinja_deepen(p, call, *node, NULL));
    *node = call;
    return FW_OK;
}

static fw_status parse_postfix(fw_jinja_parser *p, fw_jinja_node **node) {
    for (;;) {
        if (fw_jinja_at_op(p, "."))
            FW_TRY(parse_dot(p, node));
        else if (fw_jinja_at_op(p, "["))
            FW_TRY(parse_subscript(p, node));
        else if (fw_jinja_at_op(p, "("))
            FW_TRY(parse_call(p, node));
        else
            return FW_OK;
    }
}

/* [a, b] or {a: b} */
static fw_status parse_display(fw_jinja_parser *p, fw_jinja_node **out, bool dict) {
    const char *close = dict ? "}" : "]";
    fw_jinja_nodes items = {0};
    fw_jinja_node *item;
    FW_TRY(fw_jinja_new_node(p, out, dict ? FW_JINJA_DICT_OF : FW_JINJA_LIST_OF, p->at->line));
    p->at++;
    for (bool first = true; !fw_jinja_at_op(p, close); first = false) {
        if (!first) FW_TRY(fw_jinja_expect_op(p, ","));
        if (!first && fw_jinja_at_op(p, close)) break;
        FW_TRY(fw_jinja_parse_expression(p, &item, true));
        FW_TRY(fw_jinja_nodes_add(p, &items, item));
        if (!dict) continue;
        FW_TRY(fw_jinja_expect_op(p, ":"));
        FW_TRY(fw_jinja_parse_expression(p, &item, true));
        FW_TRY(fw_jinja_nodes_add(p, &items, item));
    }
    p->at++;
    (*out)->child = items.node;
    (*out)->child_n = items.n;
    return FW_OK;
}

/* Macros learn from the names in their bodies what they take. */
static void note_name(fw_jinja_parser *p, const fw_jinja_name *name) {
    for (int i = 0; i < p->macro_n; i++) {
        p->macros[i]->uses_caller |= name == p->program->caller;
        p->macros[i]->uses_varargs |= name == p->program->varargs;
        p->macros[i]->uses_kwargs |= name == p->program->kwargs;
    }
}

static fw_status parse_name(fw_jinja_parser *p, fw_jinja_node **out, bool namespaces) {
    static const struct {
        const char *name;
        fw_jinja_value value;
    } constants[] = {
        {"true", {.kind = FW_JINJA_BOOL, .boolean = true}},
        {"True", {.kind = FW_JINJA_BOOL, .boolean = true}},
        {"false", {.kind = FW_JINJA_BOOL}},
        {"False", {.kind = FW_JINJA_BOOL}},
        {"none", {.kind = FW_JINJA_NONE}},
        {"None", {.kind = FW_JINJA_NONE}},
    };
    int line = p->at->line;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (fw_jinja_skip_name(p, constants[i].name)) return new_constant(p, out, line, constants[i].value);
    const fw_jinja_name *name;
    FW_TRY(fw_jinja_expect_name(p, &name));
    note_name(p, name);
    bool attribute = namespaces && fw_jinja_skip_op(p, ".");
    FW_TRY(fw_jinja_new_node(p, out, attribute ? FW_JINJA_NS_TARGET : FW_JINJA_VARIABLE, line));
    (*out)->name = name;
    return attribute ? fw_jinja_expect_name(p, &(*out)->attribute) : FW_OK;
}

/* Strings side by side are one. */
static fw_status parse_string(fw_jinja_parser *p, fw_jinja_node **out) {
    int line = p->at->line;
    size_t bytes = 0, n = 0;
    for (const fw_jinja_token *t = p->at; t->kind == FW_JINJA_T_STRING; t++) bytes += t->bytes;
    char *data;
    fw_jinja_text *text;
    FW_TRY(fw_jinja_take(p->memory, (void **)&data, bytes));
    for (; p->at->kind == FW_JINJA_T_STRING; p->at++) {
        if (p->at->bytes) memcpy(data + n, p->at->text, p->at->bytes);
        n += p->at->bytes;
    }
    FW_TRY(fw_jinja_text_make(p->memory, &text, data, bytes));
    text->char_n = (int64_t)fw_jinja_count_chars(data, bytes);
    return new_constant(p, out, line, fw_jinja_text_value(text, 0));
}

fw_status fw_jinja_parse_primary(fw_jinja_parser *p, fw_jinja_node **out, bool namespaces) {
    int line = p->at->line;
    switch (p->at->kind) {
    case FW_JINJA_T_NAME: return parse_name(p, out, namespaces);
    case FW_JINJA_T_STRING: return parse_string(p, out);
    case FW_JINJA_T_INT: return new_constant(p, out, line, fw_jinja_int(p->at++->integer));
    case FW_JINJA_T_FLOAT: return new_constant(p, out, line, fw_jinja_float(p->at++->real));
    default: break;
    }
    if (fw_jinja_at_op(p, "[")) return parse_display(p, out, false);
    if (fw_jinja_at_op(p, "{")) return parse_display(p, out, true);
    if (!fw_jinja_at_op(p, "(")) return fw_jinja_syntax_error(p, "%s was not expected", fw_jinja_token_name(p->at));
    p->at++;
    FW_TRY(fw_jinja_parse_tuple(p, out, true, NULL, true));
    return fw_jinja_expect_op(p, ")");
}

static fw_status parse_value(fw_jinja_parser *p, fw_jinja_node **out, bool with_filter) {
    bool minus = fw_jinja_at_op(p, "-");
    if (minus || fw_jinja_at_op(p, "+")) {
        fw_jinja_node *inner;
        int line = p->at->line;
        p->at++;
        FW_TRY(fw_jinja_parse_unary(p, &inner, false));
        FW_TRY(fw_jinja_new_node(p, out, minus ? FW_JINJA_NEGATIVE : FW_JINJA_POSITIVE, line));
        (*out)->a = inner;
        FW_TRY(fw_jinja_deepen(p, *out, inner, NULL));
    } else {
        FW_TRY(fw_jinja_parse_primary(p, out, false));
    }
    FW_TRY(parse_postfix(p, out));
    while (with_filter) {
        if (fw_jinja_at_op(p, "|"))
            FW_TRY(fw_jinja_parse_filters(p, out, false));
        else if (fw_jinja_at_name(p, "is"))
            FW_TRY(parse_test(p, out));
        else if (fw_jinja_at_op(p, "("))
            FW_TRY(parse_call(p, out));
        else
            break;
    }
    return FW_OK;
}

fw_status fw_jinja_parse_unary(fw_jinja_parser *p, fw_jinja_node **out, bool with_filter) {
    FW_TRY(fw_jinja_enter(p));
    FW_TRY(parse_value(p, out, with_filter));
    fw_jinja_leave(p);
    return FW_OK;
}
