/* Any text: the matchers written by hand and the regex library cut it in the same way. */
#include "support/scan_pair.h"
#include "text/utf8.h"

#include <stdlib.h>

static fw_scan_pairs pairs;

static void release(void) { fw_scan_pairs_fini(&pairs); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (pairs.n == 0) {
        if (fw_scan_pairs_init(&pairs) != FW_OK) abort();
        atexit(release);
    }
    const char *text = (const char *)data;
    if (fw_utf8_find_invalid(text, size) < size) return 0; /* encoding has refused it */
    for (size_t i = 0; i < pairs.n; i++) {
        bool same;
        size_t at;
        if (fw_scan_pair_compare(&pairs, i, text, size, &same, &at) != FW_OK || !same) abort();
    }
    return 0;
}
