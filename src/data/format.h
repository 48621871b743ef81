/* What kind of file is this, and where do its records stand? Used by data/reader.h. */
#ifndef FW_DATA_FORMAT_H
#define FW_DATA_FORMAT_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* One record: a line of JSONL or an element of the array. */
typedef struct fw_record {
    size_t offset, bytes;
    size_t line, column; /* of its first byte, from 1 */
} fw_record;

typedef struct fw_records {
    fw_record *record;
    size_t n, cap;
    int is_array;
    int cut_off; /* JSONL whose last line has no newline */
} fw_records;

/* Recognise the format of a whole file and list its records; blank lines are left out. The caller frees
 * out->record. Errors: FW_ERR_INPUT naming the format that is not read, or where an array is broken. */
fw_status fw_format_split(fw_records *out, const char *name, const char *text, size_t text_bytes);

/* A record without "messages": the error that names what it looks like. */
fw_status fw_format_refuse_record(const char *name, size_t line, const json_t *record);

#endif
