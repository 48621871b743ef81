#include "text/jinja_outline.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { TEMPLATE_MAX_BYTES = 1 << 20, NESTING_MAX = 64 };

/* What never holds for conversations of system, user and assistant turns with text alone. */
static const char *const never[] = {
    "tools",
    "tools is not none",
    "tools is defined",
    "documents",
    "message.tool_calls",
    "message.role==\1tool\2",
    "not add_generation_prompt is defined",
    "add_generation_prompt is not defined",
    "message.reasoning_content is string",
    "message.reasoning_content is defined and message.reasoning_content is not none",
};
/* What always does. */
static const char *const ever[] = {"message.content is string"};

/* One open if, or for. */
typedef struct level {
    bool is_if;
    bool muted_outside; /* all of it is in a branch that is never taken */
    bool muted;         /* this branch is */
    bool any_kept;      /* an earlier branch of this if may be taken */
    bool always;        /* an earlier branch is always taken, the rest never */
    bool roles_seen;    /* an earlier branch takes every assistant message */
} level;

typedef struct outliner {
    const char *jinja, *where;
    fw_strbuf *out;
    fw_strbuf text; /* a run of output text that is not written yet */
    fw_strbuf code; /* the normal form of one expression or statement */
    level open[NESTING_MAX];
    int open_n;
} outliner;

static bool is_muted(const outliner *o) { return o->open_n > 0 && o->open[o->open_n - 1].muted; }

static fw_status put_string_byte(fw_strbuf *out, char c) { return fw_strbuf_putc(out, c == '\n' ? '\3' : c); }

static fw_status flush_text(outliner *o) {
    if (o->text.len_bytes == 0) return FW_OK;
    FW_TRY(fw_strbuf_puts(o->out, "T "));
    for (size_t i = 0; i < o->text.len_bytes; i++) FW_TRY(put_string_byte(o->out, o->text.data[i]));
    FW_TRY(fw_strbuf_putc(o->out, '\n'));
    fw_strbuf_clear(&o->text);
    return FW_OK;
}

static fw_status put_item(outliner *o, char kind, const char *code, size_t code_bytes) {
    FW_TRY(flush_text(o));
    FW_TRY(fw_strbuf_printf(o->out, "%c ", kind));
    FW_TRY(fw_strbuf_append(o->out, code, code_bytes));
    return fw_strbuf_putc(o->out, '\n');
}

/* Append the string constant that starts at *at, without its quotes; *at goes behind it. */
static fw_status read_string(outliner *o, const char **at, const char *end) {
    const char *c = *at;
    char quote = *c++;
    for (; c < end && *c != quote; c++) {
        char value = *c;
        if (value == '\\' && c + 1 < end) {
            c++;
            value = *c == 'n' ? '\n' : *c == 't' ? '\t' : *c == 'r' ? '\r' : *c;
            if (strchr("ntr\\'\"", *c) == NULL) /* Jinja knows more; none of the known templates uses them */
                return fw_fail(FW_ERR_INPUT,
                               "%s: the chat template has the escape \\%c at byte %zu, which is not known here",
                               o->where, *c, (size_t)(c - o->jinja));
        }
        if (value == 0 || (value > 0 && value < 4))
            return fw_fail(FW_ERR_INPUT, "%s: the chat template has a control character at byte %zu", o->where,
                           (size_t)(c - o->jinja));
        FW_TRY(put_string_byte(&o->code, value));
    }
    if (c == end)
        return fw_fail(FW_ERR_INPUT, "%s: a string of the chat template that starts at byte %zu does not end", o->where,
                       (size_t)(*at - o->jinja));
    *at = c + 1;
    return FW_OK;
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* o->code = the code between the braces: no white space but between words, x['name'] as x.name. */
static fw_status read_code(outliner *o, const char *at, const char *end) {
    fw_strbuf_clear(&o->code);
    while (at < end) {
        char before = o->code.len_bytes > 0 ? o->code.data[o->code.len_bytes - 1] : 0;
        if (isspace((unsigned char)*at)) {
            while (at < end && isspace((unsigned char)*at)) at++;
            bool words = at < end && (is_name(before) || before == '\2' || before == ')') && (is_name(*at));
            if (words || (is_name(before) && at < end && (*at == '\'' || *at == '"')))
                FW_TRY(fw_strbuf_putc(&o->code, ' '));
        } else if (*at == '\'' || *at == '"') {
            bool subscript =
                before == '[' && o->code.len_bytes > 1 &&
                (is_name(o->code.data[o->code.len_bytes - 2]) || o->code.data[o->code.len_bytes - 2] == ']');
            size_t start = o->code.len_bytes;
            FW_TRY(fw_strbuf_putc(&o->code, '\1'));
            FW_TRY(read_string(o, &at, end));
            if (subscript && at < end && *at == ']') {
                bool plain = o->code.len_bytes > start + 1;
                for (size_t i = start + 1; i < o->code.len_bytes; i++) plain = plain && is_name(o->code.data[i]);
                if (plain) { /* "[\1name" becomes ".name" */
                    memmove(o->code.data + start, o->code.data + start + 1, o->code.len_bytes - start - 1);
                    o->code.len_bytes--;
                    o->code.data[start - 1] = '.';
                    at++;
                    continue;
                }
            }
            FW_TRY(fw_strbuf_putc(&o->code, '\2'));
        } else {
            FW_TRY(fw_strbuf_putc(&o->code, *at++));
        }
    }
    return FW_OK;
}

/* An output expression: a + 'b' + c writes a, "b" and c. */
static fw_status output(outliner *o) {
    if (is_muted(o)) return FW_OK;
    const char *code = fw_strbuf_text(&o->code);
    size_t n = o->code.len_bytes, start = 0;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i <= n; i++) {
        char c = i < n ? code[i] : '+';
        if (c == '\1' || c == '\2') in_string = c == '\1';
        if (in_string && i < n) continue;
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (c != '+' || depth != 0) continue;
        if (i > start + 1 && code[start] == '\1' && memchr(code + start, '\2', i - start) == code + i - 1) {
            for (size_t k = start + 1; k < i - 1; k++)
                FW_TRY(fw_strbuf_putc(&o->text, code[k] == '\3' ? '\n' : code[k]));
        } else {
            FW_TRY(put_item(o, 'E', code + start, i - start));
        }
        start = i + 1;
    }
    return FW_OK;
}

