/* One column of one row group as a stream of entries, page by page: repetition level, definition level and, when the
 * definition level is the highest, a value. One page and the dictionary are in memory at a time. */
#ifndef FW_DATA_PARQUET_COLUMN_H
#define FW_DATA_PARQUET_COLUMN_H

#include "data/parquet/parquet_values.h"

typedef struct fw_parquet_column {
    const fw_parquet *p;
    const fw_parquet_node *node;
    const fw_parquet_chunk *chunk;
    const uint8_t *at, *end; /* of the chunk, what has not been read */
    int64_t left;            /* entries of the chunk that no page has given yet */
    int64_t page_left;       /* entries of the current page */
    fw_hybrid reps, defs;
    fw_parquet_values values;
    uint8_t *page, *dictionary_page; /* unpacked */
    size_t page_cap;
    fw_parquet_dictionary dictionary;
    int64_t row_n; /* rows begun: entries taken at repetition level 0 */
    int peeked;    /* rep and def are those of the next entry */
    int rep, def;
} fw_parquet_column;

/* The caller's storage. */
void fw_parquet_column_init(fw_parquet_column *c, const fw_parquet *p, const fw_parquet_group *group, int leaf);
void fw_parquet_column_fini(fw_parquet_column *c); /* takes a zeroed one */

/* Look at the next entry: c->rep and c->def. At the end of the chunk rep is 0 and def -1. */
fw_status fw_parquet_column_peek(fw_parquet_column *c);
/* Take it; *value is only set when c->def was the column's highest. */
fw_status fw_parquet_column_take(fw_parquet_column *c, fw_parquet_value *value);

#endif
