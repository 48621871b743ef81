/* Statements; and the parser's own helpers. */
#include "text/jinja/jinja_parser.h"

#include "base/alloc.h"
#include "text/jinja/jinja_unicode.h"

#include <stdio.h>
#include <string.h>

static fw_status parse_body(fw_jinja_parser *p, fw_jinja_body *out, const char *const *ends);

fw_status fw_jinja_syntax_error_at(const fw_jinja_parser *p, const char *file, const char *function, int source_line,
                                   const char *format, ...) {
    char message[400];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return fw_fail_at(FW_ERR_INPUT, file, function, source_line, "%s:%d: %s", p->program->where, p->at->line, message);
}

const char *fw_jinja_token_name(const fw_jinja_token *t) {
    static _Thread_local char text[64];
    switch (t->kind) {
    case FW_JINJA_T_DATA: return "text of the template";
    case FW_JINJA_T_OUTPUT_START: return "{{";
    case FW_JINJA_T_OUTPUT_END: return "}}";
    case FW_JINJA_T_BLOCK_START: return "{%";
    case FW_JINJA_T_BLOCK_END: return "%}";
    case FW_JINJA_T_NAME: snprintf(text, sizeof text, "\"%.*s\"", t->bytes > 40 ? 40 : (int)t->bytes, t->text); break;
    case FW_JINJA_T_STRING: return "a string";
    case FW_JINJA_T_INT:
    case FW_JINJA_T_FLOAT: return "a number";
    case FW_JINJA_T_OPERATOR: snprintf(text, sizeof text, "\"%s\"", t->op); break;
    case FW_JINJA_T_END: return "the end of the template";
    }
    return text;
}

fw_status fw_jinja_enter(fw_jinja_parser *p) {
    if (++p->depth > FW_JINJA_NODE_DEPTH_MAX) return fw_jinja_syntax_error(p, "the template is nested too deeply");
    return FW_OK;
}

fw_status fw_jinja_expect_op(fw_jinja_parser *p, const char *op) {
    if (fw_jinja_skip_op(p, op)) return FW_OK;
    return fw_jinja_syntax_error(p, "\"%s\" was expected, not %s", op, fw_jinja_token_name(p->at));
}

fw_status fw_jinja_expect_name(fw_jinja_parser *p, const fw_jinja_name **name) {
    if (p->at->kind != FW_JINJA_T_NAME)
        return fw_jinja_syntax_error(p, "a name was expected, not %s", fw_jinja_token_name(p->at));
    FW_TRY(fw_jinja_intern(p->program, name, p->at->text, p->at->bytes));
    p->at++;
    return FW_OK;
}

fw_status fw_jinja_intern(fw_jinja_program *program, const fw_jinja_name **out, const char *text, size_t bytes) {
    unsigned bucket = 0;
    for (size_t i = 0; i < bytes; i++) bucket = bucket * 31 + (unsigned char)text[i];
    fw_jinja_name **list = &program->name[bucket % 256], *name = *list;
    while (name != NULL && (name->bytes != bytes || memcmp(name->text, text, bytes) != 0)) name = name->next;
    if (name == NULL) {
        char *copy;
        FW_TRY(FW_JINJA_NEW(&program->memory, name));
        FW_TRY(fw_jinja_take(&program->memory, (void **)&copy, bytes + 1));
        memcpy(copy, text, bytes);
        copy[bytes] = 0;
        *name = (fw_jinja_name){.text = copy, .bytes = bytes, .next = *list};
        *list = name;
    }
    *out = name;
    return FW_OK;
}

fw_status fw_jinja_new_node(fw_jinja_parser *p, fw_jinja_node **out, fw_jinja_node_kind kind, int line) {
    FW_TRY(FW_JINJA_NEW(p->memory, *out));
    (*out)->kind = kind;
    (*out)->line = line;
    return FW_OK;
}

fw_status fw_jinja_nodes_add(fw_jinja_parser *p, fw_jinja_nodes *nodes, fw_jinja_node *node) {
    if (nodes->n == nodes->cap) {
        size_t cap = nodes->cap ? 2 * nodes->cap : 4;
        fw_jinja_node **wider;
        FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, wider, cap));
        if (nodes->n) memcpy(wider, nodes->node, nodes->n * sizeof *wider);
        nodes->node = wider;
        nodes->cap = cap;
    }
    nodes->node[nodes->n++] = node;
    return FW_OK;
}

