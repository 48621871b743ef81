/* Rows of JSON, and plain text. */
#include "base/json.h"
#include "data/rows_parts.h"
#include "text/utf8.h"

#include <string.h>

/* Does an object begin on this line and end on a later one? Programs that print JSON for people write such files. */
static int goes_on(const fw_rows *r, const fw_record *record) {
    json_error_t error;
    const size_t left = r->text_bytes - record->offset;
    if (record != r->records.record || r->text[record->offset] != '{') return 0; /* said of the first row only */
    json_t *whole = json_loadb(r->text + record->offset, left, JSON_DISABLE_EOF_CHECK, &error);
    json_decref(whole);
    return whole != NULL && (size_t)error.position > record->bytes; /* so many bytes it took */
}

fw_status fw_json_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place) {
    fw_status status =
        fw_json_parse_at(row, r->text + record->offset, record->bytes, r->name, record->line, record->column);
    if (status != FW_ERR_INPUT) return status;
    place->reason = FW_DROP_JSON;
    if (r->format == FW_FORMAT_JSON) return status;
    char message[FW_TRAIL_MESSAGE_BYTES];
    strncpy(message, fw_trail_message(), sizeof message - 1);
    message[sizeof message - 1] = 0;
    if (record + 1 == r->records.record + r->records.n && r->records.cut_off)
        return fw_fail(FW_ERR_INPUT, "%s; this last line has no newline: is the file cut off?", message);
    if (goes_on(r, record))
        return fw_fail(FW_ERR_INPUT,
                       "%s; this object goes on over the next lines, but every line must hold one whole conversation: "
                       "\"jq -c . FILE > FILE.jsonl\" writes it so, or put [ and ] around a list of objects",
                       message);
    return fw_fail(FW_ERR_INPUT, "%s; every line must hold one whole conversation", message);
}

fw_status fw_text_to_json(json_t **out, const char *text, size_t text_bytes, size_t column, fw_row_place *place) {
    *out = NULL;
    size_t invalid = fw_utf8_find_invalid(text, text_bytes);
    if (invalid < text_bytes)
        return fw_row_refuse(place, FW_DROP_JSON, "not valid UTF-8 at byte %zu of the row (0x%02x)", column + invalid,
                             (unsigned char)text[invalid]);
    *out = json_stringn_nocheck(text, text_bytes);
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", place->file);
}

fw_status fw_text_read_row(const fw_rows *r, const fw_record *record, json_t **row, fw_row_place *place) {
    json_t *text;
    FW_TRY(fw_text_to_json(&text, r->text + record->offset, record->bytes, 1, place));
    *row = json_object();
    if (*row != NULL && json_object_set_new(*row, r->text_field, text) == 0) return FW_OK;
    json_decref(*row);
    *row = NULL;
    return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", r->name);
}
