/* tojson: json.dumps of Python, as transformers calls it (nothing is escaped for HTML). */
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_run.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    fw_jinja *j;
    fw_jinja_builder *b;
    const fw_jinja_json_style *style;
} writer;

static fw_status value_at(writer *w, const fw_jinja_value *v, int depth);

static fw_status put(writer *w, const char *text, fw_jinja_origin origin) {
    return fw_jinja_put(w->b, text, strlen(text), origin);
}

/* A text of the style, in the origin of what it stands in. */
static fw_status put_separator(writer *w, const fw_jinja_value *text, const char *otherwise, fw_jinja_origin origin) {
    if (text == NULL) return put(w, otherwise, origin);
    return fw_jinja_put(w->b, text->text->data, text->text->bytes, origin);
}

static fw_status line_break(writer *w, int depth, fw_jinja_origin origin) {
    if (w->style->indent == NULL) return FW_OK;
    FW_TRY(fw_jinja_put_char(w->b, '\n', origin));
    FW_TRY(fw_jinja_spend(w->j, (size_t)depth * w->style->indent->text->bytes));
    for (int i = 0; i < depth; i++) FW_TRY(put_separator(w, w->style->indent, "", origin));
    return FW_OK;
}

static fw_status escaped(writer *w, uint32_t code, fw_jinja_origin origin) {
    char text[16];
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *known = code != 0 && code < 0x80 ? strchr(special, (int)code) : NULL;
    if (known != NULL)
        snprintf(text, sizeof text, "\\%c", letters[known - special]);
    else if (code < 0x20 || (w->style->ascii && code >= 0x7f && code < 0x10000))
        snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    else if (w->style->ascii && code >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                 (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    else
        return fw_jinja_put_code(w->b, code, origin);
    return put(w, text, origin);
}

static bool is_plain(unsigned char c, bool ascii) { return c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !ascii); }

static fw_status text_value(writer *w, const fw_jinja_value *v) {
    const fw_jinja_text *text = v->text;
    FW_TRY(fw_jinja_spend(w->j, 2 * text->bytes));
    FW_TRY(fw_jinja_put_char(w->b, '"', text->bytes ? fw_jinja_origin_at(v, 0) : v->origin));
    for (size_t at = 0; at < text->bytes;) {
        size_t plain = at;
        while (plain < text->bytes && is_plain((unsigned char)text->data[plain], w->style->ascii)) plain++;
        FW_TRY(fw_jinja_put_part(w->b, v, at, plain));
        at = plain;
        if (at == text->bytes) break;
        uint32_t code;
        fw_jinja_origin origin = fw_jinja_origin_at(v, at);
        at += fw_utf8_next(&code, text->data + at);
        FW_TRY(escaped(w, code, origin));
    }
    return fw_jinja_put_char(w->b, '"', text->bytes ? fw_jinja_origin_at(v, text->bytes - 1) : v->origin);
}

static fw_status real_value(writer *w, const fw_jinja_value *v) {
    char text[FW_JINJA_REAL_BYTES];
    if (isnan(v->real)) return put(w, "NaN", v->origin);
    if (isinf(v->real)) return put(w, v->real < 0 ? "-Infinity" : "Infinity", v->origin);
    fw_jinja_print_real(text, v->real);
    return put(w, text, v->origin);
}

static fw_status list_value(writer *w, const fw_jinja_value *v, int depth) {
    const fw_jinja_list *list = v->list;
    if (list->n == 0) return put(w, "[]", v->origin);
    FW_TRY(fw_jinja_put_char(w->b, '[', v->origin));
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0) FW_TRY(put_separator(w, w->style->item_separator, w->style->indent ? "," : ", ", v->origin));
        FW_TRY(line_break(w, depth, v->origin));
        FW_TRY(value_at(w, &list->item[i], depth));
    }
    FW_TRY(line_break(w, depth - 1, v->origin));
    return fw_jinja_put_char(w->b, ']', v->origin);
}

/* Keys that are no texts become texts, as the values print in JSON. */
static fw_status key_value(writer *w, const fw_jinja_value *key) {
    if (key->kind == FW_JINJA_TEXT) return text_value(w, key);
    if (!fw_jinja_is_number(key) && key->kind != FW_JINJA_NONE)
        return fw_jinja_fail(w->j, "a key of type %s cannot be written as JSON", fw_jinja_type_name(key));
    FW_TRY(fw_jinja_put_char(w->b, '"', key->origin));
    FW_TRY(value_at(w, key, 0));
    return fw_jinja_put_char(w->b, '"', key->origin);
}

static fw_status sorted_entries(writer *w, const fw_jinja_dict *dict, fw_jinja_value **keys, fw_jinja_value **values) {
    FW_TRY(FW_JINJA_NEW_ARRAY(w->j->memory, *keys, dict->n));
    FW_TRY(FW_JINJA_NEW_ARRAY(w->j->memory, *values, dict->n));
    for (size_t i = 0; i < dict->n; i++) {
        (*keys)[i] = dict->entry[i].key;
        (*values)[i] = dict->entry[i].value;
    }
    return w->style->sort_keys ? fw_jinja_sort(w->j, *values, *keys, dict->n, false) : FW_OK;
}

static fw_status dict_value(writer *w, const fw_jinja_value *v, int depth) {
    fw_jinja_value *keys, *values;
    if (v->dict->n == 0) return put(w, "{}", v->origin);
    FW_TRY(sorted_entries(w, v->dict, &keys, &values));
    FW_TRY(fw_jinja_put_char(w->b, '{', v->origin));
    for (size_t i = 0; i < v->dict->n; i++) {
        if (i > 0) FW_TRY(put_separator(w, w->style->item_separator, w->style->indent ? "," : ", ", v->origin));
        FW_TRY(line_break(w, depth, v->origin));
        FW_TRY(key_value(w, &keys[i]));
        FW_TRY(put_separator(w, w->style->key_separator, ": ", v->origin));
        FW_TRY(value_at(w, &values[i], depth));
    }
    FW_TRY(line_break(w, depth - 1, v->origin));
    return fw_jinja_put_char(w->b, '}', v->origin);
}

static fw_status value_at(writer *w, const fw_jinja_value *v, int depth) {
    FW_TRY(fw_jinja_spend(w->j, 0));
    if (depth > FW_JINJA_VALUE_DEPTH_MAX) return fw_jinja_fail(w->j, "a value for tojson is nested too deeply");
    switch (v->kind) {
    case FW_JINJA_NONE: return put(w, "null", v->origin);
    case FW_JINJA_BOOL: return put(w, v->boolean ? "true" : "false", v->origin);
    case FW_JINJA_INT: return fw_jinja_put_number(w->b, v->integer, v->origin);
    case FW_JINJA_FLOAT: return real_value(w, v);
    case FW_JINJA_TEXT: return text_value(w, v);
    case FW_JINJA_DICT: return dict_value(w, v, depth + 1);
    case FW_JINJA_LIST:
        if (v->list->kind == FW_JINJA_IS_LIST || v->list->kind == FW_JINJA_IS_TUPLE) return list_value(w, v, depth + 1);
        break;
    case FW_JINJA_UNDEFINED: return fw_jinja_fail(w->j, "tojson of an undefined value");
    default: break;
    }
    return fw_jinja_fail(w->j, "a value of type %s cannot be written as JSON", fw_jinja_type_name(v));
}

fw_status fw_jinja_put_json(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v,
                            const fw_jinja_json_style *style) {
    writer w = {j, b, style};
    return value_at(&w, v, 0);
}
