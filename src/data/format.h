/* What kind of file is this, and where do its records stand? Used by data/rows.c. */
#ifndef FW_DATA_FORMAT_H
#define FW_DATA_FORMAT_H

#include "base/status.h"

#include <stddef.h>

typedef enum fw_format {
    FW_FORMAT_JSONL,
    FW_FORMAT_JSON, /* one array */
    FW_FORMAT_CSV,
    FW_FORMAT_TEXT,
    FW_FORMAT_PARQUET,
    FW_FORMAT_N
} fw_format;
/* "JSONL", "Parquet", ... */
const char *fw_format_name(fw_format format);

/* What one row of plain text is (sample_by). */
typedef enum fw_text_unit { FW_TEXT_LINE, FW_TEXT_PARAGRAPH, FW_TEXT_DOCUMENT } fw_text_unit;

/* One record: a line of JSONL, an element of the array, a row of a table (which may go over several lines). */
typedef struct fw_record {
    size_t offset, bytes;
    size_t line, column; /* of its first byte, from 1 */
} fw_record;

typedef struct fw_records {
    fw_record *record;
    size_t n, cap;
    int cut_off; /* JSONL whose last line has no newline */
} fw_records;

/* The format of a file from its name without .gz and .zst (bare) and its first bytes; *start is where its text begins,
 * after a byte order mark. name: for messages. Errors: FW_ERR_INPUT (empty under a name that tells nothing, or a format
 * that is not read, by name). */
fw_status fw_format_find(fw_format *out, size_t *start, const char *name, const char *bare, const char *text,
                         size_t text_bytes);
/* Does a file of this name hold conversations, and in which format by its name? What a folder is searched for. */
int fw_format_of_data_name(fw_format *out, const char *name);
int fw_format_is_markdown_name(const char *name); /* plain text, but papers rather than data */
int fw_format_is_blank(const char *text, size_t text_bytes);
int fw_format_has_extension(const char *name, const char *extension);

/* List the records of text[start..]; blank lines are left out. The caller frees out->record.
 * Errors: FW_ERR_INPUT (where an array is broken), FW_ERR_NOMEM. */
fw_status fw_split_lines(fw_records *out, const char *text, size_t start, size_t text_bytes);
fw_status fw_split_array(fw_records *out, const char *name, const char *text, size_t start, size_t text_bytes);
/* Rows by the rules of RFC 4180: what is quoted may hold line breaks. max_n: the first ones; 0: all. */
fw_status fw_split_csv(fw_records *out, const char *text, size_t start, size_t text_bytes, char delimiter,
                       size_t max_n);
fw_status fw_split_text(fw_records *out, fw_text_unit unit, const char *text, size_t start, size_t text_bytes);

/* Append one. */
fw_status fw_records_add(fw_records *records, size_t offset, size_t bytes, size_t line, size_t column);

#endif
