/* Where the records of a text stand: lines, elements of an array, rows of a table, paragraphs. */
#include "base/alloc.h"
#include "base/json.h"
#include "data/format.h"

#include <string.h>

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

fw_status fw_records_add(fw_records *records, size_t offset, size_t bytes, size_t line, size_t column) {
    if (records->n == records->cap) {
        size_t cap = records->cap ? 2 * records->cap : 64;
        FW_TRY(FW_GROW_ARRAY(records->record, cap));
        records->cap = cap;
    }
    records->record[records->n++] = (fw_record){offset, bytes, line, column};
    return FW_OK;
}

fw_status fw_split_lines(fw_records *out, const char *text, size_t start, size_t text_bytes) {
    size_t line = 1;
    for (size_t at = start; at < text_bytes; line++) {
        const char *newline = memchr(text + at, '\n', text_bytes - at);
        size_t end = newline ? (size_t)(newline - text) : text_bytes;
        size_t first = at;
        while (first < end && is_space(text[first])) first++;
        if (first < end) {
            FW_TRY(fw_records_add(out, at, end - at, line, 1));
            out->cut_off = newline == NULL;
        }
        at = end + 1;
    }
    return FW_OK;
}

/* A place in the text that knows its line and column (in bytes). */
typedef struct cursor {
    const char *text;
    size_t at, end, line, line_start;
} cursor;

static void step(cursor *c) {
    if (c->text[c->at++] == '\n') {
        c->line++;
        c->line_start = c->at;
    }
}

static void skip_space(cursor *c) {
    while (c->at < c->end && is_space(c->text[c->at])) step(c);
}

/* Move past one value by counting brackets; strings are skipped whole. What is inside is checked when the
 * record is parsed. Returns 0 at the end of the text. */
static int skip_value(cursor *c) {
    size_t depth = 0;
    while (c->at < c->end) {
        char byte = c->text[c->at];
        if (depth == 0 && (byte == ',' || byte == ']' || byte == '}')) return 1;
        if (byte == '"') {
            for (step(c); c->at < c->end && c->text[c->at] != '"'; step(c))
                if (c->text[c->at] == '\\' && c->at + 1 < c->end) step(c);
            if (c->at == c->end) return 0;
        } else if (byte == '{' || byte == '[')
            depth++;
        else if (byte == '}' || byte == ']')
            depth--;
        step(c);
    }
    return 0;
}

/* Returns FW_OK with *broken = 1 when the text is not one array. */
static fw_status split_array(fw_records *out, const char *text, size_t start, size_t text_bytes, int *broken) {
    cursor c = {.text = text, .at = start, .end = text_bytes, .line = 1};
    *broken = 1;
    skip_space(&c);
    step(&c); /* the opening bracket */
    skip_space(&c);
    if (c.at < c.end && text[c.at] == ']')
        step(&c);
    else {
        for (;;) {
            size_t first = c.at, line = c.line, column = c.at - c.line_start + 1;
            if (!skip_value(&c) || c.at == first || text[c.at] == '}') return FW_OK;
            FW_TRY(fw_records_add(out, first, c.at - first, line, column));
            char separator = text[c.at];
            step(&c);
            if (separator == ']') break;
            skip_space(&c);
        }
    }
    skip_space(&c);
    *broken = c.at != c.end;
    return FW_OK;
}

fw_status fw_split_array(fw_records *out, const char *name, const char *text, size_t start, size_t text_bytes) {
    int broken;
    FW_TRY(split_array(out, text, start, text_bytes, &broken));
    if (!broken) return FW_OK;
    json_t *whole = NULL; /* jansson says where */
    FW_TRY(fw_json_parse(&whole, text, text_bytes, name, 1));
    json_decref(whole);
    return fw_fail(FW_ERR_INTERNAL, "%s: a valid JSON array could not be split", name);
}

/* From the start of a field to its delimiter or the end of its row. A quote opens a field only as its first byte. */
static void skip_field(cursor *c, char delimiter) {
    if (c->at < c->end && c->text[c->at] == '"') {
        for (step(c); c->at < c->end; step(c)) {
            if (c->text[c->at] != '"') continue;
            step(c);
            if (c->at == c->end || c->text[c->at] != '"') break; /* not doubled: it closes */
        }
    }
    while (c->at < c->end && c->text[c->at] != delimiter && c->text[c->at] != '\n') step(c);
}

fw_status fw_split_csv(fw_records *out, const char *text, size_t start, size_t text_bytes, char delimiter,
                       size_t max_n) {
    cursor c = {.text = text, .at = start, .end = text_bytes, .line = 1};
    while (c.at < c.end && (max_n == 0 || out->n < max_n)) {
        const size_t first = c.at, line = c.line;
        skip_field(&c, delimiter);
        while (c.at < c.end && text[c.at] == delimiter) {
            step(&c);
            skip_field(&c, delimiter);
        }
        size_t end = c.at;
        if (end > first && text[end - 1] == '\r') end--;
        if (end > first) FW_TRY(fw_records_add(out, first, end - first, line, 1));
        if (c.at < c.end) step(&c);
    }
    return FW_OK;
}

/* Without its line break. */
static fw_status add_text(fw_records *out, const char *text, size_t first, size_t end, size_t line) {
    while (end > first && (text[end - 1] == '\n' || text[end - 1] == '\r')) end--;
    return fw_records_add(out, first, end - first, line, 1);
}

fw_status fw_split_text(fw_records *out, fw_text_unit unit, const char *text, size_t start, size_t text_bytes) {
    if (unit == FW_TEXT_DOCUMENT) return add_text(out, text, start, text_bytes, 1);
    size_t line = 1, open_at = 0, open_line = 0; /* the paragraph that is open; line 0: none */
    for (size_t at = start; at < text_bytes; line++) {
        const char *newline = memchr(text + at, '\n', text_bytes - at);
        size_t end = newline ? (size_t)(newline - text) : text_bytes, first = at;
        while (first < end && is_space(text[first])) first++;
        if (unit == FW_TEXT_LINE && first < end) FW_TRY(add_text(out, text, at, end, line));
        if (unit == FW_TEXT_PARAGRAPH && first < end && open_line == 0) {
            open_at = at;
            open_line = line;
        }
        if (open_line > 0 && first == end) {
            FW_TRY(add_text(out, text, open_at, at, open_line));
            open_line = 0;
        }
        at = end + 1;
    }
    return open_line > 0 ? add_text(out, text, open_at, text_bytes, open_line) : FW_OK;
}
