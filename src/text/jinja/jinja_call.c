#include "text/jinja/jinja_call.h"

#include <string.h>

const fw_jinja_function *fw_jinja_find_function(const fw_jinja_function *list, const char *name, size_t name_bytes) {
    if (name_bytes == 0) return NULL;
    for (; list->name != NULL; list++)
        if (list->name[0] == name[0] && strlen(list->name) == name_bytes && memcmp(list->name, name, name_bytes) == 0)
            return list;
    return NULL;
}

const fw_jinja_function *fw_jinja_find_filter(const char *name, size_t name_bytes) {
    const fw_jinja_function *const lists[] = {fw_jinja_text_filters, fw_jinja_sequence_filters, fw_jinja_value_filters};
    const fw_jinja_function *found = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && found == NULL; i++)
        found = fw_jinja_find_function(lists[i], name, name_bytes);
    return found;
}

const fw_jinja_function *fw_jinja_find_test(const char *name, size_t name_bytes) {
    return fw_jinja_find_function(fw_jinja_tests, name, name_bytes);
}

/* The index of a parameter in "a,b,c", or -1. */
static int find_parameter(const char *parameters, const char *name, size_t bytes) {
    int index = 0;
    for (const char *at = parameters; *at != 0; index++) {
        size_t n = strcspn(at, ",");
        if (n == bytes && memcmp(at, name, n) == 0) return index;
        at += n + (at[n] == ',');
    }
    return -1;
}

static int count_parameters(const char *parameters) {
    int n = *parameters != 0;
    for (; *parameters != 0; parameters++) n += *parameters == ',';
    return n;
}

fw_status fw_jinja_run(fw_jinja *j, const fw_jinja_function *f, const fw_jinja_value *self, const fw_jinja_args *args,
                       fw_jinja_value *out) {
    fw_jinja_call call = {.self = self, .args = args};
    const char *parameters = f->parameters;
    bool named = *parameters != '/';
    if (!named) parameters++;
    if (*parameters == '*') return f->run(j, &call, out);
    size_t parameter_n = (size_t)count_parameters(parameters);
    if (args->n > parameter_n)
        return fw_jinja_fail(j, "%s takes %zu arguments at most, %zu are given", f->name, parameter_n, args->n);
    for (size_t i = 0; i < args->n; i++) call.v[i] = args->value[i];
    for (size_t i = 0; i < args->keyword_n; i++) {
        const fw_jinja_keyword_value *k = &args->keyword[i];
        int at = named ? find_parameter(parameters, k->name, k->bytes) : -1;
        if (at < 0)
            return fw_jinja_fail(j, "%s has no argument %.*s", f->name, k->bytes > 40 ? 40 : (int)k->bytes, k->name);
        if (fw_jinja_given(&call.v[at]))
            return fw_jinja_fail(j, "%s is given its argument %.*s twice", f->name, (int)k->bytes, k->name);
        call.v[at] = k->value;
    }
    for (int i = 0; i < f->needed; i++)
        if (!fw_jinja_given(&call.v[i])) return fw_jinja_fail(j, "%s needs %d arguments", f->name, f->needed);
    return f->run(j, &call, out);
}

static fw_status need_name(fw_jinja *j, const fw_jinja_value *name, const char *what) {
    if (name->kind == FW_JINJA_TEXT) return FW_OK;
    return fw_jinja_fail(j, "the name of a %s is a value of type %s", what, fw_jinja_type_name(name));
}

fw_status fw_jinja_filter_by_name(fw_jinja *j, const fw_jinja_value *name, const fw_jinja_value *v,
                                  const fw_jinja_args *args, fw_jinja_value *out) {
    FW_TRY(need_name(j, name, "filter"));
    const fw_jinja_function *f = fw_jinja_find_filter(name->text->data, name->text->bytes);
    int n = name->text->bytes > 60 ? 60 : (int)name->text->bytes;
    if (f == NULL) return fw_jinja_fail(j, "there is no filter %.*s", n, name->text->data);
    return fw_jinja_run(j, f, v, args, out);
}

