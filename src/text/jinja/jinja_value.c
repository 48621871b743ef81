#include "text/jinja/jinja_value.h"

#include "text/jinja/jinja_number.h"

#include <string.h>

bool fw_jinja_text_is(const fw_jinja_value *v, const char *text) {
    return v->kind == FW_JINJA_TEXT && v->text->bytes == strlen(text) &&
           memcmp(v->text->data, text, v->text->bytes) == 0;
}

const char *fw_jinja_type_name(const fw_jinja_value *v) {
    static const char *const lists[] = {"list",        "tuple",      "range",    "dict_keys",
                                        "dict_values", "dict_items", "generator"};
    switch (v->kind) {
    case FW_JINJA_ABSENT:
    case FW_JINJA_UNDEFINED: return "Undefined";
    case FW_JINJA_NONE: return "NoneType";
    case FW_JINJA_BOOL: return "bool";
    case FW_JINJA_INT: return "int";
    case FW_JINJA_FLOAT: return "float";
    case FW_JINJA_TEXT: return "str";
    case FW_JINJA_LIST: return lists[v->list->kind];
    case FW_JINJA_DICT: return "dict";
    case FW_JINJA_NAMESPACE: return "Namespace";
    case FW_JINJA_FUNCTION: return "function";
    case FW_JINJA_MACRO: return "Macro";
    case FW_JINJA_LOOP: return "LoopContext";
    case FW_JINJA_CYCLER: return "Cycler";
    case FW_JINJA_JOINER: return "Joiner";
    }
    return "object";
}

bool fw_jinja_truth(const fw_jinja_value *v) {
    switch (v->kind) {
    case FW_JINJA_ABSENT:
    case FW_JINJA_UNDEFINED:
    case FW_JINJA_NONE: return false;
    case FW_JINJA_BOOL: return v->boolean;
    case FW_JINJA_INT: return v->integer != 0;
    case FW_JINJA_FLOAT: return v->real < 0 || v->real > 0 || v->real != v->real;
    case FW_JINJA_TEXT: return v->text->bytes > 0;
    case FW_JINJA_LIST: return v->list->kind == FW_JINJA_IS_ITERATOR || v->list->n > 0;
    case FW_JINJA_DICT: return v->dict->n > 0;
    default: return true;
    }
}

static bool equal_at(const fw_jinja_value *a, const fw_jinja_value *b, int depth, size_t *work);

static bool equal_lists(const fw_jinja_list *a, const fw_jinja_list *b, int depth, size_t *work) {
    if (a == b) return true;
    if (a->kind != b->kind || a->n != b->n || a->kind == FW_JINJA_IS_ITERATOR || a->kind == FW_JINJA_IS_VALUES)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!equal_at(&a->item[i], &b->item[i], depth, work)) return false;
    return true;
}

static bool equal_dicts(const fw_jinja_dict *a, const fw_jinja_dict *b, int depth, size_t *work) {
    if (a == b) return true;
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const fw_jinja_value *other = fw_jinja_dict_find(b, &a->entry[i].key);
        if (other == NULL || !equal_at(&a->entry[i].value, other, depth, work)) return false;
    }
    return true;
}

static bool equal_at(const fw_jinja_value *a, const fw_jinja_value *b, int depth, size_t *work) {
    if (depth > FW_JINJA_VALUE_DEPTH_MAX || ++*work > FW_JINJA_EQUAL_MAX) return false;
    if (fw_jinja_is_number(a) && fw_jinja_is_number(b)) return fw_jinja_compare_numbers(a, b) == 0;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case FW_JINJA_TEXT:
        if (a->text->bytes != b->text->bytes) return false;
        *work += a->text->bytes / 64;
        return memcmp(a->text->data, b->text->data, a->text->bytes) == 0;
    case FW_JINJA_LIST: return equal_lists(a->list, b->list, depth + 1, work);
    case FW_JINJA_DICT: return equal_dicts(a->dict, b->dict, depth + 1, work);
    case FW_JINJA_FUNCTION: return a->function == b->function;
    case FW_JINJA_MACRO: return a->macro == b->macro;
    case FW_JINJA_LOOP: return a->loop == b->loop;
    case FW_JINJA_NAMESPACE: return a->dict == b->dict;
    case FW_JINJA_CYCLER:
    case FW_JINJA_JOINER: return a->turn == b->turn;
    default: return true; /* undefined, none */
    }
}

bool fw_jinja_equal(const fw_jinja_value *a, const fw_jinja_value *b, size_t *work) { return equal_at(a, b, 0, work); }

fw_status fw_jinja_text_make(fw_jinja_memory *memory, fw_jinja_text **out, const char *data, size_t bytes) {
    FW_TRY(fw_jinja_take(memory, (void **)out, sizeof **out));
    **out = (fw_jinja_text){.data = data, .bytes = bytes, .char_n = FW_JINJA_UNCOUNTED};
    return FW_OK;
}

fw_status fw_jinja_list_make(fw_jinja_memory *memory, fw_jinja_list **out, fw_jinja_list_kind kind, size_t n) {
    FW_TRY(FW_JINJA_NEW(memory, *out));
    (*out)->kind = kind;
    (*out)->n = n;
    return n == 0 ? FW_OK : FW_JINJA_NEW_ARRAY(memory, (*out)->item, n);
}
