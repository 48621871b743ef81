#include "data/format.h"

#include "base/alloc.h"
#include "base/json.h"

#include <string.h>
#include <strings.h>

/* Files that are not text at all, by their first bytes. */
static const struct {
    const char *magic;
    size_t bytes;
    const char *what;
} binary_formats[] = {
    {"PAR1", 4, "a Parquet file"},      {"ARROW1", 6, "an Arrow file"},
    {"\x1f\x8b", 2, "gzip-compressed"}, {"\x28\xb5\x2f\xfd", 4, "zstd-compressed"},
    {"PK\x03\x04", 4, "a zip archive"}, {"\xfd\x37zXZ", 5, "xz-compressed"},
    {"\xff\xfe", 2, "UTF-16 text"},     {"\xfe\xff", 2, "UTF-16 text"},
};

/* JSON records of other tools, by the keys that give them away. */
static const struct {
    const char *key, *other_key; /* both must be there; other_key may be NULL */
    const char *what;
} record_formats[] = {
    {"conversations", NULL, "the sharegpt format (\"conversations\" of \"from\" and \"value\")"},
    {"instruction", NULL, "the alpaca format (\"instruction\", \"input\", \"output\")"},
    {"chosen", "rejected", "a preference pair (\"chosen\", \"rejected\")"},
    {"prompt", "completion", "the prompt/completion format"},
    {"prompt", "response", "the prompt/response format"},
    {"text", NULL, "plain text (\"text\")"},
};

#define WANTED "what is read: JSONL or a JSON array of {\"messages\": [{\"role\": ..., \"content\": ...}]}"

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static int has_extension(const char *name, const char *extension) {
    size_t n = strlen(name), m = strlen(extension);
    return n > m && strcasecmp(name + n - m, extension) == 0;
}

static fw_status refuse_file(const char *name, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s is %s, which is not read; %s", name, what, WANTED);
}

fw_status fw_format_refuse_record(const char *name, size_t line, const json_t *record) {
    if (!json_is_object(record))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: a record must be a JSON object; %s", name, line, WANTED);
    for (size_t i = 0; i < sizeof record_formats / sizeof *record_formats; i++) {
        if (json_object_get(record, record_formats[i].key) == NULL) continue;
        if (record_formats[i].other_key && json_object_get(record, record_formats[i].other_key) == NULL) continue;
        return fw_fail(FW_ERR_INPUT, "%s:%zu: this is %s, which is not read; %s", name, line, record_formats[i].what,
                       WANTED);
    }
    return fw_fail(FW_ERR_INPUT, "%s:%zu: there is no \"messages\" in this record; %s", name, line, WANTED);
}

static fw_status add_record(fw_records *records, size_t offset, size_t bytes, size_t line, size_t column) {
    if (records->n == records->cap) {
        size_t cap = records->cap ? 2 * records->cap : 64;
        FW_TRY(FW_GROW_ARRAY(records->record, cap));
        records->cap = cap;
    }
    records->record[records->n++] = (fw_record){offset, bytes, line, column};
    return FW_OK;
}

static fw_status split_lines(fw_records *out, const char *text, size_t start, size_t text_bytes) {
    size_t line = 1;
    for (size_t at = start; at < text_bytes; line++) {
        const char *newline = memchr(text + at, '\n', text_bytes - at);
        size_t end = newline ? (size_t)(newline - text) : text_bytes;
        size_t first = at;
        while (first < end && is_space(text[first])) first++;
        if (first < end) {
            FW_TRY(add_record(out, at, end - at, line, 1));
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
            FW_TRY(add_record(out, first, c.at - first, line, column));
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

fw_status fw_format_split(fw_records *out, const char *name, const char *text, size_t text_bytes) {
    *out = (fw_records){0};
    for (size_t i = 0; i < sizeof binary_formats / sizeof *binary_formats; i++)
        if (text_bytes >= binary_formats[i].bytes &&
            memcmp(text, binary_formats[i].magic, binary_formats[i].bytes) == 0)
            return refuse_file(name, binary_formats[i].what);
    size_t start = text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, first = start;
    while (first < text_bytes && is_space(text[first])) first++;
    if (first == text_bytes) return fw_fail(FW_ERR_INPUT, "%s is empty; %s", name, WANTED);
    if (text[first] != '[' && text[first] != '{') {
        if (has_extension(name, ".csv") || has_extension(name, ".tsv")) return refuse_file(name, "a table (CSV)");
        if (has_extension(name, ".txt") || has_extension(name, ".md")) return refuse_file(name, "plain text");
        if (has_extension(name, ".yaml") || has_extension(name, ".yml")) return refuse_file(name, "YAML");
        return fw_fail(FW_ERR_INPUT, "%s begins with byte 0x%02x, which is neither { nor [; %s", name,
                       (unsigned char)text[first], WANTED);
    }
    out->is_array = text[first] == '[';
    if (!out->is_array) return split_lines(out, text, start, text_bytes);
    int broken;
    FW_TRY(split_array(out, text, start, text_bytes, &broken));
    if (broken) { /* jansson says where */
        json_t *whole = NULL;
        FW_TRY(fw_json_parse(&whole, text, text_bytes, name, 1));
        json_decref(whole);
        return fw_fail(FW_ERR_INTERNAL, "%s: a valid JSON array could not be split", name);
    }
    return FW_OK;
}
