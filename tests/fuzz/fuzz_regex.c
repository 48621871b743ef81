/* A regex of a tokenizer file up to the first line break, then text to match it on. */
#include "text/regex.h"
#include "text/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = memchr(data, '\n', size);
    if (end == NULL) return 0;
    size_t pattern_bytes = (size_t)(end - data), text_bytes = size - pattern_bytes - 1;
    const char *text = (const char *)end + 1;
    if (memchr(data, 0, pattern_bytes) || fw_utf8_find_invalid((const char *)data, pattern_bytes) < pattern_bytes ||
        fw_utf8_find_invalid(text, text_bytes) < text_bytes)
        return 0; /* the callers have checked this */
    char *pattern = malloc(pattern_bytes + 1);
    if (pattern == NULL) abort();
    memcpy(pattern, data, pattern_bytes);
    pattern[pattern_bytes] = 0;
    fw_regex *regex;
    fw_regex_scratch *scratch;
    if (fw_regex_scratch_create(&scratch) != FW_OK) abort();
    if (fw_regex_create(&regex, pattern, "fuzz") == FW_OK) {
        bool found;
        size_t start, stop;
        for (size_t from = 0; from <= text_bytes; from = stop > from ? stop : from + 1) {
            while (from < text_bytes && ((unsigned char)text[from] & 0xc0) == 0x80) from++;
            if (fw_regex_find(regex, scratch, text, text_bytes, from, &found, &start, &stop) != FW_OK || !found) break;
            if (start < from || stop < start || stop > text_bytes) abort();
        }
        fw_regex_destroy(regex);
    }
    fw_regex_scratch_destroy(scratch);
    free(pattern);
    return 0;
}
