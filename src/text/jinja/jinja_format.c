/* "..." % values, and "...".format(...): the usual forms of both. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_strings.h"
#include "text/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 10000, PRECISION_MAX = 300, NUMBER_BYTES = 700 };

/* How one value is written: [[fill]align][sign][#][0][width][,][.precision][type] */
typedef struct spec {
    char fill[4];
    size_t fill_bytes;
    char align; /* < > ^ =, or 0: by type */
    bool plus, space, alternate, zero, group;
    int width, precision; /* precision -1: none */
    char type;            /* 0: none */
} spec;

static fw_status bad(fw_jinja *j, const spec *s, const fw_jinja_value *v) {
    return fw_jinja_fail(j, "a value of type %s cannot be formatted by %c", fw_jinja_type_name(v),
                         s->type ? s->type : 's');
}

/* Digits of an int in the base of its type, without sign. */
static size_t int_digits(char *out, int64_t value, const spec *s) {
    char digits[80];
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2 : 10;
    size_t n = 0, written = 0, every = base == 10 ? 3 : 4;
    do {
        if (s->group && n > 0 && n % every == 0) digits[written++] = base == 10 ? ',' : '_';
        digits[written++] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base];
        rest /= base;
        n++;
    } while (rest != 0);
    for (size_t i = 0; i < written; i++) out[i] = digits[written - 1 - i];
    return written;
}

static size_t real_digits(char *out, double value, const spec *s) {
    char type = s->type ? s->type : 'r', plain[NUMBER_BYTES];
    double size = fabs(value);
    if (type == 'r' && s->precision < 0) {
        fw_jinja_print_real(plain, size);
    } else {
        char format[12];
        snprintf(format, sizeof format, "%%.*%c", type == '%' || type == 'F' ? 'f' : type == 'r' ? 'g' : type);
        snprintf(plain, sizeof plain, format, s->precision < 0 ? 6 : s->precision, type == '%' ? size * 100 : size);
        if (type == '%') strcat(plain, "%");
        if (type == 'r' && strpbrk(plain, ".en") == NULL) strcat(plain, ".0");
    }
    size_t whole = strspn(plain, "0123456789"), n = 0;
    for (size_t i = 0; i < strlen(plain); i++) {
        if (s->group && i > 0 && i < whole && (whole - i) % 3 == 0) out[n++] = ',';
        out[n++] = plain[i];
    }
    return n;
}

/* sign, then body, put into the width. */
static fw_status put_padded(fw_jinja *j, fw_jinja_builder *b, const spec *s, const char *sign,
                            const fw_jinja_value *body, char align) {
    size_t have = strlen(sign) + fw_jinja_char_n(body->text),
           missing = (size_t)s->width > have ? (size_t)s->width - have : 0;
    fw_jinja_origin origin = fw_jinja_own_origin(j);
    size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0, middle = align == '=' ? missing : 0;
    for (size_t i = 0; i < left; i++) FW_TRY(fw_jinja_put(b, s->fill, s->fill_bytes, origin));
    FW_TRY(fw_jinja_put(b, sign, strlen(sign), body->origin));
    for (size_t i = 0; i < middle; i++) FW_TRY(fw_jinja_put(b, s->fill, s->fill_bytes, origin));
    FW_TRY(fw_jinja_put_text(b, body));
    for (size_t i = left + middle; i < missing; i++) FW_TRY(fw_jinja_put(b, s->fill, s->fill_bytes, origin));
    return FW_OK;
}

static fw_status put_number(fw_jinja *j, fw_jinja_builder *b, const spec *s, const fw_jinja_value *v) {
    char digits[2 * NUMBER_BYTES], sign[4] = "";
    bool real = v->kind == FW_JINJA_FLOAT || (s->type != 0 && strchr("eEfFgG%", s->type) != NULL);
    bool negative = real ? signbit(fw_jinja_as_real(v)) : fw_jinja_as_integer(v) < 0;
    size_t n = real ? real_digits(digits, fw_jinja_as_real(v), s) : int_digits(digits, fw_jinja_as_integer(v), s);
    snprintf(sign, sizeof sign, "%s%s",
             negative   ? "-"
             : s->plus  ? "+"
             : s->space ? " "
                        : "",
             !real && s->alternate && s->type == 'x'   ? "0x"
             : !real && s->alternate && s->type == 'X' ? "0X"
             : !real && s->alternate && s->type == 'o' ? "0o"
             : !real && s->alternate && s->type == 'b' ? "0b"
                                                       : "");
    fw_jinja_value body;
    FW_TRY(fw_jinja_text_of(j->memory, &body, digits, n, v->origin, true));
    return put_padded(j, b, s, sign, &body, s->align ? s->align : s->zero ? '=' : '>');
}