static fw_status expect_block_end(fw_jinja_parser *p) {
    if (p->at->kind != FW_JINJA_T_BLOCK_END)
        return fw_jinja_syntax_error(p, "the end of the block (%%}) was expected, not %s", fw_jinja_token_name(p->at));
    p->at++;
    return FW_OK;
}

/* %} body {% end; p->at is then at the name that ended it. A colon may stand before %}. */
static fw_status parse_block_body(fw_jinja_parser *p, fw_jinja_body *out, const char *const *ends) {
    fw_jinja_skip_op(p, ":");
    FW_TRY(expect_block_end(p));
    return parse_body(p, out, ends);
}

/* The same for a body whose end is one word, which is passed over. */
static fw_status parse_whole_body(fw_jinja_parser *p, fw_jinja_body *out, const char *end) {
    const char *const ends[] = {end, NULL};
    FW_TRY(parse_block_body(p, out, ends));
    p->at++;
    return FW_OK;
}

static fw_status add_bodies(fw_jinja_parser *p, fw_jinja_node *node, size_t n) {
    node->body_n = n;
    return FW_JINJA_NEW_ARRAY(p->memory, node->bodies, n);
}

/* One body more for a node; *cap is how many there is room for. */
static fw_status new_body(fw_jinja_parser *p, fw_jinja_node *node, size_t *cap, fw_jinja_body **out) {
    if (node->body_n == *cap) {
        fw_jinja_body *wider;
        *cap = *cap ? 2 * *cap : 2;
        FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, wider, *cap));
        if (node->body_n) memcpy(wider, node->bodies, node->body_n * sizeof *wider);
        node->bodies = wider;
    }
    *out = &node->bodies[node->body_n++];
    return FW_OK;
}

static fw_status parse_if(fw_jinja_parser *p, fw_jinja_node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    fw_jinja_nodes conditions = {0};
    fw_jinja_body *body = NULL; /* for gcc 14, which does not see that it is set */
    size_t cap = 0;
    do {
        fw_jinja_node *condition;
        FW_TRY(fw_jinja_parse_tuple(p, &condition, false, NULL, false));
        FW_TRY(fw_jinja_nodes_add(p, &conditions, condition));
        FW_TRY(new_body(p, node, &cap, &body));
        FW_TRY(parse_block_body(p, body, ends));
    } while (fw_jinja_skip_name(p, "elif"));
    node->child = conditions.node;
    node->child_n = conditions.n;
    bool has_else = fw_jinja_at_name(p, "else");
    p->at++; /* else or endif */
    if (!has_else) return FW_OK;
    FW_TRY(new_body(p, node, &cap, &body));
    return parse_whole_body(p, body, "endif");
}

static fw_status parse_for(fw_jinja_parser *p, fw_jinja_node *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    FW_TRY(fw_jinja_parse_target(p, &node->a, "in", false));
    if (!fw_jinja_skip_name(p, "in"))
        return fw_jinja_syntax_error(p, "\"in\" was expected, not %s", fw_jinja_token_name(p->at));
    FW_TRY(fw_jinja_parse_tuple(p, &node->b, false, "recursive", false));
    if (fw_jinja_skip_name(p, "if")) FW_TRY(fw_jinja_parse_expression(p, &node->c, true));
    node->recursive = fw_jinja_skip_name(p, "recursive");
    FW_TRY(add_bodies(p, node, 2));
    p->loop_depth++;
    FW_TRY(parse_block_body(p, &node->bodies[0], ends));
    p->loop_depth--;
    if (fw_jinja_skip_name(p, "else")) return parse_whole_body(p, &node->bodies[1], "endfor");
    p->at++;
    return FW_OK;
}

static fw_status parse_set(fw_jinja_parser *p, fw_jinja_node *node) {
    FW_TRY(fw_jinja_parse_target(p, &node->a, NULL, true));
    if (fw_jinja_skip_op(p, "=")) return fw_jinja_parse_tuple(p, &node->b, true, NULL, false);
    node->kind = FW_JINJA_SET_BLOCK;
    FW_TRY(fw_jinja_parse_filters(p, &node->b, false));
    FW_TRY(add_bodies(p, node, 1));
    return parse_whole_body(p, &node->bodies[0], "endset");
}

