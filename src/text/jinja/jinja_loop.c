/* loop.index and its kin. */
#include "text/jinja/jinja_call.h"

#include <string.h>

fw_status fw_jinja_loop_reach(fw_jinja *j, fw_jinja_loop *loop, size_t at, bool *there) {
    if (loop->node->c == NULL) {
        loop->item = loop->source;
        loop->n = loop->source_n;
    } else if (loop->item == NULL) {
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, loop->item, loop->source_n + 1));
    }
    fw_jinja_scope *scope = j->scope;
    while (loop->node->c != NULL && at >= loop->n && loop->source_at < loop->source_n) {
        fw_jinja_value passes, item = loop->source[loop->source_at++];
        FW_TRY(fw_jinja_scope_push(j, loop->scope, NULL));
        FW_TRY(fw_jinja_assign(j, loop->node->a, item));
        FW_TRY(fw_jinja_eval(j, loop->node->c, &passes));
        if (fw_jinja_truth(&passes)) loop->item[loop->n++] = item;
    }
    j->scope = scope;
    *there = at < loop->n;
    return FW_OK;
}

static fw_status cycle(fw_jinja *j, const fw_jinja_call *call, fw_jinja_value *out) {
    if (call->args->n == 0 || call->args->keyword_n) return fw_jinja_fail(j, "loop.cycle needs values to go through");
    *out = call->args->value[call->self->loop->at % call->args->n];
    return FW_OK;
}

static fw_status changed(fw_jinja *j, const fw_jinja_call *call, fw_jinja_value *out) {
    fw_jinja_value now;
    fw_jinja_loop *loop = call->self->loop;
    bool same;
    if (call->args->keyword_n) return fw_jinja_fail(j, "loop.changed has no named arguments");
    FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, call->args->value, call->args->n, &now));
    FW_TRY(fw_jinja_same(j, &now, &loop->changed, &same));
    loop->changed = now;
    *out = fw_jinja_bool(!same);
    return FW_OK;
}

const fw_jinja_function fw_jinja_loop_methods[] = {{"cycle", "*", 0, cycle}, {"changed", "*", 0, changed}, {0}};

typedef enum loop_word {
    INDEX,
    INDEX0,
    REVINDEX,
    REVINDEX0,
    FIRST,
    LAST,
    LENGTH,
    DEPTH,
    DEPTH0,
    PREVIOUS,
    NEXT,
    WORD_N
} loop_word;

fw_status fw_jinja_loop_attribute(fw_jinja *j, const fw_jinja_value *v, const char *name, size_t name_bytes,
                                  fw_jinja_value *out, bool *found) {
    static const char *const words[] = {"index",  "index0", "revindex", "revindex0", "first",   "last",
                                        "length", "depth",  "depth0",   "previtem",  "nextitem"};
    fw_jinja_loop *loop = v->loop;
    int word = 0;
    while (word < WORD_N && (strlen(words[word]) != name_bytes || memcmp(words[word], name, name_bytes) != 0)) word++;
    int64_t at = (int64_t)loop->at;
    bool there = true;
    if (word == REVINDEX || word == REVINDEX0 || word == LENGTH) FW_TRY(fw_jinja_loop_reach(j, loop, SIZE_MAX, &there));
    if (word == LAST || word == NEXT) FW_TRY(fw_jinja_loop_reach(j, loop, loop->at + 1, &there));
    *found = true;
    switch (word) {
    case INDEX: *out = fw_jinja_int(at + 1); break;
    case INDEX0: *out = fw_jinja_int(at); break;
    case REVINDEX: *out = fw_jinja_int((int64_t)loop->n - at); break;
    case REVINDEX0: *out = fw_jinja_int((int64_t)loop->n - at - 1); break;
    case FIRST: *out = fw_jinja_bool(at == 0); break;
    case LAST: *out = fw_jinja_bool(!there); break;
    case LENGTH: *out = fw_jinja_int((int64_t)loop->n); break;
    case DEPTH: *out = fw_jinja_int(loop->depth0 + 1); break;
    case DEPTH0: *out = fw_jinja_int(loop->depth0); break;
    case PREVIOUS:
        if (at == 0) return fw_jinja_undefined_hint(j, out, "there is no previous item");
        *out = loop->item[at - 1];
        return FW_OK;
    case NEXT:
        if (!there) return fw_jinja_undefined_hint(j, out, "there is no next item");
        *out = loop->item[at + 1];
        return FW_OK;
    default: {
        const fw_jinja_function *method = fw_jinja_find_function(fw_jinja_loop_methods, name, name_bytes);
        if ((*found = method != NULL)) return fw_jinja_bind(j, method, v, out);
        return FW_OK;
    }
    }
    out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}
