#include "base/json_read.h"

#include "base/alloc.h"

#include <stdint.h>
#include <string.h>

enum { DEPTH_MAX = 64, DIGITS_MAX = 18, HELD_BYTES = 1024 };

typedef struct reader {
    const uint8_t *at, *end;
    int depth;
} reader;

static json_t *read_value(reader *r);

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) r->at++;
}

/* The next character that is not space, which is passed when it is `wanted`. */
static int take(reader *r, uint8_t wanted) {
    skip_space(r);
    if (r->at == r->end || *r->at != wanted) return 0;
    r->at++;
    return 1;
}

/* ---- strings ---- */

static int is_tail(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/* Bytes of the UTF-8 character that begins at p, 0 when it is none (RFC 3629: shortest form, no surrogates, to 10FFFF). */
static int utf8_bytes(const uint8_t *p, const uint8_t *end) {
    ptrdiff_t left = end - p;
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) return left >= 2 && is_tail(p[1]) ? 2 : 0;
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        if (left < 3 || !is_tail(p[1]) || !is_tail(p[2])) return 0;
        return (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ? 0 : 3;
    }
    if (p[0] < 0xf0 || p[0] > 0xf4 || left < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3])) return 0;
    return (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ? 0 : 4;
}

/* A string as it stands in the text, without its quotes. */
typedef struct span {
    const uint8_t *first;
    size_t bytes;
    int has_escapes;
} span;

static int read_span(reader *r, span *s) {
    if (!take(r, '"')) return 0;
    *s = (span){.first = r->at};
    const uint8_t *p = r->at;
    while (p < r->end && *p != '"') {
        if (*p >= 0x20 && *p < 0x80 && *p != '\\') {
            p++;
        } else if (*p == '\\') {
            s->has_escapes = 1;
            p += 2; /* which escape it is comes later */
        } else {
            int n = *p < 0x20 ? 0 : utf8_bytes(p, r->end);
            if (n == 0) return 0;
            p += n;
        }
    }
    if (p >= r->end) return 0;
    s->bytes = (size_t)(p - s->first);
    r->at = p + 1;
    return 1;
}

/* Four hex digits; -1 when they are not. */
static int hex4(const uint8_t *p, const uint8_t *end) {
    int code = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                    : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                    : p[i] >= 'A' && p[i] <= 'F' ? p[i] - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Writes the text without escapes, which is never longer; returns its length, or -1. */
static ptrdiff_t unescape(char *out, const span *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const uint8_t *p = s->first, *end = p + s->bytes;
    char *o = out;
    while (p < end) {
        if (*p != '\\') {
            *o++ = (char)*p++;
            continue;
        }
        p++; /* a backslash is never the last: it would have taken the quote with it */
        const char *which = *p == 0 ? NULL : strchr(from, *p);
        if (which != NULL) {
            *o++ = to[which - from];
            p++;
            continue;
        }
        int code = *p == 'u' ? hex4(p + 1, end) : -1;
        if (code <= 0 || (code >= 0xd800 && code <= 0xdfff)) return -1;
        if (code >= 0x800) {
            *o++ = (char)(0xe0 | code >> 12);
            *o++ = (char)(0x80 | (code >> 6 & 0x3f));
        } else if (code >= 0x80) {
            *o++ = (char)(0xc0 | code >> 6);
        }
        *o++ = (char)(code < 0x80 ? code : 0x80 | (code & 0x3f));
        p += 5;
    }
    return o - out;
}

/* Gives the plain text to `use`, with a zero byte after it: from the stack when it is short. */
typedef json_t *(*text_fn)(void *context, const char *text, size_t bytes);
static json_t *with_text(const span *s, text_fn use, void *context) {
    char held[HELD_BYTES], *text = held;
    if (s->bytes >= sizeof held) text = fw_alloc_raw(s->bytes + 1);
    if (text == NULL) return NULL;
    ptrdiff_t bytes = (ptrdiff_t)s->bytes;
    if (s->has_escapes)
        bytes = unescape(text, s);
    else
        memcpy(text, s->first, s->bytes);
    json_t *result = NULL;
    if (bytes >= 0) {
        text[bytes] = 0;
        result = use(context, text, (size_t)bytes);
    }
    if (text != held) fw_free(text);
    return result;
}

static json_t *make_string(void *context, const char *text, size_t bytes) {
    (void)context;
    return json_stringn_nocheck(text, bytes);
}

static json_t *read_string(reader *r) {
    span s;
    if (!read_span(r, &s)) return NULL;
    return s.has_escapes ? with_text(&s, make_string, NULL) : json_stringn_nocheck((const char *)s.first, s.bytes);
}

/* ---- numbers, names ---- */

static json_t *read_integer(reader *r) {
    int negative = *r->at == '-', digit_n = 0;
    uint64_t value = 0; /* one digit more than is taken fits, too */
    const uint8_t *p = r->at + negative, *first = p;
    for (; p < r->end && *p >= '0' && *p <= '9' && digit_n <= DIGITS_MAX; p++, digit_n++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (digit_n == 0 || digit_n > DIGITS_MAX || (digit_n > 1 && *first == '0')) return NULL;
    if (p < r->end && (*p == '.' || *p == 'e' || *p == 'E')) return NULL;
    r->at = p;
    return json_integer(negative ? -(int64_t)value : (int64_t)value);
}

static json_t *read_name(reader *r, const char *name, json_t *value) {
    size_t n = strlen(name);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, name, n) != 0) return NULL;
    r->at += n;
    /* jansson takes the longest word: "truex" is not true */
    if (r->at < r->end && ((*r->at | 0x20) >= 'a' && (*r->at | 0x20) <= 'z')) return NULL;
    return value;
}

