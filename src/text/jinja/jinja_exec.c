/* Statements: they write output, set variables and go round. */
#include "text/jinja/jinja_call.h"

#include <string.h>

static fw_status write_value(fw_jinja *j, const fw_jinja_value *v) { return fw_jinja_put_str(j, j->out, v); }

fw_status fw_jinja_capture(fw_jinja *j, const fw_jinja_body *body, fw_jinja_value *out) {
    fw_jinja_builder own = {.memory = j->memory, .uniform = fw_jinja_own_origin(j)}, *outer = j->out;
    j->out = &own;
    fw_status status = fw_jinja_exec(j, body);
    j->out = outer;
    FW_TRY(status);
    return fw_jinja_builder_finish(&own, out);
}

/* The dict of a message says which message the template is going through. */
static int64_t message_of(const fw_jinja_value *v) { return v->kind == FW_JINJA_DICT ? v->dict->message : -1; }

static fw_status assign_tuple(fw_jinja *j, const fw_jinja_node *target, const fw_jinja_value *value) {
    fw_jinja_value *item;
    size_t n;
    FW_TRY(fw_jinja_items(j, value, &item, &n));
    if (n != target->child_n) return fw_jinja_fail(j, "%zu values cannot be given to %zu names", n, target->child_n);
    for (size_t i = 0; i < n; i++) FW_TRY(fw_jinja_assign(j, target->child[i], item[i]));
    return FW_OK;
}

fw_status fw_jinja_assign(fw_jinja *j, const fw_jinja_node *target, fw_jinja_value value) {
    if (target->kind == FW_JINJA_TUPLE_OF) return assign_tuple(j, target, &value);
    if (target->kind == FW_JINJA_VARIABLE) return fw_jinja_scope_set(j, j->scope, target->name, value);
    const fw_jinja_value *space = fw_jinja_scope_find(j->scope, target->name);
    if (space == NULL || space->kind != FW_JINJA_NAMESPACE)
        return fw_jinja_fail(j, "%.60s is no namespace, so %.60s.%.60s cannot be set", target->name->text,
                             target->name->text, target->attribute->text);
    if (target->attribute->text[0] == '_')
        return fw_jinja_fail(j, "a namespace takes no name that begins with _: %.60s", target->attribute->text);
    fw_jinja_value key;
    FW_TRY(fw_jinja_text_of(j->memory, &key, target->attribute->text, target->attribute->bytes, fw_jinja_own_origin(j),
                            false));
    return fw_jinja_dict_put(j->memory, space->dict, key, value);
}

/* A body in a scope of its own: what it sets is gone after it. */
static fw_status exec_inside(fw_jinja *j, const fw_jinja_body *body) {
    fw_jinja_scope *outer = j->scope;
    FW_TRY(fw_jinja_scope_push(j, outer, body));
    FW_TRY(fw_jinja_exec(j, body));
    j->scope = outer;
    return FW_OK;
}

static fw_status capture_inside(fw_jinja *j, const fw_jinja_body *body, fw_jinja_value *out) {
    fw_jinja_scope *outer = j->scope;
    FW_TRY(fw_jinja_scope_push(j, outer, body));
    FW_TRY(fw_jinja_capture(j, body, out));
    j->scope = outer;
    return FW_OK;
}

static fw_status exec_if(fw_jinja *j, const fw_jinja_node *node) {
    for (size_t i = 0; i < node->child_n; i++) {
        fw_jinja_value condition;
        FW_TRY(fw_jinja_eval(j, node->child[i], &condition));
        if (fw_jinja_truth(&condition)) return fw_jinja_exec(j, &node->bodies[i]);
    }
    return node->body_n > node->child_n ? fw_jinja_exec(j, &node->bodies[node->child_n]) : FW_OK;
}

/* One round; *done: it came to the end of its body. */
static fw_status exec_round(fw_jinja *j, const fw_jinja_node *node, fw_jinja_loop *loop, bool *done) {
    fw_jinja_value as_value = {.kind = FW_JINJA_LOOP, .origin = fw_jinja_own_origin(j), .loop = loop};
    int64_t outer_message = j->message, message = message_of(&loop->item[loop->at]);
    if (message >= 0) j->message = message;
    FW_TRY(fw_jinja_scope_push(j, loop->scope, &node->bodies[0]));
    FW_TRY(fw_jinja_scope_set(j, j->scope, j->program->loop, as_value));
    FW_TRY(fw_jinja_assign(j, node->a, loop->item[loop->at]));
    j->round_n++;
    FW_TRY(fw_jinja_exec(j, &node->bodies[0]));
    j->round_n--;
    j->message = outer_message;
    *done = j->flow == FW_JINJA_GOES_ON;
    return FW_OK;
}

