/* str(v) and repr(v). What a value prints has its origin: the braces of a dict out of a message are the message's. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

static fw_status repr_at(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v, int depth);

static fw_status puts_origin(fw_jinja_builder *b, const char *text, fw_jinja_origin origin) {
    return fw_jinja_put(b, text, strlen(text), origin);
}

static fw_status repr_char(fw_jinja_builder *b, uint32_t code, char quote, fw_jinja_origin origin) {
    char text[12];
    if (code == (unsigned char)quote || code == '\\')
        snprintf(text, sizeof text, "\\%c", (char)code);
    else if (code == '\n' || code == '\t' || code == '\r')
        snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
    else if (fw_jinja_is_printable(code))
        return fw_jinja_put_code(b, code, origin);
    else
        snprintf(text, sizeof text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    return puts_origin(b, text, origin);
}

static fw_status repr_text(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v) {
    const fw_jinja_text *text = v->text;
    bool single = memchr(text->data, '\'', text->bytes) != NULL, twice = memchr(text->data, '"', text->bytes) != NULL;
    char quote = single && !twice ? '"' : '\'';
    FW_TRY(fw_jinja_spend(j, 4 * text->bytes));
    FW_TRY(fw_jinja_put_char(b, quote, text->bytes ? fw_jinja_origin_at(v, 0) : v->origin));
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        fw_jinja_origin origin = fw_jinja_origin_at(v, at);
        at += fw_utf8_next(&code, text->data + at);
        FW_TRY(repr_char(b, code, quote, origin));
    }
    return fw_jinja_put_char(b, quote, text->bytes ? fw_jinja_origin_at(v, text->bytes - 1) : v->origin);
}

static fw_status repr_items(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_list *list, fw_jinja_origin origin,
                            const char *open, const char *close, int depth) {
    FW_TRY(puts_origin(b, open, origin));
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0) FW_TRY(puts_origin(b, ", ", origin));
        FW_TRY(repr_at(j, b, &list->item[i], depth));
    }
    return puts_origin(b, close, origin);
}

static fw_status repr_list(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v, int depth) {
    const fw_jinja_list *list = v->list;
    switch (list->kind) {
    case FW_JINJA_IS_LIST: return repr_items(j, b, list, v->origin, "[", "]", depth);
    case FW_JINJA_IS_TUPLE: return repr_items(j, b, list, v->origin, "(", list->n == 1 ? ",)" : ")", depth);
    case FW_JINJA_IS_KEYS: return repr_items(j, b, list, v->origin, "dict_keys([", "])", depth);
    case FW_JINJA_IS_VALUES: return repr_items(j, b, list, v->origin, "dict_values([", "])", depth);
    case FW_JINJA_IS_ITEMS: return repr_items(j, b, list, v->origin, "dict_items([", "])", depth);
    case FW_JINJA_IS_RANGE: {
        char text[80];
        int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)list->range[0], (long long)list->range[1]);
        if (list->range[2] != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)list->range[2]);
        snprintf(text + n, sizeof text - (size_t)n, ")");
        return puts_origin(b, text, v->origin);
    }
    default:
        return fw_jinja_fail(j, "the template prints what a filter such as map or select gives without making a list "
                                "of it (| list): the reference prints an address of memory there");
    }
}

static fw_status repr_dict(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v, int depth) {
    FW_TRY(fw_jinja_put_char(b, '{', v->origin));
    for (size_t i = 0; i < v->dict->n; i++) {
        if (i > 0) FW_TRY(puts_origin(b, ", ", v->origin));
        FW_TRY(repr_at(j, b, &v->dict->entry[i].key, depth));
        FW_TRY(puts_origin(b, ": ", v->origin));
        FW_TRY(repr_at(j, b, &v->dict->entry[i].value, depth));
    }
    return fw_jinja_put_char(b, '}', v->origin);
}

static fw_status repr_at(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v, int depth) {
    char text[FW_JINJA_REAL_BYTES];
    FW_TRY(fw_jinja_spend(j, 0));
    if (depth > FW_JINJA_VALUE_DEPTH_MAX) return fw_jinja_fail(j, "a value that is printed is nested too deeply");
    switch (v->kind) {
    case FW_JINJA_ABSENT:
    case FW_JINJA_UNDEFINED: return puts_origin(b, "Undefined", v->origin);
    case FW_JINJA_NONE: return puts_origin(b, "None", v->origin);
    case FW_JINJA_BOOL: return puts_origin(b, v->boolean ? "True" : "False", v->origin);
    case FW_JINJA_INT: return fw_jinja_put_number(b, v->integer, v->origin);
    case FW_JINJA_FLOAT: fw_jinja_print_real(text, v->real); return puts_origin(b, text, v->origin);
    case FW_JINJA_TEXT: return repr_text(j, b, v);
    case FW_JINJA_LIST: return repr_list(j, b, v, depth + 1);
    case FW_JINJA_DICT: return repr_dict(j, b, v, depth + 1);
    case FW_JINJA_NAMESPACE:
        FW_TRY(puts_origin(b, "<Namespace ", v->origin));
        FW_TRY(repr_dict(j, b, v, depth + 1));
        return puts_origin(b, ">", v->origin);
    case FW_JINJA_MACRO:
        FW_TRY(puts_origin(b, "<Macro ", v->origin));
        if (v->macro->definition->name == NULL) {
            FW_TRY(puts_origin(b, "None", v->origin));
        } else {
            fw_jinja_text name = {.data = v->macro->definition->name->text, .bytes = v->macro->definition->name->bytes};
            fw_jinja_value as_text = fw_jinja_text_value(&name, v->origin);
            FW_TRY(repr_text(j, b, &as_text));
        }
        return puts_origin(b, ">", v->origin);
    default:
        return fw_jinja_fail(j,
                             "the template prints a value of type %s: the reference prints an address of memory there",
                             fw_jinja_type_name(v));
    }
}

fw_status fw_jinja_put_repr(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v) { return repr_at(j, b, v, 0); }

fw_status fw_jinja_put_str(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v) {
    if (v->kind == FW_JINJA_TEXT) {
        FW_TRY(fw_jinja_spend(j, v->text->bytes));
        return fw_jinja_put_text(b, v);
    }
    if (v->kind == FW_JINJA_UNDEFINED || v->kind == FW_JINJA_ABSENT) return FW_OK;
    if (v->kind == FW_JINJA_DICT) j->prints_python |= v->dict->is_arguments;
    if (v->kind == FW_JINJA_NONE) j->prints_python |= fw_jinja_origin_field(v->origin) == FW_CHAT_CONTENT;
    return repr_at(j, b, v, 0);
}

fw_status fw_jinja_to_text(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value *out) {
    if (v->kind == FW_JINJA_TEXT) {
        *out = *v;
        return FW_OK;
    }
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    FW_TRY(fw_jinja_put_str(j, &b, v));
    return fw_jinja_builder_finish(&b, out);
}
