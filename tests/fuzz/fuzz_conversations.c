/* Any bytes as a file of conversations: an error or conversations with sound roles, never a crash. */
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_reader *r;
    if (fw_reader_open_memory(&r, "fuzz.jsonl", data, size, NULL) != FW_OK) return 0;
    fw_row_cursor cursor;
    fw_row_cursor_init(&cursor, fw_reader_rows(r));
    for (int64_t i = 0; i < fw_reader_n(r); i++) {
        fw_conversation c;
        fw_row_place place;
        if (fw_reader_get(r, &cursor, i, &c, &place) != FW_OK) {
            if (place.reason >= FW_DROP_ROW_N) abort(); /* every fault of a row has a name */
            continue;
        }
        if ((c.message_n == 0) != c.is_text || c.line < 1 || c.prompt_bytes > c.text_bytes) abort();
        for (size_t k = 0; k < c.message_n; k++)
            if (strlen(c.message[k].role) < 4 || c.message[k].content[c.message[k].content_bytes] != 0) abort();
        fw_conversation_fini(&c);
    }
    fw_row_cursor_fini(&cursor);
    fw_reader_close(r);
    return 0;
}