fw_status fw_jinja_test_by_name(fw_jinja *j, const fw_jinja_value *name, const fw_jinja_value *v,
                                const fw_jinja_args *args, bool *out) {
    fw_jinja_value result;
    FW_TRY(need_name(j, name, "test"));
    const fw_jinja_function *f = fw_jinja_find_test(name->text->data, name->text->bytes);
    int n = name->text->bytes > 60 ? 60 : (int)name->text->bytes;
    if (f == NULL) return fw_jinja_fail(j, "there is no test %.*s", n, name->text->data);
    FW_TRY(fw_jinja_run(j, f, v, args, &result));
    *out = fw_jinja_truth(&result);
    return FW_OK;
}

fw_status fw_jinja_bind(fw_jinja *j, const fw_jinja_function *function, const fw_jinja_value *self,
                        fw_jinja_value *out) {
    fw_jinja_bound *bound;
    FW_TRY(FW_JINJA_NEW(j->memory, bound));
    *bound = (fw_jinja_bound){function, *self};
    *out = (fw_jinja_value){.kind = FW_JINJA_FUNCTION, .origin = fw_jinja_own_origin(j), .function = bound};
    return FW_OK;
}

static fw_status add_keyword(fw_jinja *j, fw_jinja_args *args, const char *name, size_t bytes, fw_jinja_value value) {
    for (size_t i = 0; i < args->keyword_n; i++)
        if (args->keyword[i].bytes == bytes && memcmp(args->keyword[i].name, name, bytes) == 0)
            return fw_jinja_fail(j, "an argument %.*s is given twice", bytes > 60 ? 60 : (int)bytes, name);
    args->keyword[args->keyword_n++] = (fw_jinja_keyword_value){name, bytes, value};
    return FW_OK;
}

fw_status fw_jinja_eval_arguments(fw_jinja *j, const fw_jinja_arguments *a, fw_jinja_args *out) {
    *out = (fw_jinja_args){0};
    if (a == NULL) return FW_OK;
    fw_jinja_value *rest = NULL;
    size_t rest_n = 0;
    fw_jinja_value all = {0}, keywords = {0};
    if (a->n > 0) FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, out->value, a->n));
    for (size_t i = 0; i < a->n; i++) FW_TRY(fw_jinja_eval(j, a->value[i], &out->value[i]));
    out->n = a->n;
    if (a->rest != NULL) {
        FW_TRY(fw_jinja_eval(j, a->rest, &all));
        FW_TRY(fw_jinja_items(j, &all, &rest, &rest_n));
        fw_jinja_value *longer;
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, longer, a->n + rest_n));
        if (a->n) memcpy(longer, out->value, a->n * sizeof *longer);
        if (rest_n) memcpy(longer + a->n, rest, rest_n * sizeof *longer);
        out->value = longer;
        out->n += rest_n;
    }
    if (a->keyword_n == 0 && a->rest_keywords == NULL) return FW_OK;
    size_t more_n = 0;
    if (a->rest_keywords != NULL) {
        FW_TRY(fw_jinja_eval(j, a->rest_keywords, &keywords));
        if (keywords.kind != FW_JINJA_DICT)
            return fw_jinja_fail(j, "** needs a dict, not a value of type %s", fw_jinja_type_name(&keywords));
        more_n = keywords.dict->n;
        if (more_n > 255) return fw_jinja_fail(j, "** with more than 255 arguments");
    }
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, out->keyword, a->keyword_n + more_n + 1)); /* one more for caller */
    for (size_t i = 0; i < a->keyword_n; i++) {
        fw_jinja_value value;
        FW_TRY(fw_jinja_eval(j, a->keyword[i].value, &value));
        FW_TRY(add_keyword(j, out, a->keyword[i].name->text, a->keyword[i].name->bytes, value));
    }
    for (size_t i = 0; i < more_n; i++) {
        const fw_jinja_value *key = &keywords.dict->entry[i].key;
        if (key->kind != FW_JINJA_TEXT) return fw_jinja_fail(j, "** needs a dict with names as its keys");
        FW_TRY(add_keyword(j, out, key->text->data, key->text->bytes, keywords.dict->entry[i].value));
    }
    return FW_OK;
}

