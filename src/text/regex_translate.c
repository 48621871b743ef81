#include "text/regex_translate.h"

#include "text/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* White_Space and its complement, as the inside of a class. */
#define SPACES "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_SPACES                                                                                                      \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"       \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"

/* In Ruby's syntax ^ and $ are about lines; behind a line break that ends the text no line starts. */
#define LINE_START "(?:\\A|(?<=\\n)(?!\\z))"
#define LINE_END "(?=\\n|\\z)"

enum { PATTERN_MAX_BYTES = 1 << 14, GROUP_MAX_DEPTH = 50, CLASS_MAX_DEPTH = 8 };

typedef struct translator {
    const char *pattern, *at, *where;
    fw_strbuf *out;
    int depth;
    int caseless_depth; /* the depth of the outermost open (?i:, 0: none */
    bool asks_unicode;
} translator;

static fw_status refuse(const translator *t, const char *from, const char *why) {
    return fw_fail(FW_ERR_INPUT, "%s: the regex \"%.80s\" has \"%.12s\" at byte %zu: %s", t->where, t->pattern, from,
                   (size_t)(from - t->pattern), why);
}

static fw_status put(translator *t, const char *text) { return fw_strbuf_puts(t->out, text); }

/* A literal code point, so that nothing in it can be read as syntax. */
static fw_status put_literal(translator *t, uint32_t code) {
    if ((code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z'))
        return fw_strbuf_putc(t->out, (char)code);
    return fw_strbuf_printf(t->out, "\\x{%x}", code);
}

static fw_status property(translator *t, bool negated) {
    static const char known[][3] = {"L", "M", "N", "P", "S", "Z", "C", "Lu", "Ll", "Lt", "Lm", "Lo", "Nd"};
    const char *from = t->at - 2, *close = *t->at == '{' ? strchr(t->at, '}') : NULL;
    if (close == NULL) return refuse(t, from, "a property is written \\p{Name}");
    const char *name = t->at + 1;
    if (*name == '^') {
        negated = !negated;
        name++;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i]) != (size_t)(close - name) || strncmp(name, known[i], (size_t)(close - name)) != 0)
            continue;
        if (t->caseless_depth > 0 && name[0] == 'L' && close - name == 2)
            return refuse(t, from, "a property of one case inside (?i:..) is not known");
        t->at = close + 1;
        t->asks_unicode = true;
        return fw_strbuf_printf(t->out, "\\%c{%s}", negated ? 'P' : 'p', known[i]);
    }
    return refuse(t, from, "this property is not known; L M N P S Z C Lu Ll Lt Lm Lo Nd are");
}

/* \uXXXX */
static fw_status four_digits(translator *t, const char *from, uint32_t *code) {
    char digits[5] = {0};
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)*t->at)) return refuse(t, from, "four hexadecimal digits are needed");
        digits[i] = *t->at++;
    }
    *code = (uint32_t)strtoul(digits, NULL, 16);
    if (*code >= 0xd800 && *code < 0xe000) return refuse(t, from, "half of a surrogate pair is no character");
    return FW_OK;
}

