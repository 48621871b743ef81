/* The steps that tokenizer.json lists under decoder: the spellings of tokens become text. */
#ifndef FW_TEXT_DECODE_STEPS_H
#define FW_TEXT_DECODE_STEPS_H

#include "base/strbuf.h"
#include "text/regex.h"

#include <stdint.h>

typedef enum fw_decode_kind {
    FW_DECODE_BYTE_LEVEL,     /* printable characters become their bytes, over all tokens */
    FW_DECODE_BYTE_FALLBACK,  /* runs of tokens <0x00>..<0xFF> become their bytes */
    FW_DECODE_FUSE,           /* all tokens become one */
    FW_DECODE_STRIP,          /* up to `left` times `find` from the start of each token, up to `right` from its end */
    FW_DECODE_REPLACE_STRING, /* in each token `find` becomes `with` */
    FW_DECODE_REPLACE_REGEX,
    FW_DECODE_METASPACE,   /* `find` becomes a space; in the first token it goes when it was put there (`left`) */
    FW_DECODE_WORD_SUFFIX, /* BPEDecoder: `find` becomes a space, in the last token nothing */
} fw_decode_kind;

typedef struct fw_decode_step {
    fw_decode_kind kind;
    uint32_t left, right;
    fw_regex *regex;
    char *find, *with;
    size_t find_bytes, with_bytes;
} fw_decode_step;

enum { FW_DECODE_STEP_MAX = 16 };

typedef struct fw_decode_steps {
    fw_decode_step step[FW_DECODE_STEP_MAX];
    int step_n;
    bool joins_with_space; /* there is no decoder: tokens are joined by spaces */
} fw_decode_steps;

void fw_decode_steps_fini(fw_decode_steps *steps);

/* Spellings one after the other, and where each ends. Zero-initialise; release with fw_token_list_fini. */
typedef struct fw_token_list {
    fw_strbuf text;
    size_t *end;
    size_t n, cap;
} fw_token_list;

/* What was appended to `text` since the last token is a token. */
fw_status fw_token_list_close(fw_token_list *list);
void fw_token_list_fini(fw_token_list *list);

/* Append the text of the tokens, which the steps change in place. Errors: FW_ERR_NOMEM; FW_ERR_INPUT of a regex. */
fw_status fw_decode_run(const fw_decode_steps *steps, fw_token_list *tokens, fw_strbuf *out);

#endif
