/* Conversations of one file: its rows (data/rows.h) in one of the shapes (data/shape.h).
 *
 * Which shape is found by looking at the rows, or said: all rows of a file have one shape, and what does not have it is
 * refused. Any number of threads may read at once, each with a cursor of its own. */
#ifndef FW_DATA_READER_H
#define FW_DATA_READER_H

#include "data/rows.h"
#include "data/shape.h"

typedef struct fw_reader_options {
    fw_rows_options rows;
    fw_shape shape; /* FW_SHAPE_AUTO: look at the rows */
} fw_reader_options;

typedef struct fw_reader fw_reader;

/* options may be NULL. Errors: those of fw_rows_open. */
fw_status fw_reader_open(fw_reader **out, const char *path, const fw_reader_options *options);
/* The same from memory, which is borrowed until close; `name` is what messages call it. */
fw_status fw_reader_open_memory(fw_reader **out, const char *name, const void *bytes, size_t n_bytes,
                                const fw_reader_options *options);
void fw_reader_close(fw_reader *r); /* takes NULL */

const fw_rows *fw_reader_rows(const fw_reader *r);
int64_t fw_reader_n(const fw_reader *r); /* rows, at least 1 */
/* What was found or said; FW_SHAPE_AUTO: none of the first rows had a shape that is known. */
fw_shape fw_reader_shape(const fw_reader *r);

/* Conversation `index`; cursor: fw_row_cursor_init(&cursor, fw_reader_rows(r)). Errors: FW_ERR_INPUT; when
 * place->reason is not FW_DROP_REASON_N the fault is this row's, and others may be good. */
fw_status fw_reader_get(const fw_reader *r, fw_row_cursor *cursor, int64_t index, fw_conversation *out,
                        fw_row_place *place);

#endif