/* Cut to the precision and put into the width. */
static fw_status put_shown(fw_jinja *j, fw_jinja_builder *b, const spec *s, const fw_jinja_value *v, bool repr,
                           char align) {
    fw_jinja_builder own = {.memory = j->memory, .uniform = v->origin};
    fw_jinja_value text;
    FW_TRY(repr ? fw_jinja_put_repr(j, &own, v) : fw_jinja_put_str(j, &own, v));
    FW_TRY(fw_jinja_builder_finish(&own, &text));
    if (s->precision >= 0) {
        fw_jinja_value bound[3] = {{0}, fw_jinja_int(s->precision), {0}}, whole = text;
        FW_TRY(fw_jinja_slice(j, &whole, bound, &text));
    }
    return put_padded(j, b, s, "", &text, align);
}

static fw_status read_count(fw_jinja *j, const char *text, size_t bytes, size_t *at, int most, int *out) {
    int64_t value = 0;
    while (*at < bytes && isdigit((unsigned char)text[*at])) {
        value = value * 10 + (text[(*at)++] - '0');
        if (value > most) return fw_jinja_fail(j, "a width or precision above %d", most);
    }
    *out = (int)value;
    return FW_OK;
}

/* ---- % */

/* %[(name)][flags][width][.precision]type, behind the %. */
static fw_status read_percent(fw_jinja *j, const fw_jinja_value *text, size_t *at, spec *s, fw_jinja_value *name) {
    const char *data = text->text->data;
    size_t bytes = text->text->bytes;
    *s = (spec){.fill = " ", .fill_bytes = 1, .precision = -1};
    *name = (fw_jinja_value){0};
    if (*at < bytes && data[*at] == '(') {
        const char *close = memchr(data + *at, ')', bytes - *at);
        if (close == NULL) return fw_jinja_fail(j, "a %%( without its )");
        FW_TRY(fw_jinja_part(j->memory, text, *at + 1, (size_t)(close - data), name));
        *at = (size_t)(close - data) + 1;
    }
    for (; *at < bytes && strchr("-+ #0", data[*at]) != NULL && data[*at] != 0; (*at)++) {
        if (data[*at] == '-') s->align = '<';
        s->plus |= data[*at] == '+';
        s->space |= data[*at] == ' ';
        s->alternate |= data[*at] == '#';
        s->zero |= data[*at] == '0';
    }
    FW_TRY(read_count(j, data, bytes, at, WIDTH_MAX, &s->width));
    if (*at < bytes && data[*at] == '.') {
        (*at)++;
        FW_TRY(read_count(j, data, bytes, at, PRECISION_MAX, &s->precision));
    }
    if (*at >= bytes) return fw_jinja_fail(j, "a format that ends behind its %%");
    s->type = data[(*at)++];
    return FW_OK;
}

static fw_status put_percent(fw_jinja *j, fw_jinja_builder *b, spec *s, const fw_jinja_value *v) {
    char align = s->align ? s->align : '>', code[4];
    if (s->zero && s->align == 0 && s->type != 's' && s->type != 'r') s->fill[0] = '0';
    switch (s->type) {
    case 's': return put_shown(j, b, s, v, false, align);
    case 'r': return put_shown(j, b, s, v, true, align);
    case 'c':
        if (fw_jinja_is_integer(v) && v->integer >= 0 && v->integer < 0x110000 &&
            (v->integer < 0xd800 || v->integer > 0xdfff)) {
            fw_jinja_value text;
            FW_TRY(fw_jinja_text_of(j->memory, &text, code, fw_utf8_put(code, (uint32_t)v->integer), v->origin, true));
            return put_shown(j, b, s, &text, false, align);
        }
        return v->kind == FW_JINJA_TEXT && fw_jinja_char_n(v->text) == 1 ? put_shown(j, b, s, v, false, align)
                                                                         : bad(j, s, v);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
        fw_jinja_value whole = *v;
        if (v->kind == FW_JINJA_FLOAT && strchr("diu", s->type) != NULL && isfinite(v->real) &&
            fw_jinja_fits_int(v->real)) {
            whole = fw_jinja_int((int64_t)v->real);
            whole.origin = v->origin;
        }
        if (!fw_jinja_is_integer(&whole)) return bad(j, s, v);
        return put_number(j, b, s, &whole);
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': return fw_jinja_is_number(v) ? put_number(j, b, s, v) : bad(j, s, v);
    default: return fw_jinja_fail(j, "the format %%%c is not known", s->type >= ' ' && s->type < 127 ? s->type : '?');
    }
}

