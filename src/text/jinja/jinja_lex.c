#include "text/jinja/jinja_lex.h"

#include "text/jinja/jinja_escape.h"
#include "text/jinja/jinja_number.h"
#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <ctype.h>
#include <string.h>

enum { BRACKETS_MAX = 500 };

typedef struct lexer {
    fw_jinja_memory *memory;
    fw_jinja_tokens *out;
    const char *at, *end, *where;
    int line;
    bool line_starts; /* the last piece of the template ended with a line break */
    char bracket[BRACKETS_MAX];
    int bracket_n;
} lexer;

static fw_status put(lexer *l, fw_jinja_token token) {
    fw_jinja_tokens *t = l->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        fw_jinja_token *wider;
        FW_TRY(FW_JINJA_NEW_ARRAY(l->memory, wider, cap));
        if (t->n) memcpy(wider, t->token, t->n * sizeof *wider);
        t->token = wider;
        t->cap = cap;
    }
    t->token[t->n++] = token;
    return FW_OK;
}

static fw_status put_kind(lexer *l, fw_jinja_token_kind kind) {
    return put(l, (fw_jinja_token){.kind = kind, .line = l->line});
}

/* Go on to `to`, counting lines. */
static void advance(lexer *l, const char *to) {
    for (; l->at < to; l->at++) l->line += *l->at == '\n';
}

static size_t left(const lexer *l) { return (size_t)(l->end - l->at); }
static bool starts(const lexer *l, const char *what) {
    size_t n = strlen(what);
    return left(l) >= n && memcmp(l->at, what, n) == 0;
}

static const char *skip_space(const char *at, const char *end) {
    while (at < end) {
        uint32_t code;
        size_t n = fw_utf8_next(&code, at);
        if (!fw_jinja_is_space(code)) break;
        at += n;
    }
    return at;
}

/* {%- raw -%}: returns the end of the tag, or NULL when it is none; *sign is its first mark. */
static const char *raw_start(const lexer *l, char *sign) {
    const char *at = l->at + 2;
    *sign = at < l->end && (*at == '-' || *at == '+') ? *at : 0;
    at = skip_space(at + (*sign != 0), l->end);
    if (l->end - at < 3 || memcmp(at, "raw", 3) != 0) return NULL;
    at = skip_space(at + 3, l->end);
    if (l->end - at >= 3 && memcmp(at, "-%}", 3) == 0) return skip_space(at + 3, l->end);
    return l->end - at >= 2 && memcmp(at, "%}", 2) == 0 ? at + 2 : NULL;
}

/* The text before a tag, without what the tag strips from its end. */
static fw_status put_data(lexer *l, const char *start, const char *stop, char sign, bool may_lstrip, bool has_tag) {
    size_t n = (size_t)(stop - start);
    if (has_tag && sign == '-') {
        fw_jinja_strip_space(&start, &n, false, true);
    } else if (has_tag && may_lstrip && sign != '+') {
        const char *line = n ? memrchr(start, '\n', n) : NULL;
        const char *blank = line ? line + 1 : start;
        if ((line != NULL || l->line_starts) && blank < start + n && skip_space(blank, start + n) == start + n)
            n = (size_t)(blank - start);
    }
    if (n > 0) FW_TRY(put(l, (fw_jinja_token){.kind = FW_JINJA_T_DATA, .line = l->line, .text = start, .bytes = n}));
    return FW_OK;
}

/* Behind the end of a block or comment, whose mark is `sign` ('-', '+' or 0). */
static const char *after_close(const lexer *l, const char *at, char sign) {
    if (sign == '-') return skip_space(at, l->end);
    return sign == 0 && at < l->end && *at == '\n' ? at + 1 : at;
}

static fw_status unclosed(const lexer *l, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s:%d: the template opens %s that does not end", l->where, l->line, what);
}

static fw_status lex_comment(lexer *l) {
    const char *start = l->at + 2;
    if (start < l->end && (*start == '-' || *start == '+')) start++;
    const char *close = memmem(start, (size_t)(l->end - start), "#}", 2);
    if (close == NULL) return unclosed(l, "a comment");
    char sign = close > start && (close[-1] == '-' || close[-1] == '+') ? close[-1] : 0;
    const char *next = after_close(l, close + 2, sign);
    advance(l, next);
    l->line_starts = next[-1] == '\n';
    return FW_OK;
}

