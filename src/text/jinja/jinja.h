/* Jinja, as far as chat templates and the reference's sandbox go: parse once, render often.
 *
 * The language is that of Jinja 3.1 with transformers' settings and additions; text that it writes equals what
 * apply_chat_template(tokenize=False) gives, byte for byte, and each byte carries its origin (jinja_origin.h).
 * A template is a program from outside: its steps, depth and memory are bounded (in proportion to the conversation), so
 * a loop or recursion without end and an endless output are errors that name the template's line.
 * Refused by name: include, import, extends, autoescape; ints of more than 64 bits.
 * Source: Jinja, "Template Designer Documentation"; transformers, "Chat templates". */
#ifndef FW_TEXT_JINJA_H
#define FW_TEXT_JINJA_H

#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_origin.h"

#include <jansson.h>
#include <time.h>

/* How assistant messages are shown, where it is not as transformers shows them: without a content that is null or missing,
 * with the arguments of calls as objects. */
enum {
    FW_JINJA_CONTENT_EMPTY = 1,  /* a missing content is an empty text */
    FW_JINJA_CONTENT_NONE = 2,   /* a missing content is none, and so is an empty one beside calls */
    FW_JINJA_ARGUMENTS_TEXT = 4, /* arguments are texts of JSON */
};

/* What a rendering gets. The JSON is borrowed. Missing or null: undefined for the variables, none for tools and
 * documents. */
typedef struct fw_jinja_input {
    const json_t *messages; /* an array of objects */
    const json_t *tools, *documents;
    const json_t *variables[2]; /* objects; of a name that both have the second's value counts */
    const json_t *special;      /* an object of special tokens: they are the template's own text */
    bool add_generation_prompt;
    unsigned forms; /* FW_JINJA_CONTENT_EMPTY, ... together */
    time_t now;     /* for strftime_now */
} fw_jinja_input;

/* The result lies in *memory: valid until that is cleared. */
typedef struct fw_jinja_output {
    const char *text;
    size_t bytes;
    const fw_jinja_origin *origin; /* of each byte, or NULL: all have `uniform` */
    fw_jinja_origin uniform;
    bool prints_python; /* arguments that are an object, or a content that is none, were written as Python does */
} fw_jinja_output;

/* Clears and fills *memory, whose limit is set here. Errors: FW_ERR_INPUT ("where:line: ..."), FW_ERR_NOMEM. */
fw_status fw_jinja_render(fw_jinja_output *out, fw_jinja_memory *memory, const fw_jinja_program *program,
                          const fw_jinja_input *input);

#endif
