/* Which names a block knows before they are set.
 *
 * A block that sets a name has a variable of its own for it, from its first line on. As long as nothing around the block
 * has the name, that variable is simply not set there yet, even where the conversation gives a value of the name:
 *
 *   {% for m in messages %}{{ tools }}{% endfor %}{% set tools = 1 %}     tools is undefined in the loop
 *
 * unless the block reads the name itself before it sets it, or sets it in a branch of an if only. The order is that of
 * the reference's compiler: inner blocks are looked at after all of the block around them. */
#include "text/jinja/jinja_parser.h"

/* A name that a block refers to, and what the name was before the block. */
typedef struct reference {
    struct reference *next;
    fw_jinja_name *name;
    int depth_before;
} reference;

typedef struct scoper {
    fw_jinja_memory *memory;
    int depth;         /* of the block; names know the innermost one that refers to them */
    reference *list;   /* of the block */
    bool in_branch;    /* inside an if */
    fw_jinja_body *to; /* gets the names that are not set yet */
    size_t cap;
} scoper;

static fw_status scope_of(scoper *s, fw_jinja_body *body, const fw_jinja_node *node, int which);

static fw_status refer(scoper *s, const fw_jinja_name *constant) {
    fw_jinja_name *name = (fw_jinja_name *)(uintptr_t)constant; /* the parser's own */
    reference *r;
    if (name->depth == s->depth) return FW_OK;
    FW_TRY(FW_JINJA_NEW(s->memory, r));
    *r = (reference){s->list, name, name->depth};
    s->list = r;
    name->depth = s->depth;
    return FW_OK;
}

static fw_status load(scoper *s, const fw_jinja_name *name) { return name->depth > 0 ? FW_OK : refer(s, name); }

static fw_status store(scoper *s, const fw_jinja_name *name) {
    if (name->depth == 0 && !s->in_branch) { /* nobody knows it: a variable without a value yet */
        fw_jinja_body *to = s->to;
        if (to->unset_n == s->cap) {
            const fw_jinja_name **wider;
            size_t cap = s->cap ? 2 * s->cap : 4;
            FW_TRY(FW_JINJA_NEW_ARRAY(s->memory, wider, cap));
            for (size_t i = 0; i < to->unset_n; i++) wider[i] = to->unset[i];
            to->unset = wider;
            s->cap = cap;
        }
        to->unset[to->unset_n++] = name;
    }
    return refer(s, name);
}

static fw_status load_all(scoper *s, const fw_jinja_node *node) {
    if (node == NULL) return FW_OK;
    if (node->kind == FW_JINJA_VARIABLE) return load(s, node->name);
    FW_TRY(load_all(s, node->a));
    FW_TRY(load_all(s, node->b));
    FW_TRY(load_all(s, node->c));
    for (size_t i = 0; i < node->child_n; i++) FW_TRY(load_all(s, node->child[i]));
    const fw_jinja_arguments *a = node->arguments;
    for (size_t i = 0; a != NULL && i < a->n; i++) FW_TRY(load_all(s, a->value[i]));
    for (size_t i = 0; a != NULL && i < a->keyword_n; i++) FW_TRY(load_all(s, a->keyword[i].value));
    if (a == NULL) return FW_OK;
    FW_TRY(load_all(s, a->rest));
    return load_all(s, a->rest_keywords);
}

/* Names of a target; as parameters they have their value from the first. */
static fw_status target(scoper *s, const fw_jinja_node *node, bool parameter) {
    if (node->kind == FW_JINJA_NS_TARGET) return load(s, node->name);
    if (node->kind == FW_JINJA_VARIABLE) return parameter ? refer(s, node->name) : store(s, node->name);
    for (size_t i = 0; i < node->child_n; i++) FW_TRY(target(s, node->child[i], parameter));
    return FW_OK;
}

/* What a statement does to the block it stands in. */
static fw_status statements(scoper *s, const fw_jinja_body *body);

static fw_status statement(scoper *s, const fw_jinja_node *node) {
    bool outer = s->in_branch;
    switch (node->kind) {
    case FW_JINJA_OUTPUT: return load_all(s, node->a);
    case FW_JINJA_FOR: return load_all(s, node->b);
    case FW_JINJA_SET: FW_TRY(load_all(s, node->b)); return target(s, node->a, false);
    case FW_JINJA_SET_BLOCK: return target(s, node->a, false);
    case FW_JINJA_FILTER_BLOCK: return load_all(s, node->b);
    case FW_JINJA_CALL_BLOCK: return load_all(s, node->a);
    case FW_JINJA_MACRO_DEF: return store(s, node->macro->name);
    case FW_JINJA_WITH:
        for (size_t i = 1; i < node->child_n; i += 2) FW_TRY(load_all(s, node->child[i]));
        return FW_OK;
    case FW_JINJA_IF:
        for (size_t i = 0; i < node->body_n; i++) {
            if (i < node->child_n) FW_TRY(load_all(s, node->child[i]));
            s->in_branch = true;
            FW_TRY(statements(s, &node->bodies[i]));
            s->in_branch = outer;
        }
        return FW_OK;
    default: return FW_OK;
    }
}

static fw_status statements(scoper *s, const fw_jinja_body *body) {
    for (size_t i = 0; i < body->n; i++) FW_TRY(statement(s, body->node[i]));
    return FW_OK;
}

/* The blocks inside a body, which now knows all of its names. */
static fw_status inner_blocks(scoper *s, const fw_jinja_body *body) {
    for (size_t i = 0; i < body->n; i++) {
        const fw_jinja_node *node = body->node[i];
        if (node->macro != NULL) FW_TRY(scope_of(s, &node->macro->body, node, 0));
        for (size_t k = 0; k < node->body_n; k++)
            FW_TRY(node->kind == FW_JINJA_IF ? inner_blocks(s, &node->bodies[k])
                                             : scope_of(s, &node->bodies[k], node, (int)k));
    }
    return FW_OK;
}

/* Names that a block has from the first: parameters, and what a loop sets. */
static fw_status parameters(scoper *s, const fw_jinja_node *node, int which) {
    if (node == NULL) return FW_OK;
    if (node->kind == FW_JINJA_FOR && which == 0) return target(s, node->a, true);
    if (node->kind == FW_JINJA_WITH)
        for (size_t i = 0; i < node->child_n; i += 2) FW_TRY(target(s, node->child[i], true));
    for (size_t i = 0; node->macro != NULL && i < node->macro->parameter_n; i++)
        FW_TRY(refer(s, node->macro->parameter[i]));
    for (size_t i = 0; node->macro != NULL && i < node->macro->preset_n; i++)
        FW_TRY(load_all(s, node->macro->preset[i]));
    return FW_OK;
}

static fw_status scope_of(scoper *outer, fw_jinja_body *body, const fw_jinja_node *node, int which) {
    scoper s = {.memory = outer->memory, .depth = outer->depth + 1, .to = body};
    FW_TRY(parameters(&s, node, which));
    FW_TRY(statements(&s, body));
    FW_TRY(inner_blocks(&s, body));
    for (reference *r = s.list; r != NULL; r = r->next) r->name->depth = r->depth_before;
    return FW_OK;
}

fw_status fw_jinja_find_unset(fw_jinja_program *program) {
    scoper none = {.memory = &program->memory};
    return scope_of(&none, &program->body, NULL, 0);
}
