#include "data/reader.h"

#include "base/alloc.h"

enum { ROWS_LOOKED_AT = 1000 };

struct fw_reader {
    fw_rows *rows;
    const char *text_field; /* borrowed from the options or a constant */
    fw_shape shape;
};

/* The first row that shows a shape decides. */
static fw_status find_shape(fw_reader *r) {
    fw_row_cursor cursor;
    fw_status status = FW_OK;
    fw_row_cursor_init(&cursor, r->rows);
    for (int64_t i = 0; i < ROWS_LOOKED_AT && i < fw_rows_n(r->rows) && r->shape == FW_SHAPE_AUTO; i++) {
        json_t *row;
        fw_row_place place;
        status = fw_row_get(&cursor, i, &row, &place);
        if (status == FW_ERR_INPUT) { /* said when the row is asked for */
            status = FW_OK;
            if (place.reason == FW_DROP_REASON_N) break;
            continue;
        }
        FW_TRY_OR(status, done);
        r->shape = fw_shape_find(row, r->text_field);
        json_decref(row);
    }
done:
    fw_row_cursor_fini(&cursor);
    return status;
}

static fw_status start(fw_reader **out, fw_rows *rows, const fw_reader_options *options) {
    fw_reader *r;
    fw_status status = FW_NEW(r);
    if (status != FW_OK) {
        fw_rows_close(rows);
        return status;
    }
    r->rows = rows;
    r->shape = options != NULL ? options->shape : FW_SHAPE_AUTO;
    r->text_field = options != NULL && options->rows.text_field != NULL ? options->rows.text_field : "text";
    status = find_shape(r);
    if (status == FW_OK)
        *out = r;
    else
        fw_reader_close(r);
    return status;
}

fw_status fw_reader_open(fw_reader **out, const char *path, const fw_reader_options *options) {
    fw_rows *rows;
    *out = NULL;
    FW_TRY(fw_rows_open(&rows, path, options != NULL ? &options->rows : NULL));
    return start(out, rows, options);
}

fw_status fw_reader_open_memory(fw_reader **out, const char *name, const void *bytes, size_t n_bytes,
                                const fw_reader_options *options) {
    fw_rows *rows;
    *out = NULL;
    FW_TRY(fw_rows_open_memory(&rows, name, bytes, n_bytes, options != NULL ? &options->rows : NULL));
    return start(out, rows, options);
}

void fw_reader_close(fw_reader *r) {
    if (r == NULL) return;
    fw_rows_close(r->rows);
    fw_free(r);
}

const fw_rows *fw_reader_rows(const fw_reader *r) { return r->rows; }
int64_t fw_reader_n(const fw_reader *r) { return fw_rows_n(r->rows); }
fw_shape fw_reader_shape(const fw_reader *r) { return r->shape; }

fw_status fw_reader_get(const fw_reader *r, fw_row_cursor *cursor, int64_t index, fw_conversation *out,
                        fw_row_place *place) {
    json_t *row;
    *out = (fw_conversation){0};
    FW_TRY(fw_row_get(cursor, index, &row, place));
    return fw_shape_read(out, r->shape, r->text_field, row, place);
}