static fw_status exec_rounds(fw_jinja *j, const fw_jinja_node *node, const fw_jinja_value *items, int depth0) {
    fw_jinja_scope *outer = j->scope;
    fw_jinja_loop *loop;
    bool more, done = false, any_done = false;
    FW_TRY(FW_JINJA_NEW(j->memory, loop));
    *loop = (fw_jinja_loop){.depth0 = depth0, .node = node, .scope = outer};
    FW_TRY(fw_jinja_items(j, items, &loop->source, &loop->source_n));
    for (;; loop->at++) {
        FW_TRY(fw_jinja_loop_reach(j, loop, loop->at, &more));
        if (!more) break;
        FW_TRY(exec_round(j, node, loop, &done));
        any_done |= done;
        if (j->flow == FW_JINJA_BREAKS) break;
        j->flow = FW_JINJA_GOES_ON;
    }
    j->flow = FW_JINJA_GOES_ON;
    j->scope = outer;
    /* as in the reference, a loop whose rounds were all cut short by continue or break counts as empty */
    return any_done ? FW_OK : exec_inside(j, &node->bodies[1]);
}

static fw_status exec_for(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value items;
    FW_TRY(fw_jinja_eval(j, node->b, &items));
    return exec_rounds(j, node, &items, 0);
}

fw_status fw_jinja_loop_again(fw_jinja *j, const fw_jinja_loop *loop, const fw_jinja_value *items,
                              fw_jinja_value *out) {
    if (!loop->node->recursive) return fw_jinja_fail(j, "loop(...) needs a loop that is marked recursive");
    fw_jinja_builder own = {.memory = j->memory, .uniform = fw_jinja_own_origin(j)}, *outer = j->out;
    fw_jinja_scope *scope = j->scope;
    int line = j->line;
    j->out = &own;
    j->scope = loop->scope;
    fw_status status = exec_rounds(j, loop->node, items, loop->depth0 + 1);
    j->out = outer;
    FW_TRY(status);
    j->scope = scope;
    j->line = line;
    return fw_jinja_builder_finish(&own, out);
}

static fw_status exec_set(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value value;
    FW_TRY(fw_jinja_eval(j, node->b, &value));
    j->line = node->line;
    /* a loop over numbers that takes the message out itself: {% set message = messages[i] %} */
    if (j->message < 0 && j->round_n > 0 && message_of(&value) >= 0) j->message = message_of(&value);
    return fw_jinja_assign(j, node->a, value);
}

/* A filter of a block; node->b has no subject of its own but at its innermost end. */
static fw_status apply_filters(fw_jinja *j, const fw_jinja_node *filter, fw_jinja_value *value) {
    fw_jinja_args args;
    if (filter == NULL) return FW_OK;
    FW_TRY(apply_filters(j, filter->a, value));
    const fw_jinja_function *f = fw_jinja_find_filter(filter->name->text, filter->name->bytes);
    if (f == NULL) return fw_jinja_fail(j, "there is no filter \"%.60s\" here", filter->name->text);
    FW_TRY(fw_jinja_eval_arguments(j, filter->arguments, &args));
    fw_jinja_value subject = *value;
    return fw_jinja_run(j, f, &subject, &args, value);
}

static fw_status exec_set_block(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value value;
    FW_TRY(capture_inside(j, &node->bodies[0], &value));
    if (j->flow != FW_JINJA_GOES_ON) return FW_OK; /* break inside: as if it had never begun */
    FW_TRY(apply_filters(j, node->b, &value));
    return fw_jinja_assign(j, node->a, value);
}

static fw_status exec_filter_block(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value value;
    FW_TRY(capture_inside(j, &node->bodies[0], &value));
    if (j->flow != FW_JINJA_GOES_ON) return FW_OK;
    FW_TRY(apply_filters(j, node->b, &value));
    return write_value(j, &value);
}

static fw_status exec_with(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_scope *outer = j->scope, *inner;
    FW_TRY(fw_jinja_scope_push(j, outer, &node->bodies[0]));
    inner = j->scope;
    for (size_t i = 0; i < node->child_n; i += 2) { /* values do not see the names before them */
        fw_jinja_value value;
        j->scope = outer;
        FW_TRY(fw_jinja_eval(j, node->child[i + 1], &value));
        j->scope = inner;
        FW_TRY(fw_jinja_assign(j, node->child[i], value));
    }
    j->scope = inner;
    FW_TRY(fw_jinja_exec(j, &node->bodies[0]));
    j->scope = outer;
    return FW_OK;
}