fw_status fw_jinja_percent(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *values, fw_jinja_value *out) {
    bool tuple = values->kind == FW_JINJA_LIST && values->list->kind == FW_JINJA_IS_TUPLE, named = false;
    size_t used = 0, n = tuple ? values->list->n : 1;
    fw_jinja_builder b = {.memory = j->memory, .uniform = text->origin};
    FW_TRY(fw_jinja_spend(j, text->text->bytes));
    for (size_t at = 0; at < text->text->bytes;) {
        const char *found = memchr(text->text->data + at, '%', text->text->bytes - at);
        size_t plain = found ? (size_t)(found - text->text->data) : text->text->bytes;
        FW_TRY(fw_jinja_put_part(&b, text, at, plain));
        if (found == NULL) break;
        at = plain + 1;
        spec s;
        fw_jinja_value name;
        FW_TRY(read_percent(j, text, &at, &s, &name));
        if (s.type == '%') {
            FW_TRY(fw_jinja_put_part(&b, text, plain, plain + 1));
            continue;
        }
        const fw_jinja_value *v = NULL;
        if (fw_jinja_given(&name)) {
            named = true;
            if (values->kind != FW_JINJA_DICT) return fw_jinja_fail(j, "%%(name) needs a dict of values");
            v = fw_jinja_dict_find(values->dict, &name);
            if (v == NULL)
                return fw_jinja_fail(j, "no value for %%(%.*s)", (int)(name.text->bytes > 60 ? 60 : name.text->bytes),
                                     name.text->data);
        } else if (used < n) {
            v = tuple ? &values->list->item[used] : values;
            used++;
        } else {
            return fw_jinja_fail(j, "a format asks for more than the %zu values it is given", n);
        }
        FW_TRY(put_percent(j, &b, &s, v));
    }
    if (!named && used < n && values->kind != FW_JINJA_DICT && values->kind != FW_JINJA_UNDEFINED &&
        !(values->kind == FW_JINJA_LIST && !tuple))
        return fw_jinja_fail(j, "a format uses %zu of the %zu values it is given", used, n);
    return fw_jinja_builder_finish(&b, out);
}

/* ---- {} */

static fw_status read_spec(fw_jinja *j, const char *text, size_t bytes, spec *s) {
    size_t at = 0, first = 0;
    uint32_t code;
    *s = (spec){.fill = " ", .fill_bytes = 1, .precision = -1};
    if (bytes > 0) first = fw_utf8_next(&code, text);
    if (first < bytes && strchr("<>^=", text[first]) != NULL) {
        memcpy(s->fill, text, first);
        s->fill_bytes = first;
        s->align = text[first];
        at = first + 1;
    } else if (bytes > 0 && strchr("<>^=", text[0]) != NULL && text[0] != 0) {
        s->align = text[at++];
    }
    if (at < bytes && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) {
        s->plus = text[at] == '+';
        s->space = text[at++] == ' ';
    }
    if (at < bytes && text[at] == '#') s->alternate = (at++, true);
    if (at < bytes && text[at] == '0') {
        s->zero = (at++, true);
        if (s->align == 0) s->fill[0] = '0';
    }
    FW_TRY(read_count(j, text, bytes, &at, WIDTH_MAX, &s->width));
    if (at < bytes && (text[at] == ',' || text[at] == '_')) s->group = (at++, true);
    if (at < bytes && text[at] == '.') {
        at++;
        if (at >= bytes || !isdigit((unsigned char)text[at])) return fw_jinja_fail(j, "a format without its precision");
        FW_TRY(read_count(j, text, bytes, &at, PRECISION_MAX, &s->precision));
    }
    if (at < bytes) s->type = text[at++];
    if (at < bytes) return fw_jinja_fail(j, "the format \"%.*s\" is not known", bytes > 40 ? 40 : (int)bytes, text);
    return FW_OK;
}

static fw_status put_formatted(fw_jinja *j, fw_jinja_builder *b, const char *format, size_t bytes,
                               const fw_jinja_value *v) {
    spec s;
    FW_TRY(read_spec(j, format, bytes, &s));
    if (bytes == 0 || v->kind == FW_JINJA_TEXT) {
        if (s.type != 0 && s.type != 's') return bad(j, &s, v);
        if (s.align == '=' || s.plus || s.space || s.alternate || s.group) return bad(j, &s, v);
        return put_shown(j, b, &s, v, false, s.align ? s.align : '<');
    }
    bool known = s.type == 0 || strchr(v->kind == FW_JINJA_FLOAT ? "eEfFgG%" : "dxXobeEfFgG%", s.type) != NULL;
    if (!fw_jinja_is_number(v) || !known) return bad(j, &s, v);
    return put_number(j, b, &s, v);
}

