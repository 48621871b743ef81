/* What every part of a rendering needs: failing with the template's line, limits, scopes, undefined values. */
#include "text/jinja/jinja_run.h"

#include <stdio.h>

fw_status fw_jinja_fail_at(const fw_jinja *j, const char *file, const char *function, int source_line,
                           const char *format, ...) {
    char message[600];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return fw_fail_at(FW_ERR_INPUT, file, function, source_line, "%s:%d: %s", j->program->where, j->line, message);
}

fw_status fw_jinja_spend(fw_jinja *j, size_t work_n) {
    enum { WORK_OF_A_STEP = 64 };
    int64_t steps = 1 + (int64_t)(work_n / WORK_OF_A_STEP);
    if (j->step_n < steps) {
        j->memory->is_spent = true;
        return fw_jinja_fail(j, "the template works too long on this conversation; is it a loop without end?");
    }
    j->step_n -= steps;
    return FW_OK;
}

fw_status fw_jinja_scope_push(fw_jinja *j, fw_jinja_scope *outer, const fw_jinja_body *body) {
    fw_jinja_scope *scope;
    FW_TRY(FW_JINJA_NEW(j->memory, scope));
    scope->outer = outer;
    j->scope = scope;
    for (size_t i = 0; body != NULL && i < body->unset_n; i++)
        FW_TRY(fw_jinja_scope_set(j, scope, body->unset[i], (fw_jinja_value){0}));
    return FW_OK;
}

fw_status fw_jinja_scope_set(fw_jinja *j, fw_jinja_scope *scope, const fw_jinja_name *name, fw_jinja_value value) {
    struct fw_jinja_variable *v = scope->variable;
    while (v != NULL && v->name != name) v = v->next;
    if (v == NULL) {
        FW_TRY(FW_JINJA_NEW(j->memory, v));
        v->name = name;
        v->next = scope->variable;
        scope->variable = v;
    }
    v->value = value;
    return FW_OK;
}

const fw_jinja_value *fw_jinja_scope_find(const fw_jinja_scope *scope, const fw_jinja_name *name) {
    for (; scope != NULL; scope = scope->outer)
        for (const struct fw_jinja_variable *v = scope->variable; v != NULL; v = v->next)
            if (v->name == name) return v->value.kind == FW_JINJA_ABSENT ? NULL : &v->value;
    return NULL;
}

static fw_status undefined(fw_jinja *j, fw_jinja_value *out, fw_jinja_undefined what) {
    fw_jinja_undefined *own;
    FW_TRY(FW_JINJA_NEW(j->memory, own));
    *own = what;
    *out = (fw_jinja_value){.kind = FW_JINJA_UNDEFINED, .undefined = own};
    return FW_OK;
}

fw_status fw_jinja_undefined_name(fw_jinja *j, fw_jinja_value *out, const char *name, size_t name_bytes) {
    return undefined(j, out, (fw_jinja_undefined){.name = name, .name_bytes = name_bytes});
}

fw_status fw_jinja_undefined_attribute(fw_jinja *j, fw_jinja_value *out, const fw_jinja_value *object, const char *name,
                                       size_t name_bytes) {
    fw_jinja_undefined what = {.name = name, .name_bytes = name_bytes, .type_name = fw_jinja_type_name(object)};
    return undefined(j, out, what);
}

fw_status fw_jinja_undefined_hint(fw_jinja *j, fw_jinja_value *out, const char *hint) {
    return undefined(j, out, (fw_jinja_undefined){.hint = hint});
}

fw_status fw_jinja_fail_undefined(const fw_jinja *j, const fw_jinja_value *v) {
    const fw_jinja_undefined *u = v->kind == FW_JINJA_UNDEFINED ? v->undefined : NULL;
    if (u == NULL) return fw_jinja_fail(j, "a value is not defined");
    if (u->hint != NULL) return fw_jinja_fail(j, "%s", u->hint);
    int n = u->name_bytes > 60 ? 60 : (int)u->name_bytes;
    if (u->type_name == NULL) return fw_jinja_fail(j, "'%.*s' is undefined", n, u->name);
    return fw_jinja_fail(j, "a value of type %s has no attribute '%.*s'", u->type_name, n, u->name);
}