static fw_status lex_raw(lexer *l, const char *body) {
    advance(l, body);
    for (const char *tag = body; (tag = memmem(tag, (size_t)(l->end - tag), "{%", 2)) != NULL; tag += 2) {
        const char *at = tag + 2;
        char sign = at < l->end && (*at == '-' || *at == '+') ? *at : 0;
        at = skip_space(at + (sign != 0), l->end);
        if (l->end - at < 6 || memcmp(at, "endraw", 6) != 0) continue;
        at = skip_space(at + 6, l->end);
        char close_sign = at < l->end && (*at == '-' || *at == '+') ? *at : 0;
        at += close_sign != 0;
        if (l->end - at < 2 || memcmp(at, "%}", 2) != 0) continue;
        l->line_starts = body[-1] == '\n';
        FW_TRY(put_data(l, body, tag, sign, true, true));
        const char *next = after_close(l, at + 2, close_sign);
        advance(l, next);
        l->line_starts = next[-1] == '\n';
        return FW_OK;
    }
    return unclosed(l, "a raw block");
}

static fw_status lex_string(lexer *l) {
    const char *c = l->at + 1;
    while (c < l->end && *c != *l->at) c += *c == '\\' && c + 1 < l->end ? 2 : 1;
    if (c >= l->end) return unclosed(l, "a string");
    fw_jinja_token token = {.kind = FW_JINJA_T_STRING, .line = l->line};
    fw_status status = fw_jinja_unescape(l->memory, l->at + 1, (size_t)(c - l->at - 1), &token.text, &token.bytes);
    if (status != FW_OK) return fw_fail_context(status, "%s:%d: ", l->where, l->line);
    advance(l, c + 1);
    return put(l, token);
}

/* Digits with single underscores between them; returns the end, or `at` when there is none. */
static const char *skip_digits(const char *at, const char *end) {
    while (at < end && (isdigit((unsigned char)*at) || (*at == '_' && at + 1 < end && isdigit((unsigned char)at[1]))))
        at++;
    return at;
}

static fw_status lex_number(lexer *l) {
    const char *at = l->at, *stop = skip_digits(at, l->end);
    bool real = false, after_dot = at[-1] == '.'; /* x.0.1 is no real number; a tag's start is before `at` */
    if (!after_dot) {
        const char *c = stop;
        if (c + 1 < l->end && *c == '.' && isdigit((unsigned char)c[1])) {
            c = skip_digits(c + 1, l->end);
            real = true;
        }
        if (c + 1 < l->end && (*c == 'e' || *c == 'E')) {
            const char *e = c + 1 + (c[1] == '+' || c[1] == '-');
            if (e < l->end && isdigit((unsigned char)*e)) {
                c = skip_digits(e, l->end);
                real = true;
            }
        }
        if (real) stop = c;
    }
    fw_jinja_token token = {.kind = real ? FW_JINJA_T_FLOAT : FW_JINJA_T_INT, .line = l->line};
    if (!real && *at == '0') {
        const char *c = at + 1;
        const char *letters = c < l->end && strchr("xX", *c) && *c   ? "0123456789abcdefABCDEF_"
                              : c < l->end && strchr("oO", *c) && *c ? "01234567_"
                              : c < l->end && strchr("bB", *c) && *c ? "01_"
                                                                     : NULL;
        if (letters != NULL) {
            for (c++; c < l->end && *c != 0 && strchr(letters, *c) != NULL;) c++;
            if (c > at + 2) stop = c;
        } else { /* only zeros may follow a zero */
            while (c < stop && (*c == '0' || *c == '_')) c++;
            stop = c;
        }
    }
    size_t n = (size_t)(stop - at);
    bool ok = real ? fw_jinja_read_real(&token.real, at, n) : fw_jinja_read_int(&token.integer, at, n, 0);
    if (!ok)
        return fw_fail(FW_ERR_INPUT, "%s:%d: the number %.*s of the template is not one, or has more than 64 bits",
                       l->where, l->line, n > 40 ? 40 : (int)n, at);
    advance(l, stop);
    return put(l, token);
}

static bool is_name_char(unsigned char c) { return isalnum(c) || c == '_' || c >= 0x80; }

static fw_status lex_operator(lexer *l) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *op = operators[i];
        if (!starts(l, op)) continue;
        if (strchr("([{", *op) != NULL) {
            if (l->bracket_n == BRACKETS_MAX)
                return fw_fail(FW_ERR_INPUT, "%s:%d: the template nests more than %d brackets", l->where, l->line,
                               BRACKETS_MAX);
            l->bracket[l->bracket_n++] = *op == '(' ? ')' : *op == '[' ? ']' : '}';
        } else if (strchr(")]}", *op) != NULL) {
            if (l->bracket_n == 0 || l->bracket[--l->bracket_n] != *op)
                return fw_fail(FW_ERR_INPUT, "%s:%d: the template has a \"%s\" too many, or in the wrong place",
                               l->where, l->line, op);
        }
        fw_jinja_token token = {.kind = FW_JINJA_T_OPERATOR, .line = l->line};
        memcpy(token.op, op, strlen(op) + 1);
        l->at += strlen(op);
        return put(l, token);
    }
    return fw_fail(FW_ERR_INPUT, "%s:%d: the template has an unexpected character 0x%02x inside a tag", l->where,
                   l->line, (unsigned char)*l->at);
}

