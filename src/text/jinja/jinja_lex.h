/* A template's text -> tokens. White space is dealt with here, as transformers sets Jinja up: trim_blocks (the line
 * break after a block goes), lstrip_blocks (blanks before a block at the start of its line go), - and + marks, and one
 * line break at the end of the template goes. Source: the Jinja template designer manual. */
#ifndef FW_TEXT_JINJA_LEX_H
#define FW_TEXT_JINJA_LEX_H

#include "text/jinja/jinja_memory.h"

typedef enum fw_jinja_token_kind {
    FW_JINJA_T_DATA,
    FW_JINJA_T_OUTPUT_START, /* {{ */
    FW_JINJA_T_OUTPUT_END,
    FW_JINJA_T_BLOCK_START, /* {% */
    FW_JINJA_T_BLOCK_END,
    FW_JINJA_T_NAME,
    FW_JINJA_T_STRING,
    FW_JINJA_T_INT,
    FW_JINJA_T_FLOAT,
    FW_JINJA_T_OPERATOR, /* op[]: "+", "==", ... */
    FW_JINJA_T_END,
} fw_jinja_token_kind;

typedef struct fw_jinja_token {
    fw_jinja_token_kind kind;
    int line;
    char op[3];
    const char *text; /* data, names, and strings with their escapes resolved */
    size_t bytes;
    int64_t integer;
    double real;
} fw_jinja_token;

typedef struct fw_jinja_tokens {
    fw_jinja_token *token; /* the last is FW_JINJA_T_END */
    size_t n, cap;
} fw_jinja_tokens;

enum { FW_JINJA_SOURCE_MAX_BYTES = 1 << 20 };

/* Everything is taken from memory. Errors: FW_ERR_INPUT ("where:line: ..."), FW_ERR_NOMEM. */
fw_status fw_jinja_lex(fw_jinja_memory *memory, fw_jinja_tokens *out, const char *source, size_t source_bytes,
                       const char *where);

#endif
