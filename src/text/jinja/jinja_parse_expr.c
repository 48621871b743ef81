/* Expressions, in the reference's order of precedence: if-else, or, and, not, comparisons, + -, ~, * / // %, **, and what
 * jinja_parse_value.c reads. */
#include "text/jinja/jinja_parser.h"

#include <string.h>

static fw_status parse_power(fw_jinja_parser *p, fw_jinja_node **out) {
    fw_jinja_node *left, *right;
    FW_TRY(fw_jinja_parse_unary(p, out, true));
    while (fw_jinja_at_op(p, "**")) {
        int line = p->at->line;
        p->at++;
        left = *out;
        FW_TRY(fw_jinja_parse_unary(p, &right, true));
        FW_TRY(fw_jinja_new_binary(p, out, FW_JINJA_BINARY, line, left, right));
        (*out)->op = FW_JINJA_POW;
    }
    return FW_OK;
}

/* Operators of one precedence, from the left. */
static fw_status parse_chain(fw_jinja_parser *p, fw_jinja_node **out,
                             fw_status (*part)(fw_jinja_parser *, fw_jinja_node **), const char *const *words,
                             const fw_jinja_operator *operators) {
    FW_TRY(part(p, out));
    for (;;) {
        int which = 0;
        while (words[which] != NULL && !fw_jinja_at_op(p, words[which])) which++;
        if (words[which] == NULL) return FW_OK;
        int line = p->at->line;
        p->at++;
        fw_jinja_node *left = *out, *right;
        FW_TRY(part(p, &right));
        FW_TRY(fw_jinja_new_binary(p, out, FW_JINJA_BINARY, line, left, right));
        (*out)->op = operators[which];
    }
}

static fw_status parse_product(fw_jinja_parser *p, fw_jinja_node **out) {
    static const char *const words[] = {"*", "/", "//", "%", NULL};
    static const fw_jinja_operator operators[] = {FW_JINJA_MUL, FW_JINJA_DIV, FW_JINJA_FLOORDIV, FW_JINJA_MOD};
    return parse_chain(p, out, parse_power, words, operators);
}

static fw_status parse_concat(fw_jinja_parser *p, fw_jinja_node **out) {
    FW_TRY(parse_product(p, out));
    if (!fw_jinja_at_op(p, "~")) return FW_OK;
    fw_jinja_nodes parts = {0};
    fw_jinja_node *part = *out;
    int line = p->at->line;
    FW_TRY(fw_jinja_nodes_add(p, &parts, part));
    while (fw_jinja_skip_op(p, "~")) {
        FW_TRY(parse_product(p, &part));
        FW_TRY(fw_jinja_nodes_add(p, &parts, part));
    }
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_CONCAT, line));
    (*out)->child = parts.node;
    (*out)->child_n = parts.n;
    return FW_OK;
}

static fw_status parse_sum(fw_jinja_parser *p, fw_jinja_node **out) {
    static const char *const words[] = {"+", "-", NULL};
    static const fw_jinja_operator operators[] = {FW_JINJA_ADD, FW_JINJA_SUB};
    return parse_chain(p, out, parse_concat, words, operators);
}

static bool comparison(fw_jinja_parser *p, fw_jinja_operator *op) {
    static const char *const words[] = {"==", "!=", "<", "<=", ">", ">="};
    static const fw_jinja_operator operators[] = {FW_JINJA_EQ, FW_JINJA_NE, FW_JINJA_LT,
                                                  FW_JINJA_LE, FW_JINJA_GT, FW_JINJA_GE};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (fw_jinja_skip_op(p, words[i])) {
            *op = operators[i];
            return true;
        }
    if (fw_jinja_skip_name(p, "in")) {
        *op = FW_JINJA_IN;
        return true;
    }
    if (fw_jinja_at_name(p, "not") && p->at[1].kind == FW_JINJA_T_NAME && p->at[1].bytes == 2 &&
        memcmp(p->at[1].text, "in", 2) == 0) {
        p->at += 2;
        *op = FW_JINJA_NOT_IN;
        return true;
    }
    return false;
}

static fw_status parse_comparison(fw_jinja_parser *p, fw_jinja_node **out) {
    fw_jinja_node *first, *part;
    fw_jinja_nodes parts = {0};
    fw_jinja_operator op, *operators = NULL;
    int line = p->at->line;
    FW_TRY(parse_sum(p, out));
    first = *out;
    while (comparison(p, &op)) {
        if ((parts.n & (parts.n - 1)) == 0) {
            fw_jinja_operator *wider;
            FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, wider, parts.n ? 2 * parts.n : 1));
            if (parts.n) memcpy(wider, operators, parts.n * sizeof *wider);
            operators = wider;
        }
        operators[parts.n] = op;
        FW_TRY(parse_sum(p, &part));
        FW_TRY(fw_jinja_nodes_add(p, &parts, part));
    }
    if (parts.n == 0) return FW_OK;
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_COMPARE, line));
    (*out)->a = first;
    (*out)->child = parts.node;
    (*out)->child_n = parts.n;
    (*out)->operators = operators;
    return FW_OK;
}