/* Inside {{ }} or {% %}, up to its end. */
static fw_status lex_tag(lexer *l, bool block) {
    const char *close = block ? "%}" : "}}";
    for (;;) {
        advance(l, skip_space(l->at, l->end));
        if (l->at == l->end) return unclosed(l, block ? "a block" : "an output");
        if (l->bracket_n == 0) {
            char sign = *l->at == '-' || (block && *l->at == '+') ? *l->at : 0;
            const char *at = l->at + (sign != 0);
            if (l->end - at >= 2 && memcmp(at, close, 2) == 0) {
                FW_TRY(put_kind(l, block ? FW_JINJA_T_BLOCK_END : FW_JINJA_T_OUTPUT_END));
                const char *next = block || sign == '-' ? after_close(l, at + 2, sign) : at + 2;
                advance(l, next);
                l->line_starts = next[-1] == '\n';
                return FW_OK;
            }
        }
        unsigned char c = (unsigned char)*l->at;
        if (isdigit(c)) {
            FW_TRY(lex_number(l));
        } else if (is_name_char(c)) {
            const char *stop = l->at;
            while (stop < l->end && is_name_char((unsigned char)*stop)) stop++;
            FW_TRY(
                put(l, (fw_jinja_token){
                           .kind = FW_JINJA_T_NAME, .line = l->line, .text = l->at, .bytes = (size_t)(stop - l->at)}));
            l->at = stop;
        } else if (c == '\'' || c == '"') {
            FW_TRY(lex_string(l));
        } else {
            FW_TRY(lex_operator(l));
        }
    }
}

static const char *find_tag(const char *at, const char *end) {
    while ((at = memchr(at, '{', (size_t)(end - at))) != NULL) {
        if (at + 1 < end && (at[1] == '{' || at[1] == '%' || at[1] == '#')) return at;
        at++;
    }
    return NULL;
}

static fw_status lex_all(lexer *l) {
    while (l->at < l->end) {
        const char *start = l->at, *tag = find_tag(start, l->end);
        if (tag == NULL) {
            FW_TRY(put_data(l, start, l->end, 0, false, false));
            advance(l, l->end);
            break;
        }
        const char *raw = NULL;
        char sign = 0;
        l->at = tag;
        if (tag[1] == '%') raw = raw_start(l, &sign);
        if (raw == NULL) sign = tag + 2 < l->end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
        FW_TRY(put_data(l, start, tag, sign, tag[1] != '{', true));
        l->at = start;
        advance(l, tag);
        if (tag[1] == '#') {
            FW_TRY(lex_comment(l));
        } else if (raw != NULL) {
            FW_TRY(lex_raw(l, raw));
        } else {
            FW_TRY(put_kind(l, tag[1] == '{' ? FW_JINJA_T_OUTPUT_START : FW_JINJA_T_BLOCK_START));
            l->at += 2 + (sign != 0);
            l->bracket_n = 0;
            FW_TRY(lex_tag(l, tag[1] == '%'));
        }
    }
    return put_kind(l, FW_JINJA_T_END);
}

fw_status fw_jinja_lex(fw_jinja_memory *memory, fw_jinja_tokens *out, const char *source, size_t source_bytes,
                       const char *where) {
    if (source_bytes > FW_JINJA_SOURCE_MAX_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: the chat template has %zu bytes; at most %d are read", where, source_bytes,
                       FW_JINJA_SOURCE_MAX_BYTES);
    size_t invalid = fw_utf8_find_invalid(source, source_bytes);
    if (invalid < source_bytes)
        return fw_fail(FW_ERR_INPUT, "%s: the chat template is not valid UTF-8 at byte %zu", where, invalid);
    char *copy; /* with line breaks that are all \n */
    FW_TRY(fw_jinja_take(memory, (void **)&copy, source_bytes + 1));
    size_t n = 0;
    for (size_t i = 0; i < source_bytes; i++) {
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < source_bytes && source[i + 1] == '\n') i++;
    }
    copy[n] = 0;
    if (n > 0 && copy[n - 1] == '\n') n--;
    *out = (fw_jinja_tokens){0};
    lexer l = {
        .memory = memory, .out = out, .at = copy, .end = copy + n, .where = where, .line = 1, .line_starts = true};
    return lex_all(&l);
}
