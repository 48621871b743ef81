/* What the parts of the parser share: jinja_parse.c (statements), jinja_parse_expr.c (operators), jinja_parse_value.c. */
#ifndef FW_TEXT_JINJA_PARSER_H
#define FW_TEXT_JINJA_PARSER_H

#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_lex.h"

/* Nodes deeper than this are refused; rendering goes as deep as they do. */
enum { FW_JINJA_NODE_DEPTH_MAX = 150 };

typedef struct fw_jinja_parser {
    fw_jinja_program *program;
    fw_jinja_memory *memory; /* the program's */
    const fw_jinja_token *at;
    int depth;                 /* of the recursion */
    int loop_depth;            /* for loops around this place, inside the innermost macro */
    fw_jinja_macro_def *macro; /* the innermost one, or NULL; outer ones below */
    fw_jinja_macro_def *macros[FW_JINJA_NODE_DEPTH_MAX + 1];
    int macro_n;
} fw_jinja_parser;

/* A list of nodes that grows. */
typedef struct fw_jinja_nodes {
    fw_jinja_node **node;
    size_t n, cap;
} fw_jinja_nodes;
fw_status fw_jinja_nodes_add(fw_jinja_parser *p, fw_jinja_nodes *nodes, fw_jinja_node *node);

fw_status fw_jinja_new_node(fw_jinja_parser *p, fw_jinja_node **out, fw_jinja_node_kind kind, int line);
/* Interned. */
fw_status fw_jinja_intern(fw_jinja_program *program, const fw_jinja_name **out, const char *text, size_t bytes);

#define fw_jinja_syntax_error(p, ...) fw_jinja_syntax_error_at((p), __FILE__, __func__, __LINE__, __VA_ARGS__)
fw_status fw_jinja_syntax_error_at(const fw_jinja_parser *p, const char *file, const char *function, int source_line,
                                   const char *format, ...) __attribute__((format(printf, 5, 6), cold));
/* How messages call a token. Valid until the next call of the thread. */
const char *fw_jinja_token_name(const fw_jinja_token *token);

static inline bool fw_jinja_at_name(const fw_jinja_parser *p, const char *name) {
    size_t n = __builtin_strlen(name);
    return p->at->kind == FW_JINJA_T_NAME && p->at->bytes == n && __builtin_memcmp(p->at->text, name, n) == 0;
}
static inline bool fw_jinja_at_op(const fw_jinja_parser *p, const char *op) {
    return p->at->kind == FW_JINJA_T_OPERATOR && __builtin_strcmp(p->at->op, op) == 0;
}
static inline bool fw_jinja_skip_name(fw_jinja_parser *p, const char *name) {
    bool there = fw_jinja_at_name(p, name);
    p->at += there;
    return there;
}
static inline bool fw_jinja_skip_op(fw_jinja_parser *p, const char *op) {
    bool there = fw_jinja_at_op(p, op);
    p->at += there;
    return there;
}
fw_status fw_jinja_expect_op(fw_jinja_parser *p, const char *op);
fw_status fw_jinja_expect_name(fw_jinja_parser *p, const fw_jinja_name **name);

/* Every recursion goes through these two. */
fw_status fw_jinja_enter(fw_jinja_parser *p);
static inline void fw_jinja_leave(fw_jinja_parser *p) { p->depth--; }

/* with_if false: `a if b else c` is not read here. */
fw_status fw_jinja_parse_expression(fw_jinja_parser *p, fw_jinja_node **out, bool with_if);
/* a or a, b, c; end_name: a word that ends it, or NULL. */
fw_status fw_jinja_parse_tuple(fw_jinja_parser *p, fw_jinja_node **out, bool with_if, const char *end_name,
                               bool in_parentheses);
/* What may stand left of = (namespaces: x.y too) or after for. */
fw_status fw_jinja_parse_target(fw_jinja_parser *p, fw_jinja_node **out, const char *end_name, bool namespaces);
/* jinja_names.c: fill `unset` of every body. */
fw_status fw_jinja_find_unset(fw_jinja_program *program);
/* | name(arguments) ...; in front: without the first |. */
fw_status fw_jinja_parse_filters(fw_jinja_parser *p, fw_jinja_node **node, bool in_front);

/* jinja_parse_value.c: a value with its sign and what follows it; a name, literal, list or parenthesis alone. */
fw_status fw_jinja_parse_unary(fw_jinja_parser *p, fw_jinja_node **out, bool with_filter);
fw_status fw_jinja_parse_primary(fw_jinja_parser *p, fw_jinja_node **out, bool namespaces);
/* A node over a and b (b may be NULL in deepen): a chain such as a + b + c makes a tree as deep as the chain is long. */
fw_status fw_jinja_deepen(fw_jinja_parser *p, fw_jinja_node *node, const fw_jinja_node *a, const fw_jinja_node *b);
fw_status fw_jinja_new_binary(fw_jinja_parser *p, fw_jinja_node **out, fw_jinja_node_kind kind, int line,
                              fw_jinja_node *a, fw_jinja_node *b);

#endif
