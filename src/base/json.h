/* JSON through jansson, with errors that name file, line, column and key.
 *
 * jansson itself refuses what hostile files try: nesting deeper than 2,048, invalid UTF-8, numbers out
 * of range. An integer beyond 64 bits becomes a real, since files do have them. Objects with a repeated key are refused
 * here too. A leading UTF-8 byte order mark is skipped. All getters borrow from `object`; `where` is what messages call
 * it, a file name as a rule. */
#ifndef FW_BASE_JSON_H
#define FW_BASE_JSON_H

#include "base/status.h"
#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Parse a text. first_line: the line number of its first line in `where` (1 for whole files).
 * *out is owned by the caller (json_decref). Errors: FW_ERR_INPUT with line and column. */
fw_status fw_json_parse(json_t **out, const char *text, size_t text_bytes, const char *where, size_t first_line);
/* The same for a text that begins in the middle of a line: first_column counts from 1. */
fw_status fw_json_parse_at(json_t **out, const char *text, size_t text_bytes, const char *where, size_t first_line,
                           size_t first_column);
/* Read and parse a file of at most limit_bytes. */
fw_status fw_json_load(json_t **out, const char *path, size_t limit_bytes);

/* Getters. A missing key or null leaves *out at `fallback`; a value of another type or out of bounds is
 * FW_ERR_INPUT naming where, key and value. */
fw_status fw_json_get_int(int64_t *out, const json_t *object, const char *key, int64_t fallback, int64_t min,
                          int64_t max, const char *where);
fw_status fw_json_get_double(double *out, const json_t *object, const char *key, double fallback, double min,
                             double max, const char *where);
fw_status fw_json_get_bool(bool *out, const json_t *object, const char *key, bool fallback, const char *where);
/* *out borrows; a string with a zero byte in it is refused. */
fw_status fw_json_get_string(const char **out, const json_t *object, const char *key, const char *fallback,
                             const char *where);
/* As above, but the key must be there. */
fw_status fw_json_need_int(int64_t *out, const json_t *object, const char *key, int64_t min, int64_t max,
                           const char *where);

/* Append the text of value to *out. flags: jansson's (JSON_COMPACT, JSON_INDENT(2), ...). Fractions
 * get as many digits as bring all of them back exactly (15 to 17). Errors: FW_ERR_NOMEM. */
fw_status fw_json_dump(fw_strbuf *out, const json_t *value, size_t flags);
/* A number; null for what JSON has no number for (infinite, not a number). NULL when memory ran out. */
json_t *fw_json_number(double value);
/* Write with two-space indentation and a final newline, atomically. Keys keep their order. */
fw_status fw_json_save(const json_t *value, const char *path);

#endif
