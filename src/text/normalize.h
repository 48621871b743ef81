/* Unicode normalisation as the reference does it, and the way back from each byte to the text before it. */
#ifndef FW_TEXT_NORMALIZE_H
#define FW_TEXT_NORMALIZE_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum fw_norm_form { FW_NORM_NONE, FW_NORM_NFC, FW_NORM_NFD, FW_NORM_NFKC, FW_NORM_NFKD } fw_norm_form;

/* A stretch of normalised text: a copy of the original (`same`), or what the original's became. */
typedef struct fw_norm_span {
    size_t start;    /* in the normalised text */
    size_t original; /* in the text before */
    bool same;
} fw_norm_span;

/* The result and its scratch. Zero-initialise, reuse, release with fw_normal_fini. */
typedef struct fw_normal {
    fw_strbuf copy;   /* used only when something changed */
    const char *text; /* the normalised text: the caller's, or copy */
    size_t bytes;
    fw_norm_span *span; /* only when it is not the caller's text */
    size_t span_n, span_cap;
    int32_t *code; /* scratch */
    size_t code_cap;
} fw_normal;

/* text is valid UTF-8 and must live as long as the result is used. Errors: FW_ERR_NOMEM. */
fw_status fw_normalize(fw_normal *out, fw_norm_form form, const char *text, size_t text_bytes);
/* Offset in the original of byte `at` of the normalised text: exact where text was not changed, else the
 * start of the changed stretch. *hint remembers the place between calls with rising `at`: start with 0. */
size_t fw_normal_original(const fw_normal *normal, size_t at, size_t *hint);
void fw_normal_fini(fw_normal *normal);

#endif
