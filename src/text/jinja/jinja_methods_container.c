/* Methods of dict, list and tuple, and of cyclers. Those that would change a value are not there. */
#include "text/jinja/jinja_call.h"

#include <string.h>

#define METHOD(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

METHOD(get) {
    if (!fw_jinja_is_hashable(&c->v[0]))
        return fw_jinja_fail(j, "a value of type %s cannot be a key", fw_jinja_type_name(&c->v[0]));
    const fw_jinja_value *value = fw_jinja_dict_find(c->self->dict, &c->v[0]);
    *out = value ? *value : fw_jinja_given(&c->v[1]) ? c->v[1] : fw_jinja_none();
    return FW_OK;
}

static fw_status view(fw_jinja *j, const fw_jinja_value *v, fw_jinja_list_kind kind, fw_jinja_value *out) {
    const fw_jinja_dict *dict = v->dict;
    fw_jinja_value *item, *pair;
    FW_TRY(fw_jinja_spend(j, 2 * dict->n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, item, dict->n));
    for (size_t i = 0; i < dict->n; i++) {
        item[i] = kind == FW_JINJA_IS_KEYS ? dict->entry[i].key : dict->entry[i].value;
        if (kind != FW_JINJA_IS_ITEMS) continue;
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, pair, 2));
        pair[0] = dict->entry[i].key;
        pair[1] = dict->entry[i].value;
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, pair, 2, &item[i]));
        item[i].origin = v->origin;
    }
    FW_TRY(fw_jinja_wrap(j, kind, item, dict->n, out));
    out->origin = v->origin;
    return FW_OK;
}
METHOD(keys) { return view(j, c->self, FW_JINJA_IS_KEYS, out); }
METHOD(values) { return view(j, c->self, FW_JINJA_IS_VALUES, out); }
METHOD(items) { return view(j, c->self, FW_JINJA_IS_ITEMS, out); }

METHOD(copy) { /* nothing changes a value: it is as good as a copy of itself */
    (void)j;
    *out = *c->self;
    return FW_OK;
}

METHOD(count) {
    int64_t n = 0;
    bool same;
    for (size_t i = 0; i < c->self->list->n; i++) {
        FW_TRY(fw_jinja_same(j, &c->self->list->item[i], &c->v[0], &same));
        n += same;
    }
    *out = fw_jinja_int(n);
    return FW_OK;
}

METHOD(index) {
    int64_t n = (int64_t)c->self->list->n, start, stop;
    bool same;
    FW_TRY(fw_jinja_need_int(j, &c->v[1], 0, "the start of index", &start));
    FW_TRY(fw_jinja_need_int(j, &c->v[2], n, "the end of index", &stop));
    if (start < 0) start = start < -n ? 0 : start + n;
    if (stop < 0) stop = stop < -n ? 0 : stop + n;
    for (int64_t i = start; i < stop && i < n; i++) {
        FW_TRY(fw_jinja_same(j, &c->self->list->item[i], &c->v[0], &same));
        if (!same) continue;
        *out = fw_jinja_int(i);
        return FW_OK;
    }
    return fw_jinja_fail(j, "index: the value that is looked for is not there");
}

METHOD(next) {
    fw_jinja_turn *turn = c->self->turn;
    (void)j;
    *out = turn->item[turn->at];
    turn->at = (turn->at + 1) % turn->n;
    return FW_OK;
}

METHOD(reset) {
    (void)j;
    c->self->turn->at = 0;
    *out = fw_jinja_none();
    return FW_OK;
}

const fw_jinja_function fw_jinja_dict_methods[] = {
    {"get", "/key,default", 1, do_get}, {"keys", "/", 0, do_keys}, {"values", "/", 0, do_values},
    {"items", "/", 0, do_items},        {"copy", "/", 0, do_copy}, {0},
};
const fw_jinja_function fw_jinja_list_methods[] = {
    {"count", "/value", 1, do_count},
    {"index", "/value,start,stop", 1, do_index},
    {"copy", "/", 0, do_copy},
    {0},
};
const fw_jinja_function fw_jinja_cycler_methods[] = {{"next", "/", 0, do_next}, {"reset", "/", 0, do_reset}, {0}};