bool fw_jinja_take_keyword(fw_jinja_args *args, const char *name, size_t bytes, fw_jinja_value *out) {
    for (size_t i = 0; i < args->keyword_n; i++) {
        if (args->keyword[i].bytes != bytes || memcmp(args->keyword[i].name, name, bytes) != 0) continue;
        *out = args->keyword[i].value;
        memmove(&args->keyword[i], &args->keyword[i + 1], (args->keyword_n - i - 1) * sizeof *args->keyword);
        args->keyword_n--;
        return true;
    }
    return false;
}

fw_status fw_jinja_put_keywords(fw_jinja *j, fw_jinja_dict *dict, const fw_jinja_args *args) {
    for (size_t i = 0; i < args->keyword_n; i++) {
        const fw_jinja_keyword_value *k = &args->keyword[i];
        fw_jinja_value key;
        FW_TRY(fw_jinja_text_of(j->memory, &key, k->name, k->bytes, fw_jinja_own_origin(j), false));
        FW_TRY(fw_jinja_dict_put(j->memory, dict, key, k->value));
    }
    return FW_OK;
}

/* The names that a macro has without parameters: caller, kwargs, varargs. */
static fw_status bind_special(fw_jinja *j, const fw_jinja_macro_def *m, fw_jinja_args *left, bool caller_is_parameter) {
    const fw_jinja_program *program = j->program;
    fw_jinja_value value;
    if (m->uses_caller && !caller_is_parameter) {
        if (!fw_jinja_take_keyword(left, program->caller->text, program->caller->bytes, &value))
            FW_TRY(fw_jinja_undefined_hint(j, &value, "No caller defined"));
        FW_TRY(fw_jinja_scope_set(j, j->scope, program->caller, value));
    }
    if (m->uses_kwargs) {
        fw_jinja_dict *dict;
        FW_TRY(fw_jinja_dict_make(j->memory, &dict, left->keyword_n));
        FW_TRY(fw_jinja_put_keywords(j, dict, left));
        value = (fw_jinja_value){.kind = FW_JINJA_DICT, .origin = fw_jinja_own_origin(j), .dict = dict};
        FW_TRY(fw_jinja_scope_set(j, j->scope, program->kwargs, value));
    } else if (left->keyword_n > 0) {
        return fw_jinja_fail(j, "the macro %s has no argument %.*s", m->name ? m->name->text : "of the call",
                             (int)left->keyword[0].bytes, left->keyword[0].name);
    }
    if (m->uses_varargs) {
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, left->value, left->n, &value));
        FW_TRY(fw_jinja_scope_set(j, j->scope, program->varargs, value));
    } else if (left->n > 0) {
        return fw_jinja_fail(j, "the macro %s takes %zu arguments at most", m->name ? m->name->text : "of the call",
                             m->parameter_n);
    }
    return FW_OK;
}

