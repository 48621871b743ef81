/* Any bytes as a table, as plain text and as a compressed file: an error or rows. The first byte chooses. */
#include "data/rows.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"a.csv", "a.tsv", "a.txt", "a.jsonl.gz", "a.csv.zst", "a.json"};
    if (size == 0) return 0;
    const fw_rows_options options = {.text_unit = (fw_text_unit)(data[0] / 8 % 3), .max_n = 1000};
    fw_rows *r;
    if (fw_rows_open_memory(&r, names[data[0] % 8 % 6], data + 1, size - 1, &options) != FW_OK) return 0;
    fw_row_cursor cursor;
    fw_row_cursor_init(&cursor, r);
    for (int64_t i = 0; i < fw_rows_n(r); i++) {
        json_t *row;
        fw_row_place place;
        if (fw_row_get(&cursor, i, &row, &place) == FW_OK) json_decref(row);
    }
    fw_row_cursor_fini(&cursor);
    fw_rows_close(r);
    return 0;
}
