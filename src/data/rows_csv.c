/* Tables as text: RFC 4180, with a first line of names. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "data/rows_parts.h"
#include "data/shape.h"

#include <string.h>

/* Goes through one record, field by field. */
typedef struct fields {
    const char *at, *end;
    char delimiter;
    int done;
} fields;

/* The next field without its quotes; 0: there is none left. Refusals: a quote that is not closed, text after one. */
static fw_status next_field(fields *f, fw_strbuf *field, int *found, fw_row_place *place, const char *start) {
    fw_strbuf_clear(field);
    *found = !f->done;
    if (f->done) return FW_OK;
    if (f->at < f->end && *f->at == '"') {
        const char *opening = f->at++;
        for (;;) {
            const char *quote = memchr(f->at, '"', (size_t)(f->end - f->at));
            if (quote == NULL)
                return fw_row_refuse(place, FW_DROP_JSON, "the quote at byte %zu of the row is never closed",
                                     (size_t)(opening - start) + 1);
            FW_TRY(fw_strbuf_append(field, f->at, (size_t)(quote - f->at)));
            f->at = quote + 1;
            if (f->at == f->end || *f->at != '"') break;
            FW_TRY(fw_strbuf_putc(field, '"'));
            f->at++;
        }
        if (f->at < f->end && *f->at != f->delimiter)
            return fw_row_refuse(place, FW_DROP_JSON,
                                 "byte %zu of the row follows a closing quote; a quote in a quoted "
                                 "field is written twice",
                                 (size_t)(f->at - start) + 1);
    } else {
        const char *stop = memchr(f->at, f->delimiter, (size_t)(f->end - f->at));
        if (stop == NULL) stop = f->end;
        FW_TRY(fw_strbuf_append(field, f->at, (size_t)(stop - f->at)));
        f->at = stop;
    }
    if (f->at == f->end)
        f->done = 1;
    else
        f->at++;
    return FW_OK;
}

static fields start_fields(const fw_rows *r, const fw_record *record) {
    return (fields){r->text + record->offset, r->text + record->offset + record->bytes, r->delimiter, 0};
}

static fw_status add_column(fw_rows *r, const fw_strbuf *name) {
    FW_TRY(FW_GROW_ARRAY(r->column, r->column_n + 1));
    FW_TRY(fw_strndup(&r->column[r->column_n], fw_strbuf_text(name), name->len_bytes));
    r->column_n++;
    return FW_OK;
}

static fw_status read_names(fw_rows *r, int *known_n) {
    fw_row_place place = {r->name, (int64_t)r->records.record[0].line, FW_DROP_REASON_N};
    fields f = start_fields(r, &r->records.record[0]);
    fw_strbuf name = {0};
    fw_status status;
    *known_n = 0;
    for (int found = 1;;) {
        FW_TRY_OR(next_field(&f, &name, &found, &place, r->text + r->records.record[0].offset), done);
        if (!found) break;
        const int is_read = fw_shape_uses_key(fw_strbuf_text(&name), r->text_field);
        for (size_t i = 0; is_read && i < r->column_n; i++) {
            if (strcmp(r->column[i], fw_strbuf_text(&name)) != 0) continue;
            status =
                fw_fail(FW_ERR_INPUT, "%s: two columns are called %.100s; rename or remove one", r->name, r->column[i]);
            goto done;
        }
        FW_TRY_OR(add_column(r, &name), done);
        *known_n += is_read;
    }
done:
    fw_strbuf_fini(&name);
    return status;
}

static void forget_names(fw_rows *r) {
    for (size_t i = 0; i < r->column_n; i++) fw_free(r->column[i]);
    r->column_n = 0;
}

/* The delimiter is the one that gives names we know: comma, semicolon or tab. */
fw_status fw_csv_split(fw_rows *r, const char *bare, size_t start) {
    const char *delimiters = fw_format_has_extension(bare, ".tsv") ? "\t" : ",;\t";
    r->header_n = 1;
    for (const char *d = delimiters; *d; d++) {
        int known_n;
        r->delimiter = *d;
        r->records.n = 0;
        forget_names(r);
        FW_TRY(fw_split_csv(&r->records, r->text, start, r->text_bytes, *d, 1));
        FW_TRY(read_names(r, &known_n));
        r->records.n = 0;
        if (known_n > 0) return fw_split_csv(&r->records, r->text, start, r->text_bytes, *d, 0);
    }
    return fw_fail(FW_ERR_INPUT,
                   "%s: the first line of a table must name its columns, and none of its names is read (messages, "
                   "conversations, prompt, completion, instruction, output, text, ...)",
                   r->name);
}

fw_status fw_csv_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place) {
    fields f = start_fields(r, record);
    const char *start = r->text + record->offset;
    fw_strbuf field = {0};
    fw_status status = FW_OK;
    json_t *object = json_object(), *value;
    size_t n = 0;
    if (object == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", r->name);
    for (int found = 1;; n++) {
        const char *begins = f.at;
        FW_TRY_OR(next_field(&f, &field, &found, place, start), done);
        if (!found) break;
        if (n >= r->column_n || !fw_shape_uses_key(r->column[n], r->text_field)) continue;
        FW_TRY_OR(fw_text_to_json(&value, fw_strbuf_text(&field), field.len_bytes, (size_t)(begins - start) + 1, place),
                  done);
        if (json_object_set_new_nocheck(object, r->column[n], value) != 0) {
            status = fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", r->name);
            goto done;
        }
    }
    if (n != r->column_n)
        status =
            fw_row_refuse(place, FW_DROP_SHAPE, "the row has %zu fields, and the first line names %zu", n, r->column_n);
done:
    fw_strbuf_fini(&field);
    if (status == FW_OK)
        *row = object;
    else
        json_decref(object);
    return status;
}