static fw_status make_macro(fw_jinja *j, const fw_jinja_macro_def *definition, fw_jinja_value *out) {
    fw_jinja_macro *macro;
    FW_TRY(FW_JINJA_NEW(j->memory, macro));
    *macro = (fw_jinja_macro){definition, j->scope};
    *out = (fw_jinja_value){.kind = FW_JINJA_MACRO, .origin = fw_jinja_own_origin(j), .macro = macro};
    return FW_OK;
}

static fw_status exec_call_block(fw_jinja *j, const fw_jinja_node *node) {
    const fw_jinja_node *call = node->a;
    fw_jinja_value caller, callee, result;
    fw_jinja_args args;
    FW_TRY(make_macro(j, node->macro, &caller));
    FW_TRY(fw_jinja_eval(j, call->a, &callee));
    FW_TRY(fw_jinja_eval_arguments(j, call->arguments, &args));
    if (args.keyword == NULL) FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, args.keyword, 1));
    args.keyword[args.keyword_n++] = (fw_jinja_keyword_value){"caller", 6, caller};
    j->line = node->line;
    FW_TRY(fw_jinja_call_value(j, &callee, &args, &result));
    return write_value(j, &result);
}

/* What is written inside carries a mark: {% generation %} says itself what is to be learnt. */
static fw_status exec_generation(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value value;
    FW_TRY(capture_inside(j, &node->bodies[0], &value));
    fw_jinja_origin *marked;
    size_t n = value.text->bytes;
    FW_TRY(fw_jinja_take(j->memory, (void **)&marked, n * sizeof *marked));
    for (size_t i = 0; i < n; i++) marked[i] = fw_jinja_origin_at(&value, i) | FW_JINJA_GENERATION;
    fw_jinja_text text = {.data = value.text->data, .bytes = n, .char_n = FW_JINJA_UNCOUNTED, .origin = marked};
    fw_jinja_value out = fw_jinja_text_value(&text, value.origin);
    return fw_jinja_put_text(j->out, &out);
}

static fw_status exec_node(fw_jinja *j, const fw_jinja_node *node) {
    fw_jinja_value value;
    switch (node->kind) {
    case FW_JINJA_DATA:
        return fw_jinja_put(j->out, node->value.text->data, node->value.text->bytes, fw_jinja_own_origin(j));
    case FW_JINJA_OUTPUT: FW_TRY(fw_jinja_eval(j, node->a, &value)); return write_value(j, &value);
    case FW_JINJA_IF: return exec_if(j, node);
    case FW_JINJA_FOR: return exec_for(j, node);
    case FW_JINJA_SET: return exec_set(j, node);
    case FW_JINJA_SET_BLOCK: return exec_set_block(j, node);
    case FW_JINJA_WITH: return exec_with(j, node);
    case FW_JINJA_MACRO_DEF:
        FW_TRY(make_macro(j, node->macro, &value));
        return fw_jinja_scope_set(j, j->scope, node->macro->name, value);
    case FW_JINJA_CALL_BLOCK: return exec_call_block(j, node);
    case FW_JINJA_FILTER_BLOCK: return exec_filter_block(j, node);
    case FW_JINJA_BLOCK: return exec_inside(j, &node->bodies[0]);
    case FW_JINJA_GENERATION_BLOCK: return exec_generation(j, node);
    case FW_JINJA_BREAK: j->flow = FW_JINJA_BREAKS; return FW_OK;
    case FW_JINJA_CONTINUE: j->flow = FW_JINJA_CONTINUES; return FW_OK;
    default: return fw_jinja_fail(j, "an expression stands where a statement should"); /* the parser never makes one */
    }
}

fw_status fw_jinja_exec(fw_jinja *j, const fw_jinja_body *body) {
    if (j->depth >= FW_JINJA_DEPTH_MAX)
        return fw_jinja_fail(j, "the template goes too deep; is it a recursion without end?");
    j->depth++;
    for (size_t i = 0; i < body->n && j->flow == FW_JINJA_GOES_ON; i++) {
        j->line = body->node[i]->line;
        FW_TRY(fw_jinja_spend(j, 0));
        FW_TRY(exec_node(j, body->node[i]));
    }
    j->depth--;
    return FW_OK;
}
