/* Expressions -> values. */
#include "text/jinja/jinja_call.h"

#include <string.h>

static fw_status eval_variable(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    const fw_jinja_value *value = fw_jinja_scope_find(j->scope, node->name);
    if (value != NULL) {
        *out = *value; /* template's text of no message, as eos_token, is of the message that it is written for */
        if (out->kind == FW_JINJA_TEXT && out->origin == fw_jinja_origin_of(-1, FW_CHAT_TEMPLATE))
            out->origin = fw_jinja_own_origin(j);
        return FW_OK;
    }
    const fw_jinja_function *global = fw_jinja_find_function(fw_jinja_globals, node->name->text, node->name->bytes);
    if (global == NULL) return fw_jinja_undefined_name(j, out, node->name->text, node->name->bytes);
    fw_jinja_value none = fw_jinja_none();
    return fw_jinja_bind(j, global, &none, out);
}

static fw_status eval_sequence(fw_jinja *j, const fw_jinja_node *node, fw_jinja_list_kind kind, fw_jinja_value *out) {
    fw_jinja_list *list;
    FW_TRY(fw_jinja_list_make(j->memory, &list, kind, node->child_n));
    for (size_t i = 0; i < node->child_n; i++) FW_TRY(fw_jinja_eval(j, node->child[i], &list->item[i]));
    *out = (fw_jinja_value){.kind = FW_JINJA_LIST, .origin = fw_jinja_own_origin(j), .list = list};
    return FW_OK;
}

static fw_status eval_dict(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_dict *dict;
    FW_TRY(fw_jinja_dict_make(j->memory, &dict, node->child_n / 2));
    for (size_t i = 0; i < node->child_n; i += 2) {
        fw_jinja_value key, value;
        FW_TRY(fw_jinja_eval(j, node->child[i], &key));
        FW_TRY(fw_jinja_eval(j, node->child[i + 1], &value));
        if (!fw_jinja_is_hashable(&key))
            return fw_jinja_fail(j, "a value of type %s cannot be a key", fw_jinja_type_name(&key));
        FW_TRY(fw_jinja_dict_put(j->memory, dict, key, value));
    }
    *out = (fw_jinja_value){.kind = FW_JINJA_DICT, .origin = fw_jinja_own_origin(j), .dict = dict};
    return FW_OK;
}

static fw_status eval_logic(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    FW_TRY(fw_jinja_eval(j, node->a, out));
    if (fw_jinja_truth(out) == (node->kind == FW_JINJA_AND)) return fw_jinja_eval(j, node->b, out);
    return FW_OK;
}

