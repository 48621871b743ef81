/* Cutting text into words before BPE: the steps that tokenizer.json lists under pre_tokenizer. */
#ifndef FW_TEXT_PRETOKENIZE_H
#define FW_TEXT_PRETOKENIZE_H

#include "base/strbuf.h"
#include "text/regex.h"
#include "text/scan.h"

#include <stdint.h>

typedef enum fw_pre_kind {
    /* cut: matches and the text between them become pieces by the step's behaviour */
    FW_PRE_SPLIT_REGEX,  /* Split with a regex; also ByteLevel with use_regex */
    FW_PRE_SPLIT_SCAN,   /* the same with a regex that text/scan.h knows */
    FW_PRE_SPLIT_STRING, /* Split with a fixed string */
    FW_PRE_DIGITS,       /* a match is a digit */
    FW_PRE_PUNCTUATION,  /* a match is a punctuation mark */
    FW_PRE_SPACES,       /* WhitespaceSplit: a match is a white space */
    FW_PRE_WORDS,        /* Whitespace: a match is a run of word characters, or of others that are no white space */
    /* rewrite */
    FW_PRE_PREFIX_SPACE, /* ByteLevel with add_prefix_space: a space before what has none */
    FW_PRE_METASPACE,    /* spaces become `string`; it is put before what does not begin with it, by `prepend` */
    FW_PRE_BYTE_LEVEL,   /* each byte becomes its printable character, where the model does not take bytes */
} fw_pre_kind;

/* What becomes of the matches (all but MERGED: pieces of their own). */
typedef enum fw_split_behavior {
    FW_SPLIT_ISOLATED,
    FW_SPLIT_REMOVED,
    FW_SPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
    FW_SPLIT_MERGED_WITH_PREVIOUS,
    FW_SPLIT_MERGED_WITH_NEXT,
} fw_split_behavior;

typedef enum fw_prepend { FW_PREPEND_ALWAYS, FW_PREPEND_FIRST, FW_PREPEND_NEVER } fw_prepend;

typedef struct fw_pre_step {
    fw_pre_kind kind;
    fw_split_behavior behavior;
    bool invert; /* matches and the rest change places */
    fw_prepend prepend;
    fw_regex *regex;
    fw_scan_fn scan;
    char *string; /* FW_PRE_SPLIT_STRING, FW_PRE_METASPACE */
    size_t string_bytes;
} fw_pre_step;

enum { FW_PRE_STEP_MAX = 16 };

typedef struct fw_pre_steps {
    fw_pre_step step[FW_PRE_STEP_MAX];
    int step_n;
    bool has_regex;           /* then pieces need a shape */
    fw_char_classes *classes; /* for scans; NULL when there are none */
} fw_pre_steps;

void fw_pre_steps_fini(fw_pre_steps *steps);

/* A piece of text on its way. `shape` is the text in which newer code points are replaced by stand-ins
 * (text/unicode.h), byte for byte in place: regexes look at it, BPE takes `text`. */
typedef struct fw_piece {
    const char *text, *shape;
    size_t bytes;
    size_t start;           /* where it starts in the normalised stretch */
    const uint32_t *origin; /* of each byte the place in the stretch, when the text was rewritten; else NULL */
    size_t head_bytes;      /* so many of its first bytes belong to the first character of the caller's whole text */
} fw_piece;

typedef fw_status (*fw_piece_fn)(void *context, const fw_piece *word);

/* Texts that steps rewrote, kept for the next piece. Zero-initialise; release with fw_pre_scratch_fini. */
typedef struct fw_pre_scratch {
    struct fw_pre_rewrite {
        fw_strbuf text, shape;
        uint32_t *origin;
        size_t origin_cap;
    } level[FW_PRE_STEP_MAX];
} fw_pre_scratch;

void fw_pre_scratch_fini(fw_pre_scratch *scratch);

/* Call word_fn for each word of the piece, in order, after all steps. */
typedef struct fw_pretokenizer {
    const fw_pre_steps *steps;
    fw_pre_scratch *scratch;
    fw_regex_scratch *regex;
    bool want_origin;
    fw_piece_fn word_fn;
    void *context;
} fw_pretokenizer;

fw_status fw_pretokenize(const fw_pretokenizer *pre, const fw_piece *piece);
/* pretokenize_rewrite.c: the piece as the step writes it, in the scratch of its level. */
fw_status fw_pre_rewrite(const fw_pretokenizer *pre, int index, const fw_piece *piece, fw_piece *out);

#endif
