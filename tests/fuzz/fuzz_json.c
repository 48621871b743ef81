/* The quick JSON reader against jansson: what it makes, jansson makes too, and it is the same value. */
#include "base/json.h"
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *quick = fw_json_read((const char *)data, size);
    if (quick == NULL) return 0;
    json_t *right =
        json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (right == NULL || !json_equal(quick, right)) abort();
    /* the order of keys counts too */
    char *quick_text = json_dumps(quick, JSON_ENCODE_ANY), *right_text = json_dumps(right, JSON_ENCODE_ANY);
    if (quick_text == NULL || right_text == NULL || strcmp(quick_text, right_text) != 0) abort();
    free(quick_text);
    free(right_text);
    json_decref(quick);
    json_decref(right);
    return 0;
}
