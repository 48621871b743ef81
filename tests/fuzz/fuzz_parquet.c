/* Any bytes as a Parquet file: an error or rows, never a crash, in time and memory that follow the size of the file. */
#include "data/parquet/parquet.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_parquet *p;
    fw_parquet_cursor *c;
    if (fw_parquet_open(&p, "fuzz.parquet", (const char *)data, size, "text") != FW_OK) return 0;
    if (fw_parquet_cursor_create(&c, p) == FW_OK) {
        for (int64_t i = 0; i < fw_parquet_row_n(p); i++) {
            json_t *row;
            fw_row_place place = {"fuzz.parquet", i + 1, FW_DROP_REASON_N};
            fw_status status = fw_parquet_cursor_get(c, i, &row, &place);
            if (status == FW_OK)
                json_decref(row);
            else if (place.reason == FW_DROP_REASON_N)
                break; /* the file is damaged: nobody reads on */
        }
        fw_parquet_cursor_destroy(c);
    }
    fw_parquet_close(p);
    return 0;
}
