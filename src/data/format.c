#include "data/format.h"

#include <string.h>
#include <strings.h>

/* Files that are not text, by their first bytes. */
static const struct {
    const char *magic;
    size_t bytes;
    const char *what;
} refused[] = {
    {"ARROW1", 6, "an Arrow file"},           {"PK\x03\x04", 4, "a zip archive"},
    {"\xfd\x37zXZ", 5, "xz-compressed"},      {"BZh", 3, "bzip2-compressed"},
    {"\xff\xfe", 2, "UTF-16 text"},           {"\xfe\xff", 2, "UTF-16 text"},
    {"\x1f\x8b", 2, "gzip-compressed twice"}, {"\x28\xb5\x2f\xfd", 4, "zstd-compressed twice"},
};

static const struct {
    const char *extension;
    fw_format format;
} extensions[] = {
    {".jsonl", FW_FORMAT_JSONL},     {".ndjson", FW_FORMAT_JSONL}, {".json", FW_FORMAT_JSON},
    {".parquet", FW_FORMAT_PARQUET}, {".csv", FW_FORMAT_CSV},      {".tsv", FW_FORMAT_CSV},
    {".txt", FW_FORMAT_TEXT},        {".text", FW_FORMAT_TEXT},    {".md", FW_FORMAT_TEXT},
};
enum { EXTENSION_N = sizeof extensions / sizeof *extensions };

#define WANTED "what is read: JSONL, a JSON array, Parquet, CSV and plain text (docs/data-format.md)"

const char *fw_format_name(fw_format format) {
    static const char *const names[FW_FORMAT_N] = {"JSONL", "JSON", "CSV", "plain text", "Parquet"};
    return (unsigned)format < FW_FORMAT_N ? names[format] : "unknown";
}

int fw_format_has_extension(const char *name, const char *extension) {
    size_t n = strlen(name), m = strlen(extension);
    return n > m && strcasecmp(name + n - m, extension) == 0;
}

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

int fw_format_is_blank(const char *text, size_t text_bytes) {
    while (text_bytes > 0 && is_space(*text)) text++, text_bytes--;
    return text_bytes == 0;
}

static fw_status refuse_file(const char *name, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s is %s, which is not read; %s", name, what, WANTED);
}

static int format_of_name(fw_format *out, const char *bare) {
    for (int i = 0; i < EXTENSION_N; i++) {
        if (!fw_format_has_extension(bare, extensions[i].extension)) continue;
        *out = extensions[i].format;
        return 1;
    }
    return 0;
}

/* Without the ending of a compression; returns 0 when the name is too long for any file. */
static int bare_name(char bare[4096], const char *name) {
    const size_t n = strlen(name);
    if (n >= 4096) return 0;
    memcpy(bare, name, n + 1);
    if (fw_format_has_extension(bare, ".gz"))
        bare[n - 3] = 0;
    else if (fw_format_has_extension(bare, ".zst"))
        bare[n - 4] = 0;
    return 1;
}

int fw_format_of_data_name(fw_format *out, const char *name) {
    char bare[4096];
    return bare_name(bare, name) && format_of_name(out, bare);
}

int fw_format_is_markdown_name(const char *name) {
    char bare[4096];
    return bare_name(bare, name) && fw_format_has_extension(bare, ".md");
}

fw_status fw_format_find(fw_format *out, size_t *start, const char *name, const char *bare, const char *text,
                         size_t text_bytes) {
    fw_format named = FW_FORMAT_N;
    const int is_named = format_of_name(&named, bare);
    *start = 0;
    if (text_bytes >= 4 && memcmp(text, "PAR1", 4) == 0) {
        *out = FW_FORMAT_PARQUET;
        return FW_OK;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (text_bytes >= refused[i].bytes && memcmp(text, refused[i].magic, refused[i].bytes) == 0)
            return refuse_file(name, refused[i].what);
    *start = text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t first = *start;
    while (first < text_bytes && is_space(text[first])) first++;
    if (first == text_bytes && !is_named) return fw_fail(FW_ERR_INPUT, "%s is empty; %s", name, WANTED);
    if (is_named && named != FW_FORMAT_PARQUET &&
        (first == text_bytes || named == FW_FORMAT_CSV || named == FW_FORMAT_TEXT)) {
        *out = named;
        return FW_OK;
    }
    if (fw_format_has_extension(bare, ".yaml") || fw_format_has_extension(bare, ".yml"))
        return refuse_file(name, "YAML");
    if (is_named && named == FW_FORMAT_PARQUET)
        return fw_fail(FW_ERR_INPUT, "%s does not begin with PAR1: it is no Parquet file, or a broken one", name);
    if (text[first] != '[' && text[first] != '{')
        return fw_fail(FW_ERR_INPUT, "%s begins with byte 0x%02x, which is neither { nor [; %s", name,
                       (unsigned char)text[first], WANTED);
    *out = text[first] == '[' ? FW_FORMAT_JSON : FW_FORMAT_JSONL;
    return FW_OK;
}