static bool is_never(const char *condition) {
    for (size_t i = 0; condition != NULL && i < sizeof never / sizeof never[0]; i++)
        if (strcmp(condition, never[i]) == 0) return true;
    return false;
}

static bool is_ever(const char *condition) {
    for (size_t i = 0; condition != NULL && i < sizeof ever / sizeof ever[0]; i++)
        if (strcmp(condition, ever[i]) == 0) return true;
    return condition == NULL; /* else */
}

/* "not message.tool_calls" always holds: take it out of a conjunction. */
static void drop_always_true(fw_strbuf *code) {
    static const char *const parts[] = {" and not message.tool_calls", " and message.content is string"};
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        size_t n = strlen(parts[p]);
        for (char *found; code->data != NULL && (found = strstr(code->data, parts[p])) != NULL;) {
            memmove(found, found + n, strlen(found + n) + 1);
            code->len_bytes -= n;
        }
    }
}

static fw_status open_level(outliner *o, bool is_if) {
    if (o->open_n == NESTING_MAX) return fw_fail(FW_ERR_INPUT, "%s: the chat template is nested too deeply", o->where);
    bool muted = is_muted(o);
    o->open[o->open_n++] = (level){.is_if = is_if, .muted_outside = muted, .muted = muted};
    return FW_OK;
}

/* A branch of an if begins, under a condition (NULL: else). The first branch that is kept is written as
 * "if", or not at all when only an else is left. */
static fw_status branch(outliner *o, const char *condition) {
    level *top = &o->open[o->open_n - 1];
    bool dead = top->always || is_never(condition) ||
                (condition != NULL && top->roles_seen && strcmp(condition, "message.role==\1assistant\2") == 0);
    if (condition != NULL && strstr(condition, "or(message.role==\1assistant\2)") != NULL) top->roles_seen = true;
    top->muted = top->muted_outside || dead;
    if (top->muted) return FW_OK;
    if (is_ever(condition)) {
        top->always = true;
        if (!top->any_kept) return FW_OK; /* all before were never taken: this branch is the whole */
        return put_item(o, 'S', "else", 4);
    }
    fw_strbuf line = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_printf(&line, "%s %s", top->any_kept ? "elif" : "if", condition), done);
    FW_TRY_OR(put_item(o, 'S', line.data, line.len_bytes), done);
    top->any_kept = true;
done:
    fw_strbuf_fini(&line);
    return status;
}

static bool starts(const char *code, const char *word) {
    size_t n = strlen(word);
    return strncmp(code, word, n) == 0 && !is_name(code[n]);
}

