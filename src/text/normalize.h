/* The steps that tokenizer.json lists under normalizer, and the way back from each byte to the text before them. */
#ifndef FW_TEXT_NORMALIZE_H
#define FW_TEXT_NORMALIZE_H

#include "base/strbuf.h"
#include "text/regex.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum fw_norm_kind {
    FW_NORM_NFC,
    FW_NORM_NFD,
    FW_NORM_NFKC,
    FW_NORM_NFKD,
    FW_NORM_LOWERCASE,
    FW_NORM_STRIP,          /* white space at the ends: left, right */
    FW_NORM_STRIP_ACCENTS,  /* combining marks go */
    FW_NORM_NMT,            /* controls go, odd white space becomes a space */
    FW_NORM_BYTE_LEVEL,     /* each byte becomes its printable character (text/vocab.h) */
    FW_NORM_PREPEND,        /* `with` before a text that is not empty */
    FW_NORM_REPLACE_STRING, /* each `find` becomes `with` */
    FW_NORM_REPLACE_REGEX,
} fw_norm_kind;

typedef struct fw_norm_step {
    fw_norm_kind kind;
    bool left, right;
    fw_regex *regex;
    char *find, *with;
    size_t find_bytes, with_bytes;
} fw_norm_step;

enum { FW_NORM_STEP_MAX = 16 };

typedef struct fw_normalizer {
    fw_norm_step step[FW_NORM_STEP_MAX];
    int step_n;
    bool wants_head; /* fw_normal.head_bytes is asked for */
} fw_normalizer;

void fw_normalizer_fini(fw_normalizer *normalizer);

/* A stretch of a step's output: a copy of its input (`same`), or what the input's became. */
typedef struct fw_norm_span {
    size_t start;    /* in the output */
    size_t original; /* in the input */
    bool same;
} fw_norm_span;

/* One step's output as edits of its input, which come in the order of the text. */
typedef struct fw_norm_layer {
    const char *input;
    size_t input_bytes;
    size_t copied;  /* the input before this is in the copy */
    fw_strbuf copy; /* the output; used only when something changed */
    fw_norm_span *span;
    size_t span_n, span_cap;
    size_t hint;                    /* span of the last question: they come with rising offsets */
    size_t head_bytes, head_copied; /* of the input, and of the copy so far: see fw_normal.head_bytes */
} fw_norm_layer;

/* The result and its scratch. Zero-initialise, reuse, release with fw_normal_fini. */
typedef struct fw_normal {
    const char *text; /* the normalised text: the caller's, or a layer's copy */
    size_t bytes;
    fw_norm_layer layer[FW_NORM_STEP_MAX]; /* of the steps that changed something */
    int layer_n;
    /* So many bytes at the beginning belong to the first character of the text, by the reference's book-keeping: what
     * replaces a match belongs to its last character, what was put in to the one before it. */
    size_t head_bytes;
    int32_t *code; /* scratch */
    size_t code_cap;
    fw_strbuf scratch, shape;
} fw_normal;

/* text is valid UTF-8 and must live as long as the result is used. Errors: FW_ERR_NOMEM; FW_ERR_INPUT of a regex. */
fw_status fw_normalize(fw_normal *out, const fw_normalizer *normalizer, fw_regex_scratch *regex, const char *text,
                       size_t text_bytes);
/* Offset in the original of byte `at` of the normalised text: exact where text was not changed, else the start of the
 * changed stretch. Quick when `at` rises from call to call. */
size_t fw_normal_original(fw_normal *normal, size_t at);
void fw_normal_fini(fw_normal *normal);

/* For the steps: input[start .. end) becomes `with`, which belongs to the character at start, or to that at `owner`
 * (SIZE_MAX: the step sees to head_copied itself). */
fw_status fw_norm_edit(fw_norm_layer *layer, size_t start, size_t end, const char *with, size_t with_bytes);
fw_status fw_norm_edit_owned(fw_norm_layer *layer, size_t start, size_t end, const char *with, size_t with_bytes,
                             size_t owner);
/* normalize_unicode.c: the four normal forms. */
fw_status fw_norm_unicode(fw_normal *normal, fw_norm_layer *layer, fw_norm_kind form);
/* Does it neither change nor join with a neighbour in any normal form? */
bool fw_norm_is_inert(uint32_t code);
/* normalize_head.c: how many bytes of the normal form of `text` belong to its first head_bytes bytes. */
fw_status fw_norm_unicode_head(size_t *bytes, fw_norm_kind form, const char *text, size_t text_bytes,
                               size_t head_bytes);
/* normalize_steps.c: all others. */
fw_status fw_norm_run_step(fw_normal *normal, fw_norm_layer *layer, const fw_norm_step *step, fw_regex_scratch *regex);

#endif
