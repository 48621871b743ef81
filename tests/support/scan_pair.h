/* A matcher written by hand beside the regex library with the same pattern. */
#ifndef FW_TESTS_SCAN_PAIR_H
#define FW_TESTS_SCAN_PAIR_H

#include "text/regex.h"
#include "text/scan.h"

#include <stdbool.h>

typedef struct fw_scan_pair {
    const char *pattern;
    fw_scan_fn scan;
    fw_regex *regex;
} fw_scan_pair;

enum { FW_SCAN_PAIR_MAX = 16 };

typedef struct fw_scan_pairs {
    fw_scan_pair pair[FW_SCAN_PAIR_MAX];
    size_t n;
    fw_char_classes *classes;
    fw_regex_scratch *scratch;
} fw_scan_pairs;

/* All patterns of text/scan.h. */
fw_status fw_scan_pairs_init(fw_scan_pairs *pairs);
void fw_scan_pairs_fini(fw_scan_pairs *pairs);

/* All matches of both in valid UTF-8. False: they differ, first at match *at. Errors: of the regex. */
fw_status fw_scan_pair_compare(const fw_scan_pairs *pairs, size_t index, const char *text, size_t text_bytes,
                               bool *same, size_t *at);

#endif