static fw_status parse_with(fw_jinja_parser *p, fw_jinja_node *node) {
    fw_jinja_nodes pairs = {0};
    fw_jinja_node *part;
    while (p->at->kind != FW_JINJA_T_BLOCK_END) {
        if (pairs.n) FW_TRY(fw_jinja_expect_op(p, ","));
        FW_TRY(fw_jinja_parse_target(p, &part, NULL, false));
        FW_TRY(fw_jinja_nodes_add(p, &pairs, part));
        FW_TRY(fw_jinja_expect_op(p, "="));
        FW_TRY(fw_jinja_parse_expression(p, &part, true));
        FW_TRY(fw_jinja_nodes_add(p, &pairs, part));
    }
    node->child = pairs.node;
    node->child_n = pairs.n;
    FW_TRY(add_bodies(p, node, 1));
    return parse_whole_body(p, &node->bodies[0], "endwith");
}

/* (a, b=1) */
static fw_status parse_signature(fw_jinja_parser *p, fw_jinja_macro_def *macro) {
    fw_jinja_nodes names = {0}, presets = {0};
    FW_TRY(fw_jinja_expect_op(p, "("));
    while (!fw_jinja_at_op(p, ")")) {
        fw_jinja_node *name, *preset;
        if (names.n) FW_TRY(fw_jinja_expect_op(p, ","));
        FW_TRY(fw_jinja_new_node(p, &name, FW_JINJA_VARIABLE, p->at->line));
        FW_TRY(fw_jinja_expect_name(p, &name->name));
        FW_TRY(fw_jinja_nodes_add(p, &names, name));
        if (fw_jinja_skip_op(p, "=")) {
            FW_TRY(fw_jinja_parse_expression(p, &preset, true));
            FW_TRY(fw_jinja_nodes_add(p, &presets, preset));
        } else if (presets.n > 0) {
            return fw_jinja_syntax_error(p, "a parameter without a default follows one with a default");
        }
    }
    p->at++;
    FW_TRY(FW_JINJA_NEW_ARRAY(p->memory, macro->parameter, names.n));
    for (size_t i = 0; i < names.n; i++) macro->parameter[i] = names.node[i]->name;
    macro->parameter_n = names.n;
    macro->preset = presets.node;
    macro->preset_n = presets.n;
    return FW_OK;
}

static fw_status parse_macro_body(fw_jinja_parser *p, fw_jinja_macro_def *macro, const char *end) {
    int loops = p->loop_depth;
    p->loop_depth = 0;
    if (p->macro_n > FW_JINJA_NODE_DEPTH_MAX) return fw_jinja_syntax_error(p, "macros are nested too deeply");
    p->macros[p->macro_n++] = macro;
    FW_TRY(parse_whole_body(p, &macro->body, end));
    p->macro_n--;
    p->loop_depth = loops;
    return FW_OK;
}

static fw_status parse_macro(fw_jinja_parser *p, fw_jinja_node *node) {
    FW_TRY(FW_JINJA_NEW(p->memory, node->macro));
    FW_TRY(fw_jinja_expect_name(p, &node->macro->name));
    FW_TRY(parse_signature(p, node->macro));
    return parse_macro_body(p, node->macro, "endmacro");
}

static fw_status parse_call_block(fw_jinja_parser *p, fw_jinja_node *node) {
    FW_TRY(FW_JINJA_NEW(p->memory, node->macro));
    if (fw_jinja_at_op(p, "(")) FW_TRY(parse_signature(p, node->macro));
    FW_TRY(fw_jinja_parse_expression(p, &node->a, true));
    if (node->a->kind != FW_JINJA_CALL) return fw_jinja_syntax_error(p, "{%% call %%} needs a call, as name(...)");
    return parse_macro_body(p, node->macro, "endcall");
}

