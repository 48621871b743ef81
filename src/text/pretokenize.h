/* Cutting text into words before BPE: the steps that tokenizer.json lists under pre_tokenizer. */
#ifndef FW_TEXT_PRETOKENIZE_H
#define FW_TEXT_PRETOKENIZE_H

#include "text/regex.h"

#include <stdint.h>

typedef enum fw_pre_kind {
    FW_PRE_SPLIT_REGEX,  /* Split with a regex; also ByteLevel with use_regex */
    FW_PRE_SPLIT_STRING, /* Split with a fixed string */
    FW_PRE_DIGITS,       /* Digits: runs of digits, or each digit alone */
    FW_PRE_PREFIX_SPACE, /* ByteLevel with add_prefix_space: a space before what has none */
} fw_pre_kind;

/* What becomes of the matches (all but MERGED: pieces of their own). */
typedef enum fw_split_behavior {
    FW_SPLIT_ISOLATED,
    FW_SPLIT_REMOVED,
    FW_SPLIT_CONTIGUOUS, /* neighbouring matches are one piece */
    FW_SPLIT_MERGED_WITH_PREVIOUS,
    FW_SPLIT_MERGED_WITH_NEXT,
} fw_split_behavior;

typedef struct fw_pre_step {
    fw_pre_kind kind;
    fw_split_behavior behavior;
    bool invert; /* matches and the rest change places */
    fw_regex *regex;
    char *string; /* FW_PRE_SPLIT_STRING */
    size_t string_bytes;
} fw_pre_step;

enum { FW_PRE_STEP_MAX = 16 };

/* A piece of text on its way. `shape` is the text in which newer code points are replaced by stand-ins
 * (text/unicode.h), byte for byte in place: regexes look at it, BPE takes `text`. */
typedef struct fw_piece {
    const char *text, *shape;
    size_t bytes;
    size_t start;  /* where it starts in the normalised stretch */
    bool prefixed; /* its first byte is a space that is not in the stretch */
} fw_piece;

typedef fw_status (*fw_piece_fn)(void *context, const fw_piece *word);

/* Call word_fn for each word of the piece, in order, after steps[0..step_n). */
typedef struct fw_pretokenizer {
    const fw_pre_step *step;
    int step_n;
    fw_regex_scratch *scratch;
    fw_piece_fn word_fn;
    void *context;
} fw_pretokenizer;

fw_status fw_pretokenize(const fw_pretokenizer *pre, const fw_piece *piece);

#endif