static fw_status statement(outliner *o) {
    drop_always_true(&o->code);
    const char *code = fw_strbuf_text(&o->code);
    const char *rest = strchr(code, ' ') ? strchr(code, ' ') + 1 : code + strcspn(code, "(");
    level *top = o->open_n > 0 ? &o->open[o->open_n - 1] : NULL;
    if (starts(code, "if")) {
        FW_TRY(open_level(o, true));
        return branch(o, code[2] == ' ' ? rest : code + 2);
    }
    if (starts(code, "for")) {
        FW_TRY(open_level(o, false));
        return is_muted(o) ? FW_OK : put_item(o, 'S', code, o->code.len_bytes);
    }
    if (top != NULL && top->is_if && starts(code, "elif")) return branch(o, code[4] == ' ' ? rest : code + 4);
    if (top != NULL && top->is_if && strcmp(code, "else") == 0) return branch(o, NULL);
    if (top != NULL && strcmp(code, top->is_if ? "endif" : "endfor") == 0) {
        bool written = !top->muted_outside && (top->any_kept || !top->is_if);
        o->open_n--;
        return written ? put_item(o, 'S', code, o->code.len_bytes) : FW_OK;
    }
    if (starts(code, "end") || strncmp(code, "end", 3) == 0 || strcmp(code, "else") == 0)
        return fw_fail(FW_ERR_INPUT, "%s: the chat template closes \"%.40s\" that is not open", o->where, code);
    return is_muted(o) ? FW_OK : put_item(o, 'S', code, o->code.len_bytes);
}

static const char *find_tag(const char *at) {
    while ((at = strchr(at, '{')) != NULL && at[1] != '{' && at[1] != '%' && at[1] != '#') at++;
    return at;
}

/* The end of the code of a tag: quotes may hold what looks like an end. */
static const char *find_close(const char *at, char kind) {
    char quote = 0, last = kind == '{' ? '}' : kind;
    for (; *at != 0; at++) {
        if (kind != '#' && quote == 0 && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (quote != 0 && *at == '\\' && at[1] != 0)
            at++;
        else if (*at == quote)
            quote = 0;
        else if (quote == 0 && at[0] == last && at[1] == '}')
            return at;
    }
    return NULL;
}

/* The text before a tag, without what the tag strips from its end. */
static fw_status text_before(outliner *o, const char *text, size_t n, const char *tag, bool *at_line_start) {
    if (tag != NULL && tag[2] == '-') {
        while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    } else if (tag != NULL && tag[1] != '{' && tag[2] != '+') { /* lstrip_blocks: from the line's start */
        size_t k = n;
        while (k > 0 && (text[k - 1] == ' ' || text[k - 1] == '\t')) k--;
        if (k > 0 ? text[k - 1] == '\n' : *at_line_start) n = k;
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] > 0 && text[i] < 4)
            return fw_fail(FW_ERR_INPUT, "%s: the chat template has control characters", o->where);
    return is_muted(o) ? FW_OK : fw_strbuf_append(&o->text, text, n);
}

static fw_status outline(outliner *o, const char *at, const char *end) {
    bool at_line_start = true;
    while (at < end) {
        const char *tag = find_tag(at);
        FW_TRY(text_before(o, at, (size_t)((tag ? tag : end) - at), tag, &at_line_start));
        if (tag == NULL) break;
        char kind = tag[1];
        const char *code = tag + 2 + (tag[2] == '-' || tag[2] == '+'), *close = find_close(code, kind);
        if (close == NULL)
            return fw_fail(FW_ERR_INPUT, "%s: the chat template opens {%c at byte %zu and does not close it", o->where,
                           kind, (size_t)(tag - o->jinja));
        bool trims = close > code && close[-1] == '-', keeps = close > code && close[-1] == '+';
        if (kind != '#') {
            FW_TRY(read_code(o, code + strspn(code, " \t\r\n"), close - (trims || keeps)));
            FW_TRY(kind == '{' ? output(o) : statement(o));
        }
        at = close + 2;
        at_line_start = false;
        if (trims) {
            while (at < end && isspace((unsigned char)*at)) at++;
        } else if (kind != '{' && !keeps) { /* trim_blocks */
            at_line_start = *at == '\n';
            at += *at == '\n';
        }
    }
    if (o->open_n != 0) return fw_fail(FW_ERR_INPUT, "%s: the chat template does not close an if or for", o->where);
    return flush_text(o);
}

fw_status fw_jinja_outline(fw_strbuf *out, const char *jinja, const char *where) {
    size_t n = strlen(jinja);
    if (n > TEMPLATE_MAX_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: the chat template has %zu bytes; at most %d are read", where, n,
                       TEMPLATE_MAX_BYTES);
    if (n > 0 && jinja[n - 1] == '\n') n--; /* Jinja drops one line break at the end */
    char *copy;
    FW_TRY(fw_strndup(&copy, jinja, n));
    outliner o = {.jinja = copy, .where = where, .out = out};
    fw_status status = outline(&o, copy, copy + n);
    fw_strbuf_fini(&o.text);
    fw_strbuf_fini(&o.code);
    fw_free(copy);
    return status;
}