/* a < b < c: each is evaluated once, and only while the comparisons hold. */
static fw_status eval_comparison(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value left, right;
    bool holds = true;
    FW_TRY(fw_jinja_eval(j, node->a, &left));
    for (size_t i = 0; i < node->child_n && holds; i++) {
        FW_TRY(fw_jinja_eval(j, node->child[i], &right));
        j->line = node->line;
        FW_TRY(fw_jinja_compare(j, node->operators[i], &left, &right, &holds));
        left = right;
    }
    *out = fw_jinja_bool(holds);
    out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

static fw_status eval_concat(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value first = {0}, part;
    for (size_t i = 0; i < node->child_n; i++) { /* the first may be a text that goes on: x = x ~ y */
        FW_TRY(fw_jinja_eval(j, node->child[i], &part));
        FW_TRY(fw_jinja_to_text(j, &part, &part));
        if (i == 0) {
            first = part;
        } else { /* what is copied of the first is paid by its memory */
            FW_TRY(fw_jinja_spend(j, part.text->bytes));
            FW_TRY(fw_jinja_join_two(j->memory, &first, &part, &first));
        }
    }
    if (node->child_n == 0) return fw_jinja_text_of(j->memory, out, "", 0, fw_jinja_own_origin(j), false);
    *out = first;
    return FW_OK;
}

static fw_status eval_if_else(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value condition;
    FW_TRY(fw_jinja_eval(j, node->b, &condition));
    if (fw_jinja_truth(&condition)) return fw_jinja_eval(j, node->a, out);
    if (node->c != NULL) return fw_jinja_eval(j, node->c, out);
    return fw_jinja_undefined_hint(j, out, "the inline if is false and has no else");
}

static fw_status eval_slice(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value object, bound[3] = {0};
    FW_TRY(fw_jinja_eval(j, node->a, &object));
    for (int i = 0; i < 3; i++)
        if (node->child[i] != NULL) FW_TRY(fw_jinja_eval(j, node->child[i], &bound[i]));
    return fw_jinja_slice(j, &object, bound, out);
}

static fw_status eval_filter(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value subject;
    fw_jinja_args args;
    bool test = node->kind == FW_JINJA_TEST;
    const fw_jinja_name *name = node->name;
    const fw_jinja_function *f =
        test ? fw_jinja_find_test(name->text, name->bytes) : fw_jinja_find_filter(name->text, name->bytes);
    if (f == NULL) return fw_jinja_fail(j, "there is no %s \"%.60s\" here", test ? "test" : "filter", name->text);
    FW_TRY(fw_jinja_eval(j, node->a, &subject));
    FW_TRY(fw_jinja_eval_arguments(j, node->arguments, &args));
    j->line = node->line;
    return fw_jinja_run(j, f, &subject, &args, out);
}

static fw_status eval_call(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value callee;
    fw_jinja_args args;
    FW_TRY(fw_jinja_eval(j, node->a, &callee));
    FW_TRY(fw_jinja_eval_arguments(j, node->arguments, &args));
    j->line = node->line;
    return fw_jinja_call_value(j, &callee, &args, out);
}

/* Operators that evaluate one or two values and work on them. */
static fw_status eval_operation(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    fw_jinja_value a, b;
    FW_TRY(fw_jinja_eval(j, node->a, &a));
    if (node->kind == FW_JINJA_BINARY || node->kind == FW_JINJA_ITEM) FW_TRY(fw_jinja_eval(j, node->b, &b));
    j->line = node->line;
    switch (node->kind) {
    case FW_JINJA_BINARY: return fw_jinja_arithmetic(j, node->op, &a, &b, out);
    case FW_JINJA_ITEM: return fw_jinja_item(j, &a, &b, out);
    case FW_JINJA_ATTRIBUTE: return fw_jinja_attribute(j, &a, node->name->text, node->name->bytes, out);
    case FW_JINJA_NOT:
        *out = fw_jinja_bool(!fw_jinja_truth(&a));
        out->origin = fw_jinja_own_origin(j);
        return FW_OK;
    default: return fw_jinja_negate(j, &a, node->kind == FW_JINJA_NEGATIVE, out);
    }
}

static fw_status eval_node(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    switch (node->kind) {
    case FW_JINJA_CONST:
        *out = node->value;
        out->origin = fw_jinja_own_origin(j);
        return FW_OK;
    case FW_JINJA_VARIABLE: return eval_variable(j, node, out);
    case FW_JINJA_TUPLE_OF: return eval_sequence(j, node, FW_JINJA_IS_TUPLE, out);
    case FW_JINJA_LIST_OF: return eval_sequence(j, node, FW_JINJA_IS_LIST, out);
    case FW_JINJA_DICT_OF: return eval_dict(j, node, out);
    case FW_JINJA_AND:
    case FW_JINJA_OR: return eval_logic(j, node, out);
    case FW_JINJA_COMPARE: return eval_comparison(j, node, out);
    case FW_JINJA_CONCAT: return eval_concat(j, node, out);
    case FW_JINJA_IF_ELSE: return eval_if_else(j, node, out);
    case FW_JINJA_SLICE: return eval_slice(j, node, out);
    case FW_JINJA_CALL: return eval_call(j, node, out);
    case FW_JINJA_FILTER:
    case FW_JINJA_TEST: return eval_filter(j, node, out);
    default: return eval_operation(j, node, out);
    }
}

fw_status fw_jinja_eval(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out) {
    j->line = node->line;
    FW_TRY(fw_jinja_spend(j, 0));
    if (j->depth >= FW_JINJA_DEPTH_MAX)
        return fw_jinja_fail(j, "the template goes too deep; is it a recursion without end?");
    j->depth++;
    FW_TRY(eval_node(j, node, out));
    j->depth--;
    return FW_OK;
}