static fw_status parse_filter_block(fw_jinja_parser *p, fw_jinja_node *node) {
    FW_TRY(fw_jinja_parse_filters(p, &node->b, true));
    FW_TRY(add_bodies(p, node, 1));
    return parse_whole_body(p, &node->bodies[0], "endfilter");
}

static fw_status parse_generation(fw_jinja_parser *p, fw_jinja_node *node) {
    int loops = p->loop_depth;
    p->program->has_generation = true;
    p->loop_depth = 0; /* break and continue do not reach out of it */
    FW_TRY(add_bodies(p, node, 1));
    FW_TRY(parse_whole_body(p, &node->bodies[0], "endgeneration"));
    p->loop_depth = loops;
    return FW_OK;
}

static fw_status parse_named_block(fw_jinja_parser *p, fw_jinja_node *node) {
    FW_TRY(fw_jinja_expect_name(p, &node->name));
    fw_jinja_skip_name(p, "scoped");
    if (fw_jinja_at_name(p, "required")) return fw_jinja_syntax_error(p, "required blocks are not supported");
    FW_TRY(add_bodies(p, node, 1));
    FW_TRY(parse_whole_body(p, &node->bodies[0], "endblock"));
    fw_jinja_skip_name(p, node->name->text);
    return FW_OK;
}

static fw_status parse_print(fw_jinja_parser *p, fw_jinja_node *node) {
    fw_jinja_nodes parts = {0};
    while (p->at->kind != FW_JINJA_T_BLOCK_END) {
        fw_jinja_node *part;
        if (parts.n) FW_TRY(fw_jinja_expect_op(p, ","));
        FW_TRY(fw_jinja_parse_expression(p, &part, true));
        FW_TRY(fw_jinja_nodes_add(p, &parts, part));
    }
    FW_TRY(fw_jinja_new_node(p, &node->a, FW_JINJA_CONCAT, node->line));
    node->a->child = parts.node;
    node->a->child_n = parts.n;
    return FW_OK;
}

static fw_status parse_loop_control(fw_jinja_parser *p, fw_jinja_node *node) {
    if (p->loop_depth == 0)
        return fw_jinja_syntax_error(p, "%s outside of a loop", node->kind == FW_JINJA_BREAK ? "break" : "continue");
    return FW_OK;
}

static const struct statement {
    const char *name;
    fw_jinja_node_kind kind;
    fw_status (*parse)(fw_jinja_parser *p, fw_jinja_node *node);
} statements[] = {
    {"if", FW_JINJA_IF, parse_if},
    {"for", FW_JINJA_FOR, parse_for},
    {"set", FW_JINJA_SET, parse_set},
    {"macro", FW_JINJA_MACRO_DEF, parse_macro},
    {"call", FW_JINJA_CALL_BLOCK, parse_call_block},
    {"with", FW_JINJA_WITH, parse_with},
    {"filter", FW_JINJA_FILTER_BLOCK, parse_filter_block},
    {"generation", FW_JINJA_GENERATION_BLOCK, parse_generation},
    {"break", FW_JINJA_BREAK, parse_loop_control},
    {"continue", FW_JINJA_CONTINUE, parse_loop_control},
    {"block", FW_JINJA_BLOCK, parse_named_block},
    {"print", FW_JINJA_OUTPUT, parse_print},
};

static fw_status parse_statement(fw_jinja_parser *p, fw_jinja_node **out) {
    static const char *const refused[] = {"include", "import", "from", "extends", "autoescape"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (fw_jinja_at_name(p, refused[i]))
            return fw_jinja_syntax_error(p, "{%% %s %%} is not supported in a chat template", refused[i]);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        int line = p->at->line;
        if (!fw_jinja_skip_name(p, statements[i].name)) continue;
        FW_TRY(fw_jinja_enter(p));
        FW_TRY(fw_jinja_new_node(p, out, statements[i].kind, line));
        FW_TRY(statements[i].parse(p, *out));
        fw_jinja_leave(p);
        return expect_block_end(p);
    }
    return fw_jinja_syntax_error(p, "the statement %s is not known, or has no beginning here",
                                 fw_jinja_token_name(p->at));
}