static fw_status parse_not(fw_jinja_parser *p, fw_jinja_node **out) {
    int line = p->at->line;
    if (!fw_jinja_skip_name(p, "not")) return parse_comparison(p, out);
    fw_jinja_node *inner;
    FW_TRY(fw_jinja_enter(p));
    FW_TRY(parse_not(p, &inner));
    fw_jinja_leave(p);
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_NOT, line));
    (*out)->a = inner;
    return FW_OK;
}

static fw_status parse_and(fw_jinja_parser *p, fw_jinja_node **out) {
    FW_TRY(parse_not(p, out));
    while (fw_jinja_at_name(p, "and")) {
        int line = p->at->line;
        p->at++;
        fw_jinja_node *left = *out, *right;
        FW_TRY(parse_not(p, &right));
        FW_TRY(fw_jinja_new_binary(p, out, FW_JINJA_AND, line, left, right));
    }
    return FW_OK;
}

static fw_status parse_or(fw_jinja_parser *p, fw_jinja_node **out) {
    FW_TRY(parse_and(p, out));
    while (fw_jinja_at_name(p, "or")) {
        int line = p->at->line;
        p->at++;
        fw_jinja_node *left = *out, *right;
        FW_TRY(parse_and(p, &right));
        FW_TRY(fw_jinja_new_binary(p, out, FW_JINJA_OR, line, left, right));
    }
    return FW_OK;
}

static fw_status parse_if_else(fw_jinja_parser *p, fw_jinja_node **out) {
    FW_TRY(parse_or(p, out));
    while (fw_jinja_at_name(p, "if")) {
        int line = p->at->line;
        p->at++;
        fw_jinja_node *value = *out, *condition, *otherwise = NULL;
        FW_TRY(parse_or(p, &condition));
        if (fw_jinja_skip_name(p, "else")) FW_TRY(fw_jinja_parse_expression(p, &otherwise, true));
        FW_TRY(fw_jinja_new_binary(p, out, FW_JINJA_IF_ELSE, line, value, condition));
        (*out)->c = otherwise;
    }
    return FW_OK;
}

fw_status fw_jinja_parse_expression(fw_jinja_parser *p, fw_jinja_node **out, bool with_if) {
    FW_TRY(fw_jinja_enter(p));
    FW_TRY(with_if ? parse_if_else(p, out) : parse_or(p, out));
    fw_jinja_leave(p);
    return FW_OK;
}

static bool at_tuple_end(const fw_jinja_parser *p, const char *end_name) {
    return p->at->kind == FW_JINJA_T_OUTPUT_END || p->at->kind == FW_JINJA_T_BLOCK_END || fw_jinja_at_op(p, ")") ||
           (end_name != NULL && fw_jinja_at_name(p, end_name));
}

typedef enum tuple_part { FULL, WITHOUT_IF, TARGET, NS_TARGET } tuple_part;

static fw_status parse_commas(fw_jinja_parser *p, fw_jinja_node **out, tuple_part how, const char *end_name,
                              bool in_parentheses) {
    fw_jinja_nodes parts = {0};
    bool tuple = false;
    int line = p->at->line;
    while (!at_tuple_end(p, end_name)) {
        fw_jinja_node *part;
        if (how == TARGET || how == NS_TARGET)
            FW_TRY(fw_jinja_parse_primary(p, &part, how == NS_TARGET));
        else
            FW_TRY(fw_jinja_parse_expression(p, &part, how == FULL));
        FW_TRY(fw_jinja_nodes_add(p, &parts, part));
        if (!fw_jinja_skip_op(p, ",")) break;
        tuple = true;
    }
    if (!tuple && parts.n == 1) {
        *out = parts.node[0];
        return FW_OK;
    }
    if (!tuple && !in_parentheses)
        return fw_jinja_syntax_error(p, "an expression was expected, not %s", fw_jinja_token_name(p->at));
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_TUPLE_OF, line));
    (*out)->child = parts.node;
    (*out)->child_n = parts.n;
    return FW_OK;
}

fw_status fw_jinja_parse_tuple(fw_jinja_parser *p, fw_jinja_node **out, bool with_if, const char *end_name,
                               bool in_parentheses) {
    FW_TRY(fw_jinja_enter(p));
    FW_TRY(parse_commas(p, out, with_if ? FULL : WITHOUT_IF, end_name, in_parentheses));
    fw_jinja_leave(p);
    return FW_OK;
}

static fw_status check_target(fw_jinja_parser *p, const fw_jinja_node *target, int depth) {
    if (target->kind == FW_JINJA_VARIABLE || target->kind == FW_JINJA_NS_TARGET) return FW_OK;
    if (target->kind != FW_JINJA_TUPLE_OF || depth > 20)
        return fw_jinja_syntax_error(p, "only names can be assigned to");
    for (size_t i = 0; i < target->child_n; i++) FW_TRY(check_target(p, target->child[i], depth + 1));
    return FW_OK;
}

fw_status fw_jinja_parse_target(fw_jinja_parser *p, fw_jinja_node **out, const char *end_name, bool namespaces) {
    FW_TRY(parse_commas(p, out, namespaces ? NS_TARGET : TARGET, end_name, false));
    return check_target(p, *out, 0);
}
