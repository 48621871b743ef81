/* Filters of single values: default, numbers, JSON. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

FILTER(otherwise) {
    bool replaced = c->self->kind == FW_JINJA_UNDEFINED || (fw_jinja_truth(&c->v[1]) && !fw_jinja_truth(c->self));
    if (!replaced)
        *out = *c->self;
    else if (fw_jinja_given(&c->v[0]))
        *out = c->v[0];
    else
        return fw_jinja_text_of(j->memory, out, "", 0, fw_jinja_own_origin(j), false);
    return FW_OK;
}

FILTER(absolute) {
    const fw_jinja_value *v = c->self;
    bool negative =
        fw_jinja_is_number(v) && (v->kind == FW_JINJA_FLOAT ? signbit(v->real) : fw_jinja_as_integer(v) < 0);
    return fw_jinja_negate(j, v, negative, out);
}

static fw_status whole(fw_jinja *j, double real, fw_jinja_value *out) {
    if (isnan(real) || isinf(real)) return fw_jinja_fail(j, "int of a number that is not finite");
    if (!fw_jinja_fits_int(real)) return fw_jinja_fail(j, "a number has more than 64 bits");
    *out = fw_jinja_int((int64_t)real);
    return FW_OK;
}

FILTER(to_int) {
    const fw_jinja_value *v = c->self;
    int64_t base, value;
    double real;
    FW_TRY(fw_jinja_need_int(j, &c->v[1], 10, "the base of int", &base));
    *out = fw_jinja_given(&c->v[0]) ? c->v[0] : fw_jinja_int(0);
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (fw_jinja_is_integer(v)) {
        *out = fw_jinja_int(fw_jinja_as_integer(v));
    } else if (v->kind == FW_JINJA_FLOAT) {
        if (isnan(v->real)) return FW_OK;
        FW_TRY(whole(j, v->real, out));
    } else if (v->kind == FW_JINJA_TEXT) {
        if (base != 0 && (base < 2 || base > 36)) return FW_OK;
        FW_TRY(fw_jinja_spend(j, v->text->bytes));
        if (fw_jinja_read_int(&value, v->text->data, v->text->bytes, (int)base))
            *out = fw_jinja_int(value);
        else if (fw_jinja_read_real(&real, v->text->data, v->text->bytes) && isfinite(real))
            FW_TRY(whole(j, real, out));
    }
    if (out->kind == FW_JINJA_INT) out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

FILTER(to_float) {
    const fw_jinja_value *v = c->self;
    double real;
    *out = fw_jinja_given(&c->v[0]) ? c->v[0] : fw_jinja_float(0);
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (fw_jinja_is_number(v))
        *out = fw_jinja_float(fw_jinja_as_real(v));
    else if (v->kind == FW_JINJA_TEXT && fw_jinja_read_real(&real, v->text->data, v->text->bytes))
        *out = fw_jinja_float(real);
    if (out->kind == FW_JINJA_FLOAT) out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

/* To `digits` decimals, ties to even; printf rounds the exact value, as Python does. */
static double round_real(double value, int64_t digits) {
    if (isnan(value) || isinf(value) || digits > 300) return value;
    if (digits < -300) return copysign(0.0, value);
    if (digits < 0) {
        double scale = pow(10, (double)-digits);
        return rint(value / scale) * scale;
    }
    char text[700];
    snprintf(text, sizeof text, "%.*f", (int)digits, value);
    return strtod(text, NULL);
}

static fw_status round_int(fw_jinja *j, int64_t value, int64_t digits, fw_jinja_value *out) {
    if (digits >= 0) {
        *out = fw_jinja_int(value);
        return FW_OK;
    }
    int64_t scale = 1;
    for (int64_t i = digits; i < 0 && scale <= INT64_MAX / 10; i++) scale *= 10;
    if (digits < -18) {
        *out = fw_jinja_int(0);
        return FW_OK;
    }
    int64_t down = value / scale * scale - (value % scale < 0 ? scale : 0), rest = value - down, result = down;
    if (rest > scale / 2 || (rest == scale / 2 && (down / scale) % 2 != 0))
        if (__builtin_add_overflow(down, scale, &result)) return fw_jinja_fail(j, "a number has more than 64 bits");
    *out = fw_jinja_int(result);
    return FW_OK;
}

