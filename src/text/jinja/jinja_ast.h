/* A parsed template. Nodes live in the program's memory and never change: any number of renderings may share them. */
#ifndef FW_TEXT_JINJA_AST_H
#define FW_TEXT_JINJA_AST_H

#include "text/jinja/jinja_value.h"

/* Names are interned: equal names are one object. */
typedef struct fw_jinja_name {
    const char *text;
    size_t bytes;
    struct fw_jinja_name *next;
    int depth; /* while blocks are looked at: the innermost one that refers to it, 0: none */
} fw_jinja_name;

typedef enum fw_jinja_node_kind {
    /* expressions */
    FW_JINJA_CONST,
    FW_JINJA_VARIABLE,
    FW_JINJA_TUPLE_OF, /* child[] */
    FW_JINJA_LIST_OF,
    FW_JINJA_DICT_OF,  /* child[]: key, value, key, value, ... */
    FW_JINJA_BINARY,   /* a op b */
    FW_JINJA_NEGATIVE, /* - a */
    FW_JINJA_POSITIVE, /* + a */
    FW_JINJA_NOT,
    FW_JINJA_AND,
    FW_JINJA_OR,
    FW_JINJA_COMPARE,   /* a, then child[i] compared by operators[i] with what is before it */
    FW_JINJA_CONCAT,    /* child[] joined by ~ */
    FW_JINJA_IF_ELSE,   /* a if b else c; c may be NULL */
    FW_JINJA_ATTRIBUTE, /* a.name */
    FW_JINJA_ITEM,      /* a[b] */
    FW_JINJA_SLICE,     /* a[child[0] : child[1] : child[2]], each may be NULL */
    FW_JINJA_CALL,      /* a(arguments) */
    FW_JINJA_FILTER,    /* a | name(arguments); a NULL: of a block */
    FW_JINJA_TEST,      /* a is name(arguments) */
    FW_JINJA_NS_TARGET, /* name.attribute on the left of = ; attribute in `attribute` */
    /* statements */
    FW_JINJA_DATA,       /* text of the template: value */
    FW_JINJA_OUTPUT,     /* {{ a }} */
    FW_JINJA_IF,         /* child[i] is the condition of bodies[i]; one body more is the else */
    FW_JINJA_FOR,        /* for a in b if c: bodies[0], else bodies[1] */
    FW_JINJA_SET,        /* a = b */
    FW_JINJA_SET_BLOCK,  /* a = bodies[0], through the filter b or NULL */
    FW_JINJA_WITH,       /* child[]: target, value, ...; bodies[0] */
    FW_JINJA_MACRO_DEF,  /* macro */
    FW_JINJA_CALL_BLOCK, /* macro is the caller; a is the call */
    FW_JINJA_FILTER_BLOCK,
    FW_JINJA_BLOCK, /* {% block %} and the like: bodies[0] in a scope of its own */
    FW_JINJA_GENERATION_BLOCK,
    FW_JINJA_BREAK,
    FW_JINJA_CONTINUE,
} fw_jinja_node_kind;

typedef enum fw_jinja_operator {
    FW_JINJA_ADD,
    FW_JINJA_SUB,
    FW_JINJA_MUL,
    FW_JINJA_DIV,
    FW_JINJA_FLOORDIV,
    FW_JINJA_MOD,
    FW_JINJA_POW,
    FW_JINJA_EQ,
    FW_JINJA_NE,
    FW_JINJA_LT,
    FW_JINJA_LE,
    FW_JINJA_GT,
    FW_JINJA_GE,
    FW_JINJA_IN,
    FW_JINJA_NOT_IN,
} fw_jinja_operator;

typedef struct fw_jinja_node fw_jinja_node;

/* A body that is a block of its own has variables of its own: unset are those that have no value at first. */
typedef struct fw_jinja_body {
    fw_jinja_node **node;
    size_t n;
    const fw_jinja_name **unset;
    size_t unset_n;
} fw_jinja_body;

/* What stands in the parentheses of a call. */
typedef struct fw_jinja_arguments {
    fw_jinja_node **value;
    size_t n;
    struct fw_jinja_keyword {
        const fw_jinja_name *name;
        fw_jinja_node *value;
    } * keyword;
    size_t keyword_n;
    fw_jinja_node *rest, *rest_keywords; /* *rest, **rest_keywords; or NULL */
} fw_jinja_arguments;

typedef struct fw_jinja_macro_def {
    const fw_jinja_name *name; /* NULL: the block of a call */
    const fw_jinja_name **parameter;
    size_t parameter_n;
    fw_jinja_node **preset; /* default of the last preset_n parameters */
    size_t preset_n;
    fw_jinja_body body;
    bool uses_caller, uses_varargs, uses_kwargs; /* names that appear in the body */
} fw_jinja_macro_def;

struct fw_jinja_node {
    fw_jinja_node_kind kind;
    fw_jinja_operator op;
    bool recursive; /* a for */
    int line, depth;
    const fw_jinja_name *name, *attribute;
    fw_jinja_value value;
    fw_jinja_node *a, *b, *c;
    fw_jinja_node **child;
    fw_jinja_operator *operators;
    size_t child_n;
    fw_jinja_body *bodies;
    size_t body_n;
    fw_jinja_arguments *arguments; /* NULL: none */
    fw_jinja_macro_def *macro;
};

typedef struct fw_jinja_program {
    fw_jinja_memory memory;
    const char *where; /* what messages call the template */
    fw_jinja_body body;
    fw_jinja_name *name[256]; /* all of them, by hash */
    const fw_jinja_name *loop, *caller, *varargs, *kwargs;
    bool has_generation; /* some {% generation %} is in it */
} fw_jinja_program;

/* Parse a template as transformers does: trim_blocks, lstrip_blocks, loop controls, generation blocks.
 * Errors: FW_ERR_INPUT ("where:line: ..."), FW_ERR_NOMEM. */
fw_status fw_jinja_program_create(fw_jinja_program **out, const char *source, size_t source_bytes, const char *where);
void fw_jinja_program_destroy(fw_jinja_program *program); /* takes NULL */

#endif
