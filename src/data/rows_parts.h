/* The inside of data/rows.h: one reader a format. */
#ifndef FW_DATA_ROWS_PARTS_H
#define FW_DATA_ROWS_PARTS_H

#include "base/file.h"
#include "data/rows.h"

#include <stdbool.h>

struct fw_rows {
    char *name, *text_field;
    fw_rows_options options;
    fw_format format;
    const char *text;
    size_t text_bytes;
    fw_mapping mapping, unpacked; /* data is NULL when not used */
    fw_records records;
    bool shares_lines; /* an array with several elements on a line: places are numbers of elements */
    size_t header_n;   /* of them, the first that are names of columns */
    char **column;     /* names of the columns of a table */
    size_t column_n;
    char delimiter;
    struct fw_parquet *parquet;
};

fw_status fw_json_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place);
fw_status fw_text_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place);
/* Finds the rows of text[start..] and the names of the columns; `bare` is the file's name without .gz. */
fw_status fw_csv_split(fw_rows *r, const char *bare, size_t start);
fw_status fw_csv_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place);

/* Text of a file into a JSON string: refused (with its column, counted in bytes from `record`) when it is no UTF-8. */
fw_status fw_text_to_json(json_t **out, const char *text, size_t text_bytes, size_t column, fw_row_place *place);

#endif