/* ---- arrays, objects ---- */

static json_t *read_array(reader *r) {
    json_t *array = json_array();
    r->at++;
    if (array == NULL || take(r, ']')) return array;
    do {
        if (json_array_append_new(array, read_value(r)) != 0) goto fail; /* NULL is refused */
    } while (take(r, ','));
    if (take(r, ']')) return array;
fail:
    json_decref(array);
    return NULL;
}

typedef struct member {
    json_t *object, *value;
} member;
static json_t *set_member(void *context, const char *key, size_t key_bytes) {
    member *m = context;
    (void)key_bytes; /* no zero byte in it: unescape makes none, read_span takes none */
    size_t before = json_object_size(m->object);
    json_t *value = m->value;
    m->value = NULL; /* the object's now, whatever happens */
    if (json_object_set_new_nocheck(m->object, key, value) != 0) return NULL;
    return json_object_size(m->object) > before ? m->object : NULL; /* a key that was there: jansson says which */
}

static int read_member(reader *r, json_t *object) {
    span key;
    if (!read_span(r, &key) || !take(r, ':')) return 0;
    member m = {object, read_value(r)};
    if (m.value == NULL) return 0;
    int done = with_text(&key, set_member, &m) != NULL;
    json_decref(m.value);
    return done;
}

static json_t *read_object(reader *r) {
    json_t *object = json_object();
    r->at++;
    if (object == NULL || take(r, '}')) return object;
    do {
        if (!read_member(r, object)) goto fail;
    } while (take(r, ','));
    if (take(r, '}')) return object;
fail:
    json_decref(object);
    return NULL;
}

static json_t *read_value(reader *r) {
    skip_space(r);
    if (r->at == r->end || r->depth == DEPTH_MAX) return NULL;
    r->depth++;
    json_t *value = NULL;
    switch (*r->at) {
    case '{': value = read_object(r); break;
    case '[': value = read_array(r); break;
    case '"': value = read_string(r); break;
    case 't': value = read_name(r, "true", json_true()); break;
    case 'f': value = read_name(r, "false", json_false()); break;
    case 'n': value = read_name(r, "null", json_null()); break;
    default: value = read_integer(r); break;
    }
    r->depth--;
    return value;
}

json_t *fw_json_read(const char *text, size_t text_bytes) {
    reader r = {.at = (const uint8_t *)text, .end = (const uint8_t *)text + text_bytes};
    json_t *value = read_value(&r);
    skip_space(&r);
    if (value != NULL && r.at == r.end) return value;
    json_decref(value);
    return NULL;
}