/* name.attr[key] of a field: the value. */
static fw_status field_value(fw_jinja *j, const fw_jinja_value *text, size_t start, size_t end,
                             const fw_jinja_args *args, size_t *next, fw_jinja_value *out) {
    const char *data = text->text->data;
    size_t at = start;
    while (at < end && data[at] != '.' && data[at] != '[') at++;
    int64_t index = (int64_t)*next;
    bool by_place = at == start || fw_jinja_read_int(&index, data + start, at - start, 10);
    if (at == start) (*next)++;
    if (by_place) {
        if (index < 0 || (uint64_t)index >= args->n)
            return fw_jinja_fail(j, "format has no value number %lld", (long long)index);
        *out = args->value[index];
    } else {
        size_t i = 0;
        while (i < args->keyword_n &&
               (args->keyword[i].bytes != at - start || memcmp(args->keyword[i].name, data + start, at - start) != 0))
            i++;
        if (i == args->keyword_n)
            return fw_jinja_fail(j, "format has no value %.*s", (int)(at - start > 60 ? 60 : at - start), data + start);
        *out = args->keyword[i].value;
    }
    while (at < end) {
        bool attribute = data[at] == '.';
        size_t stop = ++at;
        while (stop < end && (attribute ? data[stop] != '.' && data[stop] != '[' : data[stop] != ']')) stop++;
        fw_jinja_value object = *out, key;
        if (attribute) {
            FW_TRY(fw_jinja_attribute(j, &object, data + at, stop - at, out));
        } else {
            if (stop == end) return fw_jinja_fail(j, "a [ without its ] in a format");
            FW_TRY(fw_jinja_part(j->memory, text, at, stop, &key));
            if (fw_jinja_read_int(&index, data + at, stop - at, 10)) key = fw_jinja_int(index);
            FW_TRY(fw_jinja_item(j, &object, &key, out));
            stop++;
        }
        at = stop;
    }
    return FW_OK;
}

static fw_status put_field(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *text, size_t start, size_t end,
                           const fw_jinja_args *args, size_t *next) {
    const char *data = text->text->data;
    size_t name_end = start;
    while (name_end < end && data[name_end] != '!' && data[name_end] != ':') name_end++;
    fw_jinja_value value, shown;
    FW_TRY(field_value(j, text, start, name_end, args, next, &value));
    size_t at = name_end;
    if (at < end && data[at] == '!') {
        if (at + 1 >= end || (data[at + 1] != 'r' && data[at + 1] != 's'))
            return fw_jinja_fail(j, "a format knows !r and !s only");
        fw_jinja_builder own = {.memory = j->memory, .uniform = value.origin};
        FW_TRY(data[at + 1] == 'r' ? fw_jinja_put_repr(j, &own, &value) : fw_jinja_put_str(j, &own, &value));
        FW_TRY(fw_jinja_builder_finish(&own, &shown));
        value = shown;
        at += 2;
    }
    if (at < end && data[at] == ':') at++;
    return put_formatted(j, b, data + at, end - at, &value);
}

fw_status fw_jinja_braces(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_args *args, fw_jinja_value *out) {
    fw_jinja_builder b = {.memory = j->memory, .uniform = text->origin};
    const char *data = text->text->data;
    size_t n = text->text->bytes, next = 0;
    FW_TRY(fw_jinja_spend(j, n));
    for (size_t at = 0; at < n;) {
        if (data[at] != '{' && data[at] != '}') {
            size_t plain = at;
            while (plain < n && data[plain] != '{' && data[plain] != '}') plain++;
            FW_TRY(fw_jinja_put_part(&b, text, at, plain));
            at = plain;
        } else if (at + 1 < n && data[at + 1] == data[at]) {
            FW_TRY(fw_jinja_put_part(&b, text, at, at + 1));
            at += 2;
        } else {
            const char *close = data[at] == '{' ? memchr(data + at, '}', n - at) : NULL;
            if (close == NULL) return fw_jinja_fail(j, "a brace of a format has no partner");
            FW_TRY(put_field(j, &b, text, at + 1, (size_t)(close - data), args, &next));
            at = (size_t)(close - data) + 1;
        }
    }
    return fw_jinja_builder_finish(&b, out);
}