static fw_status bind_macro(fw_jinja *j, const fw_jinja_macro_def *m, const fw_jinja_args *args) {
    fw_jinja_args left = *args;
    bool caller_is_parameter = false;
    if (left.keyword_n > 0) { /* names are taken out of a copy */
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, left.keyword, left.keyword_n));
        memcpy(left.keyword, args->keyword, args->keyword_n * sizeof *left.keyword);
    }
    size_t positional_n = args->n < m->parameter_n ? args->n : m->parameter_n;
    for (size_t i = 0; i < m->parameter_n; i++) { /* all that are given are known before a default is asked for */
        fw_jinja_value value = {0};
        caller_is_parameter |= m->parameter[i] == j->program->caller;
        if (i < positional_n)
            value = args->value[i];
        else
            fw_jinja_take_keyword(&left, m->parameter[i]->text, m->parameter[i]->bytes, &value);
        FW_TRY(fw_jinja_scope_set(j, j->scope, m->parameter[i], value));
    }
    if (positional_n > 0) left.value += positional_n;
    left.n -= positional_n;
    FW_TRY(bind_special(j, m, &left, caller_is_parameter));
    for (size_t i = positional_n; i < m->parameter_n; i++) {
        struct fw_jinja_variable *v = j->scope->variable;
        while (v->name != m->parameter[i]) v = v->next;
        if (v->value.kind != FW_JINJA_ABSENT) continue;
        fw_jinja_value value;
        if (i >= m->parameter_n - m->preset_n)
            FW_TRY(fw_jinja_eval(j, m->preset[i - (m->parameter_n - m->preset_n)], &value));
        else
            FW_TRY(fw_jinja_undefined_name(j, &value, m->parameter[i]->text, m->parameter[i]->bytes));
        FW_TRY(fw_jinja_scope_set(j, j->scope, m->parameter[i], value));
    }
    return FW_OK;
}

static fw_status call_macro(fw_jinja *j, const fw_jinja_macro *macro, const fw_jinja_args *args, fw_jinja_value *out) {
    fw_jinja_scope *caller = j->scope;
    int line = j->line;
    int64_t message = j->message;
    for (size_t i = 0; i < args->n && j->message < 0; i++) /* a macro that writes the message it is given */
        if (args->value[i].kind == FW_JINJA_DICT) j->message = args->value[i].dict->message;
    FW_TRY(fw_jinja_scope_push(j, macro->scope, &macro->definition->body));
    FW_TRY(bind_macro(j, macro->definition, args));
    FW_TRY(fw_jinja_capture(j, &macro->definition->body, out));
    j->scope = caller;
    j->line = line;
    j->message = message;
    return FW_OK;
}

fw_status fw_jinja_call_value(fw_jinja *j, const fw_jinja_value *callee, const fw_jinja_args *args,
                              fw_jinja_value *out) {
    switch (callee->kind) {
    case FW_JINJA_FUNCTION: return fw_jinja_run(j, callee->function->function, &callee->function->self, args, out);
    case FW_JINJA_MACRO: return call_macro(j, callee->macro, args, out);
    case FW_JINJA_LOOP:
        if (args->n != 1 || args->keyword_n != 0) return fw_jinja_fail(j, "loop(...) takes one argument");
        return fw_jinja_loop_again(j, callee->loop, &args->value[0], out);
    case FW_JINJA_JOINER:
        if (args->n != 0 || args->keyword_n != 0) return fw_jinja_fail(j, "a joiner takes no arguments");
        if (callee->turn->at++ == 0) return fw_jinja_text_of(j->memory, out, "", 0, fw_jinja_own_origin(j), false);
        *out = callee->turn->item[0];
        return FW_OK;
    case FW_JINJA_UNDEFINED: return fw_jinja_fail_undefined(j, callee);
    default: return fw_jinja_fail(j, "a value of type %s cannot be called", fw_jinja_type_name(callee));
    }
}

fw_status fw_jinja_need_text(fw_jinja *j, const fw_jinja_value *v, const char *what) {
    if (v->kind == FW_JINJA_TEXT) return FW_OK;
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    return fw_jinja_fail(j, "%s must be a text, not a value of type %s", what, fw_jinja_type_name(v));
}

fw_status fw_jinja_need_int(fw_jinja *j, const fw_jinja_value *v, int64_t otherwise, const char *what, int64_t *out) {
    *out = otherwise;
    if (!fw_jinja_given(v)) return FW_OK;
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (!fw_jinja_is_integer(v))
        return fw_jinja_fail(j, "%s must be a whole number, not a value of type %s", what, fw_jinja_type_name(v));
    *out = fw_jinja_as_integer(v);
    return FW_OK;
}
