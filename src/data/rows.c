#include "data/rows.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/decompress.h"
#include "data/parquet/parquet.h"
#include "data/rows_parts.h"

#include <stdbool.h>
#include <string.h>

/* What the file is called for its format: without the ending of a compression. */
static fw_status bare_name(char **out, const char *path, fw_compression compression) {
    size_t n = strlen(path);
    if (compression == FW_COMPRESSION_GZIP && fw_format_has_extension(path, ".gz")) n -= 3;
    if (compression == FW_COMPRESSION_ZSTD && fw_format_has_extension(path, ".zst")) n -= 4;
    return fw_strndup(out, path, n);
}

/* Do elements of an array stand on one line, as programs write it that do not indent? Then a line says nothing. */
static bool share_lines(const fw_records *records) {
    for (size_t i = 1; i < records->n; i++)
        if (records->record[i].line == records->record[i - 1].line) return true;
    return false;
}

static fw_status split(fw_rows *r, const char *bare) {
    size_t start;
    FW_TRY(fw_format_find(&r->format, &start, r->name, bare, r->text, r->text_bytes));
    if (fw_format_is_blank(r->text + start, r->text_bytes - start)) return FW_OK; /* a shard without rows */
    switch (r->format) {
    case FW_FORMAT_JSONL: return fw_split_lines(&r->records, r->text, start, r->text_bytes);
    case FW_FORMAT_JSON:
        FW_TRY(fw_split_array(&r->records, r->name, r->text, start, r->text_bytes));
        r->shares_lines = share_lines(&r->records);
        return FW_OK;
    case FW_FORMAT_TEXT: return fw_split_text(&r->records, r->options.text_unit, r->text, start, r->text_bytes);
    case FW_FORMAT_CSV: return fw_csv_split(r, bare, start);
    default: return fw_parquet_open(&r->parquet, r->name, r->text, r->text_bytes, r->options.text_field);
    }
}

/* r->name and r->text are set. */
static fw_status open_text(fw_rows *r, const fw_rows_options *options) {
    if (options != NULL) r->options = *options;
    fw_status status;
    char *bare = NULL;
    fw_compression compression = fw_compression_find(r->text, r->text_bytes);
    FW_TRY(fw_strdup(&r->text_field, r->options.text_field != NULL ? r->options.text_field : "text"));
    r->options.text_field = r->text_field;
    FW_TRY(bare_name(&bare, r->name, compression));
    if (compression != FW_COMPRESSION_NONE) {
        FW_TRY_OR(fw_decompress(&r->unpacked, compression, r->name, r->text, r->text_bytes, r->options.stop), done);
        r->text = r->unpacked.data != NULL ? (const char *)r->unpacked.data : "";
        r->text_bytes = r->unpacked.bytes;
    }
    FW_TRY_OR(split(r, bare), done);
done:
    fw_free(bare);
    return status;
}

fw_status fw_rows_open_memory(fw_rows **out, const char *name, const void *bytes, size_t n_bytes,
                              const fw_rows_options *options) {
    *out = NULL;
    fw_rows *r;
    fw_status status;
    FW_TRY(FW_NEW(r));
    FW_TRY_OR(fw_strdup(&r->name, name), failed);
    r->text = n_bytes ? bytes : "";
    r->text_bytes = n_bytes;
    FW_TRY_OR(open_text(r, options), failed);
    *out = r;
    return FW_OK;
failed:
    fw_rows_close(r);
    return status;
}

fw_status fw_rows_open(fw_rows **out, const char *path, const fw_rows_options *options) {
    *out = NULL;
    fw_mapping mapping;
    FW_TRY(fw_file_map(&mapping, path));
    fw_status status = fw_rows_open_memory(out, path, mapping.data, mapping.bytes, options);
    if (status != FW_OK) {
        fw_file_unmap(&mapping);
        return status;
    }
    (*out)->mapping = mapping;
    return FW_OK;
}

void fw_rows_close(fw_rows *r) {
    if (r == NULL) return;
    fw_parquet_close(r->parquet);
    if (r->mapping.data) fw_file_unmap(&r->mapping);
    if (r->unpacked.data) fw_file_unmap(&r->unpacked);
    for (size_t i = 0; i < r->column_n; i++) fw_free(r->column[i]);
    fw_free(r->column);
    fw_free(r->records.record);
    fw_free(r->text_field);
    fw_free(r->name);
    fw_free(r);
}

int64_t fw_rows_n(const fw_rows *r) {
    int64_t n = r->format == FW_FORMAT_PARQUET ? fw_parquet_row_n(r->parquet) : (int64_t)(r->records.n - r->header_n);
    return r->options.max_n > 0 && n > r->options.max_n ? r->options.max_n : n;
}

const char *fw_rows_name(const fw_rows *r) { return r->name; }
fw_format fw_rows_format(const fw_rows *r) { return r->format; }

int64_t fw_rows_bytes(const fw_rows *r, int64_t first, int64_t last) {
    if (last <= first) return 0;
    if (r->format == FW_FORMAT_PARQUET) return fw_parquet_row_bytes(r->parquet) * (last - first);
    const fw_record *record = r->records.record + r->header_n;
    return (int64_t)(record[last - 1].offset + record[last - 1].bytes - record[first].offset);
}

void fw_rows_pass(const fw_rows *r, int64_t index) {
    const fw_mapping *m = r->unpacked.data != NULL ? &r->unpacked : &r->mapping;
    if (m->data == NULL) return;
    size_t end = m->bytes; /* of a Parquet file all may go: what is read again comes again */
    if (r->format != FW_FORMAT_PARQUET && index < fw_rows_n(r))
        end = r->records.record[(size_t)index + r->header_n].offset;
    fw_file_unmap_pages(m, 0, end);
}

void fw_row_cursor_init(fw_row_cursor *cursor, const fw_rows *rows) { *cursor = (fw_row_cursor){.rows = rows}; }

void fw_row_cursor_fini(fw_row_cursor *cursor) {
    fw_parquet_cursor_destroy(cursor->parquet);
    *cursor = (fw_row_cursor){0};
}

fw_status fw_row_get(fw_row_cursor *cursor, int64_t index, json_t **row, fw_row_place *place) {
    const fw_rows *r = cursor->rows;
    *row = NULL;
    *place = (fw_row_place){r->name, index + 1, FW_DROP_REASON_N};
    if (index < 0 || index >= fw_rows_n(r))
        return fw_fail(FW_ERR_INTERNAL, "%s has %lld rows; number %lld was asked for", r->name, (long long)fw_rows_n(r),
                       (long long)index);
    if (r->format == FW_FORMAT_PARQUET) {
        if (cursor->parquet == NULL) FW_TRY(fw_parquet_cursor_create(&cursor->parquet, r->parquet));
        return fw_parquet_cursor_get(cursor->parquet, index, row, place);
    }
    const fw_record *record = &r->records.record[(size_t)index + r->header_n];
    if (!r->shares_lines) place->line = (int64_t)record->line;
    if (record->bytes > FW_ROW_BYTES_MAX)
        return fw_row_refuse(place, FW_DROP_CONTENT,
                             "the row has %zu MiB, and at most %d are read; make several of it%s", record->bytes >> 20,
                             FW_ROW_BYTES_MAX >> 20,
                             r->format == FW_FORMAT_TEXT ? " (--sample_by line or paragraph cuts plain text)" : "");
    switch (r->format) {
    case FW_FORMAT_CSV: return fw_csv_read_row(r, record, row, place);
    case FW_FORMAT_TEXT: return fw_text_read_row(r, record, row, place);
    default: return fw_json_read_row(r, record, row, place);
    }
}
