/* The rows of one file, whatever its format, as JSON objects.
 *
 *   JSONL, JSON   a line, an element of the array: as it stands
 *   CSV           RFC 4180 with a first line of names; every field is a string; .tsv: tabs
 *   text          {"text": ...}: a line, a paragraph or the file
 *   Parquet       a row; fields that are null are left out; columns that no shape reads are not read
 *
 * JSONL, JSON, CSV and text may be compressed by gzip or zstd (NAME.jsonl.gz, or by their first bytes): they are
 * unpacked into a file without a name in TMPDIR, from which they are mapped.
 * Opening finds where the rows stand; each is parsed when asked for, so threads share the work. */
#ifndef FW_DATA_ROWS_H
#define FW_DATA_ROWS_H

#include "data/format.h"
#include "data/row_place.h"

#include <jansson.h>

typedef struct fw_rows_options {
    const char *text_field; /* the key of plain text; NULL: "text" */
    fw_text_unit text_unit;
    int64_t max_n;     /* rows to read, from the first; 0: all */
    int (*stop)(void); /* asked while a file is unpacked: not 0 ends it with FW_ERR_INTERRUPTED; NULL: nobody does */
} fw_rows_options;

typedef struct fw_rows fw_rows;

/* options may be NULL. Errors: FW_ERR_INPUT (missing, empty, a format that is not read, a broken file), FW_ERR_IO (no
 * room to unpack), FW_ERR_NOMEM. */
fw_status fw_rows_open(fw_rows **out, const char *path, const fw_rows_options *options);
/* The same from memory, which is borrowed until close; `name` is what messages call it. */
fw_status fw_rows_open_memory(fw_rows **out, const char *name, const void *bytes, size_t n_bytes,
                              const fw_rows_options *options);
void fw_rows_close(fw_rows *r); /* takes NULL */

int64_t fw_rows_n(const fw_rows *r);
const char *fw_rows_name(const fw_rows *r);
fw_format fw_rows_format(const fw_rows *r);
/* About how many bytes of text the rows first..last-1 are: to cut work into pieces. */
int64_t fw_rows_bytes(const fw_rows *r, int64_t first, int64_t last);

/* The rows before `index` are not needed for now: their pages may go. */
void fw_rows_pass(const fw_rows *r, int64_t index);

/* Where one thread reads: Parquet is unpacked as it goes on, so rows are best asked for in order. Zero-initialise with
 * fw_row_cursor_init. */
typedef struct fw_row_cursor {
    const fw_rows *rows;
    struct fw_parquet_cursor *parquet; /* NULL until needed */
} fw_row_cursor;
void fw_row_cursor_init(fw_row_cursor *cursor, const fw_rows *rows);
void fw_row_cursor_fini(fw_row_cursor *cursor); /* takes a zeroed one */

/* Row `index` as a new reference. place gets file, line and the reason of a refusal. */
fw_status fw_row_get(fw_row_cursor *cursor, int64_t index, json_t **row, fw_row_place *place);

#endif