static fw_status parse_data(fw_jinja_parser *p, fw_jinja_node **out) {
    fw_jinja_text *text;
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_DATA, p->at->line));
    FW_TRY(fw_jinja_text_make(p->memory, &text, p->at->text, p->at->bytes));
    text->char_n = (int64_t)fw_jinja_count_chars(text->data, text->bytes);
    (*out)->value = fw_jinja_text_value(text, 0);
    p->at++;
    return FW_OK;
}

static fw_status parse_output(fw_jinja_parser *p, fw_jinja_node **out) {
    FW_TRY(fw_jinja_new_node(p, out, FW_JINJA_OUTPUT, p->at->line));
    p->at++;
    FW_TRY(fw_jinja_parse_tuple(p, &(*out)->a, true, NULL, false));
    if (p->at->kind != FW_JINJA_T_OUTPUT_END)
        return fw_jinja_syntax_error(p, "the end of the output (}}) was expected, not %s", fw_jinja_token_name(p->at));
    p->at++;
    return FW_OK;
}

/* Up to {% one of ends, or to the end of the template when ends is NULL. */
static fw_status parse_body(fw_jinja_parser *p, fw_jinja_body *out, const char *const *ends) {
    fw_jinja_nodes nodes = {0};
    const fw_jinja_token *opened = ends ? p->at - 1 : p->at;
    for (;;) {
        fw_jinja_node *node;
        if (p->at->kind == FW_JINJA_T_END) {
            if (ends == NULL) break;
            while (ends[1] != NULL) ends++;
            p->at = opened;
            return fw_jinja_syntax_error(p, "the block that begins here is not closed by {%% %s %%}", ends[0]);
        }
        if (p->at->kind == FW_JINJA_T_DATA) {
            FW_TRY(parse_data(p, &node));
        } else if (p->at->kind == FW_JINJA_T_OUTPUT_START) {
            FW_TRY(parse_output(p, &node));
        } else {
            p->at++; /* {% */
            bool ended = false;
            for (size_t i = 0; ends != NULL && ends[i] != NULL; i++) ended |= fw_jinja_at_name(p, ends[i]);
            if (ended) break;
            FW_TRY(parse_statement(p, &node));
        }
        FW_TRY(fw_jinja_nodes_add(p, &nodes, node));
    }
    out->node = nodes.node;
    out->n = nodes.n;
    return FW_OK;
}

static fw_status parse_program(fw_jinja_program *program, const char *source, size_t source_bytes) {
    fw_jinja_tokens tokens;
    fw_jinja_parser *p = NULL;
    fw_status status;
    FW_TRY_OR(fw_jinja_intern(program, &program->loop, "loop", 4), done);
    FW_TRY_OR(fw_jinja_intern(program, &program->caller, "caller", 6), done);
    FW_TRY_OR(fw_jinja_intern(program, &program->varargs, "varargs", 7), done);
    FW_TRY_OR(fw_jinja_intern(program, &program->kwargs, "kwargs", 6), done);
    FW_TRY_OR(fw_jinja_lex(&program->memory, &tokens, source, source_bytes, program->where), done);
    FW_TRY_OR(FW_NEW(p), done);
    p->program = program;
    p->memory = &program->memory;
    p->at = tokens.token;
    FW_TRY_OR(parse_body(p, &program->body, NULL), done);
    FW_TRY_OR(fw_jinja_find_unset(program), done);
done:
    fw_free(p);
    return status;
}

fw_status fw_jinja_program_create(fw_jinja_program **out, const char *source, size_t source_bytes, const char *where) {
    *out = NULL;
    fw_jinja_program *program = NULL;
    char *name;
    fw_status status;
    FW_TRY(FW_NEW(program));
    program->memory.limit_bytes = (size_t)256 << 20; /* a source of 1 MiB stays far below it */
    FW_TRY_OR(fw_jinja_take(&program->memory, (void **)&name, strlen(where) + 1), done);
    memcpy(name, where, strlen(where) + 1);
    program->where = name;
    FW_TRY_OR(parse_program(program, source, source_bytes), done);
    *out = program;
    program = NULL;
done:
    fw_jinja_program_destroy(program);
    return status;
}

void fw_jinja_program_destroy(fw_jinja_program *program) {
    if (program == NULL) return;
    fw_jinja_memory_fini(&program->memory);
    fw_free(program);
}