FILTER(rounded) {
    const fw_jinja_value *v = c->self;
    int64_t digits;
    bool up = fw_jinja_text_is(&c->v[1], "ceil"), down = fw_jinja_text_is(&c->v[1], "floor");
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 0, "the precision of round", &digits));
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (!fw_jinja_is_number(v)) return fw_jinja_fail(j, "a value of type %s cannot be rounded", fw_jinja_type_name(v));
    if (fw_jinja_given(&c->v[1]) && !up && !down && !fw_jinja_text_is(&c->v[1], "common"))
        return fw_jinja_fail(j, "round works by \"common\", \"ceil\" or \"floor\"");
    if (up || down) {
        double scale = pow(10, (double)digits), scaled = fw_jinja_as_real(v) * scale;
        double moved = up ? ceil(scaled) : floor(scaled);
        if (!isfinite(moved) || scale == 0)
            return fw_jinja_fail(j, "a number cannot be rounded to %lld digits", (long long)digits);
        *out = fw_jinja_float((moved + 0.0) / scale);
    } else if (v->kind == FW_JINJA_FLOAT) {
        *out = fw_jinja_float(round_real(v->real, digits));
    } else {
        FW_TRY(round_int(j, fw_jinja_as_integer(v), digits, out));
    }
    out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

FILTER(attr) {
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "the name of attr"));
    if (c->self->kind == FW_JINJA_DICT &&
        fw_jinja_find_function(fw_jinja_dict_methods, c->v[0].text->data, c->v[0].text->bytes) == NULL)
        return fw_jinja_undefined_attribute(j, out, c->self, c->v[0].text->data,
                                            c->v[0].text->bytes); /* no keys here */
    return fw_jinja_attribute(j, c->self, c->v[0].text->data, c->v[0].text->bytes, out);
}

static fw_status separators(fw_jinja *j, const fw_jinja_value *given, fw_jinja_json_style *style,
                            fw_jinja_value *pair) {
    fw_jinja_value *item;
    size_t n;
    FW_TRY(fw_jinja_items(j, given, &item, &n));
    if (n != 2 || item[0].kind != FW_JINJA_TEXT || item[1].kind != FW_JINJA_TEXT)
        return fw_jinja_fail(j, "the separators of tojson are two texts");
    pair[0] = item[0];
    pair[1] = item[1];
    style->item_separator = &pair[0];
    style->key_separator = &pair[1];
    return FW_OK;
}

FILTER(tojson) {
    fw_jinja_json_style style = {.ascii = fw_jinja_truth(&c->v[0]), .sort_keys = fw_jinja_truth(&c->v[3])};
    fw_jinja_value indent = c->v[1], pair[2];
    if (fw_jinja_has(&indent)) {
        if (indent.kind != FW_JINJA_TEXT) {
            fw_jinja_value space, times;
            int64_t n;
            FW_TRY(fw_jinja_need_int(j, &indent, 0, "the indent of tojson", &n));
            FW_TRY(fw_jinja_text_of(j->memory, &space, " ", 1, 0, false));
            times = fw_jinja_int(n);
            FW_TRY(fw_jinja_arithmetic(j, FW_JINJA_MUL, &space, &times, &indent));
        }
        style.indent = &indent;
    }
    if (fw_jinja_has(&c->v[2])) FW_TRY(separators(j, &c->v[2], &style, pair));
    fw_jinja_builder b = {.memory = j->memory, .uniform = c->self->origin};
    FW_TRY(fw_jinja_put_json(j, &b, c->self, &style));
    return fw_jinja_builder_finish(&b, out);
}

const fw_jinja_function fw_jinja_value_filters[] = {
    {"default", "default_value,boolean", 0, do_otherwise},
    {"d", "default_value,boolean", 0, do_otherwise},
    {"abs", "", 0, do_absolute},
    {"int", "default,base", 0, do_to_int},
    {"float", "default", 0, do_to_float},
    {"round", "precision,method", 0, do_rounded},
    {"attr", "name", 1, do_attr},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, do_tojson},
    {0},
};
