/* Rows of Parquet files as JSON objects: a reader of our own, for tables of conversations.
 *
 * Read are: nested groups, LIST in its three written forms, MAP with strings as keys; BOOLEAN, INT32, INT64, FLOAT,
 * DOUBLE, BYTE_ARRAY (text); data pages v1 and v2; PLAIN, dictionary, RLE and the three DELTA encodings; no compression,
 * Snappy, gzip and Zstandard. What a column needs and is not among these is refused by name.
 *
 * Fields that are null are left out of their object; null elements of a list stay. Only the columns that some shape reads
 * (data/shape.h) are looked at. Every length in the file is taken for a lie until it is checked; time and memory are
 * bounded by the size of the file. Source: parquet-format (Apache), Dremel (Melnik et al. 2010) for the levels. */
#ifndef FW_DATA_PARQUET_H
#define FW_DATA_PARQUET_H

#include "data/row_place.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fw_parquet fw_parquet;

/* bytes are borrowed until close. text_field: the key of plain text. Errors: FW_ERR_INPUT, FW_ERR_NOMEM. */
fw_status fw_parquet_open(fw_parquet **out, const char *name, const char *bytes, size_t n_bytes,
                          const char *text_field);
void fw_parquet_close(fw_parquet *p); /* takes NULL */
int64_t fw_parquet_row_n(const fw_parquet *p);
/* Bytes of a row, unpacked, on average; at least 1. */
int64_t fw_parquet_row_bytes(const fw_parquet *p);

/* Where one thread reads. Rows in rising order cost the least: what lies between is passed over. */
typedef struct fw_parquet_cursor fw_parquet_cursor;
fw_status fw_parquet_cursor_create(fw_parquet_cursor **out, const fw_parquet *p);
void fw_parquet_cursor_destroy(fw_parquet_cursor *cursor); /* takes NULL */
/* A new reference. Text that is no UTF-8 is a refusal of the row (place->reason); other errors are of the file. */
fw_status fw_parquet_cursor_get(fw_parquet_cursor *cursor, int64_t index, json_t **row, fw_row_place *place);

#endif