/* After a backslash. A single code point is left in *code for the caller (ranges), else *code = UINT32_MAX. */
static fw_status escape(translator *t, bool in_class, uint32_t *code) {
    *code = UINT32_MAX;
    const char *from = t->at - 1;
    char c = *t->at;
    if (c == 0) return refuse(t, from, "a backslash at the end");
    if ((unsigned char)c >= 0x80) {
        t->at += fw_utf8_next(code, t->at);
        return FW_OK;
    }
    t->at++;
    switch (c) {
    case 'n': *code = '\n'; return FW_OK;
    case 'r': *code = '\r'; return FW_OK;
    case 't': *code = '\t'; return FW_OK;
    case 'f': *code = '\f'; return FW_OK;
    case 'v': *code = '\v'; return FW_OK;
    case 's': return put(t, in_class ? SPACES : "[" SPACES "]");
    case 'S': return put(t, in_class ? NO_SPACES : "[^" SPACES "]");
    case 'd':
    case 'D': t->asks_unicode = true; return put(t, c == 'd' ? "\\p{Nd}" : "\\P{Nd}");
    case 'u': return four_digits(t, from, code);
    case 'p': return property(t, false);
    case 'P': return property(t, true);
    default: break;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return refuse(t, from,
                      "this escape is not known; \\n \\r \\t \\f \\v \\uXXXX \\s \\S \\d \\D \\p{..} \\P{..} are");
    *code = (uint32_t)(unsigned char)c;
    return FW_OK;
}

static fw_status class_member(translator *t, uint32_t *code) {
    if (*t->at == '\\') {
        t->at++;
        return escape(t, true, code);
    }
    if (t->at[0] == '&' && t->at[1] == '&') return refuse(t, t->at, "intersection of classes is not known");
    t->at += fw_utf8_next(code, t->at);
    return FW_OK;
}

/* What stands between the brackets, up to the closing one. A class inside a class adds its members to it. */
static fw_status class_members(translator *t, const char *from, int depth) {
    if (*t->at == ']') return refuse(t, from, "a class begins with ]; escape it as \\]");
    while (*t->at != ']') {
        if (*t->at == 0) return refuse(t, from, "this class does not end");
        uint32_t first, last;
        if (*t->at == '[') {
            const char *inner = t->at++;
            if (*t->at == '^' || *t->at == ':' || depth == CLASS_MAX_DEPTH)
                return refuse(t, inner, "this class inside a class is not known; escape a literal [ as \\[");
            FW_TRY(class_members(t, inner, depth + 1));
            continue;
        }
        FW_TRY(class_member(t, &first));
        if (first == UINT32_MAX) continue;
        FW_TRY(put_literal(t, first));
        if (t->at[0] != '-' || t->at[1] == ']' || t->at[1] == 0) continue;
        t->at++;
        FW_TRY(put(t, "-"));
        const char *end = t->at;
        FW_TRY(class_member(t, &last));
        if (last == UINT32_MAX || last < first)
            return refuse(t, end, "the end of a range must be a character not before its start");
        FW_TRY(put_literal(t, last));
    }
    t->at++;
    return FW_OK;
}

static fw_status class(translator *t) {
    const char *from = t->at++;
    FW_TRY(put(t, "["));
    if (*t->at == '^') {
        FW_TRY(put(t, "^"));
        t->at++;
    }
    FW_TRY(class_members(t, from, 1));
    return put(t, "]");
}

static fw_status group(translator *t) {
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (++t->depth > GROUP_MAX_DEPTH) return refuse(t, t->at, "groups are nested too deeply");
    if (t->at[1] != '?') { /* a group that only groups: what it captures is never used */
        t->at++;
        return put(t, "(?:");
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t n = strlen(known[i]);
        if (strncmp(t->at, known[i], n) != 0) continue;
        if (i == 1 && t->caseless_depth == 0) t->caseless_depth = t->depth;
        t->asks_unicode |= i == 1;
        t->at += n;
        return put(t, known[i]);
    }
    return refuse(t, t->at, "this group is not known; (..) (?:..) (?i:..) (?=..) (?!..) (?<=..) (?<!..) (?>..) are");
}

/* {n}, {n,} or {n,m}. Ruby reads other things in braces in its own way. */
static fw_status braces(translator *t) {
    const char *from = t->at++;
    int number_n = 0, digit_n = 0;
    bool comma = false;
    for (; *t->at != '}'; t->at++) {
        if (*t->at >= '0' && *t->at <= '9' && digit_n++ < 4) {
            number_n++;
        } else if (*t->at == ',' && !comma && number_n > 0) {
            comma = true;
            digit_n = 0;
        } else {
            return refuse(t, from, "a repetition is written {n}, {n,} or {n,m}");
        }
    }
    t->at++;
    if (number_n == 0) return refuse(t, from, "a repetition is written {n}, {n,} or {n,m}");
    if (*t->at == '+' || *t->at == '?')
        return refuse(t, from, "a repetition in braces followed by + or ? is not known");
    return fw_strbuf_append(t->out, from, (size_t)(t->at - from));
}

fw_status fw_regex_translate(fw_strbuf *out, bool *asks_unicode, const char *pattern, const char *where) {
    translator t = {pattern, pattern, where, out, 0, 0, false};
    if (strlen(pattern) > PATTERN_MAX_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: a regex has %zu bytes; at most %d are read", where, strlen(pattern),
                       PATTERN_MAX_BYTES);
    while (*t.at != 0) {
        uint32_t code;
        switch (*t.at) {
        case '\\':
            t.at++;
            FW_TRY(escape(&t, false, &code));
            if (code != UINT32_MAX) FW_TRY(put_literal(&t, code));
            break;
        case '[': FW_TRY(class(&t)); break;
        case '(': FW_TRY(group(&t)); break;
        case ')':
            if (t.depth == t.caseless_depth) t.caseless_depth = 0;
            if (t.depth-- == 0) return refuse(&t, t.at, "a parenthesis that was never opened");
            FW_TRY(put(&t, ")"));
            t.at++;
            break;
        case '{': FW_TRY(braces(&t)); break;
        case '^':
        case '$':
        case '.':
            FW_TRY(put(&t, *t.at == '^' ? LINE_START : *t.at == '$' ? LINE_END : "[^\\n]"));
            t.at++;
            break;
        case '|':
        case '*':
        case '+':
        case '?':
            FW_TRY(fw_strbuf_putc(out, *t.at));
            t.at++;
            break;
        default: t.at += fw_utf8_next(&code, t.at); FW_TRY(put_literal(&t, code));
        }
    }
    if (t.depth != 0) return refuse(&t, t.at, "a parenthesis is not closed");
    *asks_unicode = t.asks_unicode;
    return FW_OK;
}
