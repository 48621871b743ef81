#include "support/scan_pair.h"

#include "text/unicode.h"
#include "text/utf8.h"

fw_status fw_scan_pairs_init(fw_scan_pairs *p) {
    *p = (fw_scan_pairs){0};
    fw_status status;
    FW_TRY_OR(fw_char_classes_create(&p->classes), done);
    FW_TRY_OR(fw_regex_scratch_create(&p->scratch), done);
    for (const char *pattern; p->n < FW_SCAN_PAIR_MAX && (pattern = fw_scan_pattern(p->n)) != NULL; p->n++) {
        p->pair[p->n] = (fw_scan_pair){pattern, fw_scan_find(pattern), NULL};
        FW_TRY_OR(fw_regex_create(&p->pair[p->n].regex, pattern, "test"), done);
    }
done:
    if (status != FW_OK) fw_scan_pairs_fini(p);
    return status;
}

void fw_scan_pairs_fini(fw_scan_pairs *p) {
    for (size_t i = 0; i < p->n; i++) fw_regex_destroy(p->pair[i].regex);
    fw_regex_scratch_destroy(p->scratch);
    fw_char_classes_destroy(p->classes);
    *p = (fw_scan_pairs){0};
}

fw_status fw_scan_pair_compare(const fw_scan_pairs *p, size_t index, const char *text, size_t text_bytes, bool *same,
                               size_t *at) {
    fw_strbuf copy = {0};
    const char *shape;
    fw_status status;
    *same = true;
    FW_TRY_OR(fw_unicode_shape(&shape, &copy, text, text_bytes), done);
    fw_regex_walk walk = {
        .regex = p->pair[index].regex, .scratch = p->scratch, .text = shape, .text_bytes = text_bytes};
    size_t from = 0;
    for (*at = 0; *same; ++*at) {
        bool found;
        size_t start = text_bytes, end = text_bytes, scanned = text_bytes;
        FW_TRY_OR(fw_regex_next(&walk, &found, &start, &end), done);
        for (uint32_t code; from < text_bytes; from += fw_utf8_next(&code, text + from)) {
            scanned = p->pair[index].scan(p->classes, text, text_bytes, from);
            if (scanned > from) break;
        }
        *same = found ? start == from && end == scanned : from == text_bytes;
        if (!found) break;
        from = scanned;
    }
done:
    fw_strbuf_fini(&copy);
    return status;
}
