/* Filters of what can be gone through. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_strings.h"

#include <ctype.h>
#include <string.h>

#define FILTER(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

/* "a.b.0" of an item: its attributes one after the other; `otherwise` takes the place of what is not there. */
static fw_status attribute_of(fw_jinja *j, const fw_jinja_value *item, const fw_jinja_value *path,
                              const fw_jinja_value *otherwise, fw_jinja_value *out) {
    fw_jinja_value at = *item;
    if (path->kind != FW_JINJA_TEXT) {
        FW_TRY(fw_jinja_item(j, &at, path, out));
        if (otherwise != NULL && out->kind == FW_JINJA_UNDEFINED) *out = *otherwise;
        return FW_OK;
    }
    const char *data = path->text->data;
    for (size_t start = 0; start <= path->text->bytes;) {
        size_t end = start;
        bool digits = true;
        for (; end < path->text->bytes && data[end] != '.'; end++) digits &= isdigit((unsigned char)data[end]) != 0;
        fw_jinja_value key, next;
        FW_TRY(fw_jinja_part(j->memory, path, start, end, &key));
        if (digits && end > start && end - start < 18) {
            int64_t index = 0;
            for (size_t i = start; i < end; i++) index = index * 10 + (data[i] - '0');
            key = fw_jinja_int(index);
        }
        FW_TRY(fw_jinja_item(j, &at, &key, &next));
        at = otherwise != NULL && next.kind == FW_JINJA_UNDEFINED ? *otherwise : next;
        start = end + 1;
    }
    *out = at;
    return FW_OK;
}

static fw_status lower_case(fw_jinja *j, fw_jinja_value *v) {
    fw_jinja_value text = *v;
    return v->kind == FW_JINJA_TEXT ? fw_jinja_recase(j, &text, FW_JINJA_ALL_LOWER, v) : FW_OK;
}

/* What an item is sorted or compared by. */
static fw_status key_of(fw_jinja *j, const fw_jinja_value *item, const fw_jinja_value *path, bool case_matters,
                        const fw_jinja_value *otherwise, fw_jinja_value *out) {
    if (fw_jinja_has(path))
        FW_TRY(attribute_of(j, item, path, otherwise, out));
    else
        *out = *item;
    return case_matters ? FW_OK : lower_case(j, out);
}

/* The same for sort, where "a,b" means by a, then by b. */
static fw_status sort_key(fw_jinja *j, const fw_jinja_value *item, const fw_jinja_value *path, bool case_matters,
                          fw_jinja_value *out) {
    if (path->kind != FW_JINJA_TEXT || memchr(path->text->data, ',', path->text->bytes) == NULL)
        return key_of(j, item, path, case_matters, NULL, out);
    fw_jinja_value comma, parts;
    FW_TRY(fw_jinja_text_of(j->memory, &comma, ",", 1, 0, false));
    FW_TRY(fw_jinja_split(j, path, &comma, -1, &parts));
    fw_jinja_list *keys;
    FW_TRY(fw_jinja_list_make(j->memory, &keys, FW_JINJA_IS_LIST, parts.list->n));
    for (size_t i = 0; i < parts.list->n; i++)
        FW_TRY(key_of(j, item, &parts.list->item[i], case_matters, NULL, &keys->item[i]));
    *out = (fw_jinja_value){.kind = FW_JINJA_LIST, .list = keys};
    return FW_OK;
}

static fw_status copy_items(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value **item, size_t *n) {
    fw_jinja_value *from;
    FW_TRY(fw_jinja_items(j, v, &from, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, *item, *n + 1));
    if (*n) memcpy(*item, from, *n * sizeof **item);
    return FW_OK;
}

FILTER(first) {
    if (fw_jinja_is_iterator(c->self)) { /* takes one out of it */
        fw_jinja_list *list = c->self->list;
        if (list->next == list->n) return fw_jinja_undefined_hint(j, out, "no first item, the sequence is empty");
        *out = list->item[list->next++];
        return FW_OK;
    }
    fw_jinja_value *item;
    size_t n;
    FW_TRY(fw_jinja_items(j, c->self, &item, &n));
    if (n == 0) return fw_jinja_undefined_hint(j, out, "no first item, the sequence is empty");
    *out = item[0];
    return FW_OK;
}

FILTER(last) {
    fw_jinja_value *item;
    size_t n;
    if (fw_jinja_is_iterator(c->self))
        return fw_jinja_fail(j, "last does not work on what can be gone through once only");
    FW_TRY(fw_jinja_items(j, c->self, &item, &n));
    if (n == 0) return fw_jinja_undefined_hint(j, out, "no last item, the sequence is empty");
    *out = item[n - 1];
    return FW_OK;
}

FILTER(length) {
    size_t n;
    FW_TRY(fw_jinja_length(j, c->self, &n));
    *out = fw_jinja_int((int64_t)n);
    out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

FILTER(list) {
    fw_jinja_value *item;
    size_t n;
    FW_TRY(copy_items(j, c->self, &item, &n));
    return fw_jinja_wrap(j, FW_JINJA_IS_LIST, item, n, out);
}

FILTER(join) {
    fw_jinja_value *item, separator = c->v[0];
    size_t n;
    FW_TRY(copy_items(j, c->self, &item, &n));
    if (fw_jinja_has(&c->v[1]))
        for (size_t i = 0; i < n; i++) {
            fw_jinja_value whole = item[i];
            FW_TRY(attribute_of(j, &whole, &c->v[1], NULL, &item[i]));
        }
    if (!fw_jinja_given(&separator)) FW_TRY(fw_jinja_text_of(j->memory, &separator, "", 0, 0, false));
    FW_TRY(fw_jinja_to_text(j, &separator, &separator));
    return fw_jinja_join(j, &separator, item, n, true, out);
}

FILTER(reverse) {
    fw_jinja_value *item;
    size_t n;
    if (c->self->kind == FW_JINJA_TEXT) {
        fw_jinja_value bound[3] = {{0}, {0}, fw_jinja_int(-1)};
        return fw_jinja_slice(j, c->self, bound, out);
    }
    FW_TRY(copy_items(j, c->self, &item, &n));
    for (size_t a = 0, b = n; a + 1 < b; a++, b--) {
        fw_jinja_value held = item[a];
        item[a] = item[b - 1];
        item[b - 1] = held;
    }
    return fw_jinja_wrap(j, fw_jinja_is_iterator(c->self) ? FW_JINJA_IS_LIST : FW_JINJA_IS_ITERATOR, item, n, out);
}

FILTER(sort) {
    fw_jinja_value *item, *key;
    size_t n;
    FW_TRY(copy_items(j, c->self, &item, &n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, key, n));
    for (size_t i = 0; i < n; i++) FW_TRY(sort_key(j, &item[i], &c->v[2], fw_jinja_truth(&c->v[1]), &key[i]));
    FW_TRY(fw_jinja_sort(j, item, key, n, fw_jinja_truth(&c->v[0])));
    return fw_jinja_wrap(j, FW_JINJA_IS_LIST, item, n, out);
}

FILTER(dictsort) {
    bool by_value = fw_jinja_text_is(&c->v[1], "value");
    if (c->self->kind != FW_JINJA_DICT)
        return fw_jinja_fail(j, "dictsort needs a dict, not a value of type %s", fw_jinja_type_name(c->self));
    if (fw_jinja_given(&c->v[1]) && !by_value && !fw_jinja_text_is(&c->v[1], "key"))
        return fw_jinja_fail(j, "dictsort sorts by \"key\" or by \"value\"");
    const fw_jinja_dict *dict = c->self->dict;
    fw_jinja_value *pairs, *key;
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, pairs, dict->n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, key, dict->n));
    for (size_t i = 0; i < dict->n; i++) {
        fw_jinja_value *pair;
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, pair, 2));
        pair[0] = dict->entry[i].key;
        pair[1] = dict->entry[i].value;
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, pair, 2, &pairs[i]));
        key[i] = pair[by_value];
        if (!fw_jinja_truth(&c->v[0])) FW_TRY(lower_case(j, &key[i]));
    }
    FW_TRY(fw_jinja_sort(j, pairs, key, dict->n, fw_jinja_truth(&c->v[2])));
    return fw_jinja_wrap(j, FW_JINJA_IS_LIST, pairs, dict->n, out);
}

FILTER(unique) {
    fw_jinja_value *item, none = fw_jinja_none();
    fw_jinja_dict *seen;
    size_t n, kept_n = 0;
    FW_TRY(copy_items(j, c->self, &item, &n));
    FW_TRY(fw_jinja_dict_make(j->memory, &seen, 0));
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value key;
        FW_TRY(key_of(j, &item[i], &c->v[1], fw_jinja_truth(&c->v[0]), NULL, &key));
        if (!fw_jinja_is_hashable(&key))
            return fw_jinja_fail(j, "unique cannot tell values of type %s apart", fw_jinja_type_name(&key));
        if (fw_jinja_dict_find(seen, &key) != NULL) continue;
        FW_TRY(fw_jinja_dict_put(j->memory, seen, key, none));
        item[kept_n++] = item[i];
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, item, kept_n, out);
}

static fw_status extreme(fw_jinja *j, const fw_jinja_call *c, bool greatest, fw_jinja_value *out) {
    fw_jinja_value *item, best = {0};
    size_t n;
    FW_TRY(fw_jinja_items(j, c->self, &item, &n));
    if (n == 0) return fw_jinja_undefined_hint(j, out, "no smallest or greatest item, the sequence is empty");
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value key;
        bool better = i == 0;
        FW_TRY(key_of(j, &item[i], &c->v[1], fw_jinja_truth(&c->v[0]), NULL, &key));
        if (i > 0)
            FW_TRY(greatest ? fw_jinja_less(j, &best, &key, false, &better)
                            : fw_jinja_less(j, &key, &best, false, &better));
        if (!better) continue;
        best = key;
        *out = item[i];
    }
    return FW_OK;
}
FILTER(min) { return extreme(j, c, false, out); }
FILTER(max) { return extreme(j, c, true, out); }

FILTER(sum) {
    fw_jinja_value *item, total = fw_jinja_int(0);
    size_t n;
    if (fw_jinja_given(&c->v[1])) total = c->v[1];
    if (total.kind == FW_JINJA_TEXT) return fw_jinja_fail(j, "sum does not add texts; use join");
    total.origin = fw_jinja_own_origin(j);
    FW_TRY(fw_jinja_items(j, c->self, &item, &n));
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value part = item[i], before = total;
        if (fw_jinja_has(&c->v[0])) FW_TRY(attribute_of(j, &item[i], &c->v[0], NULL, &part));
        FW_TRY(fw_jinja_arithmetic(j, FW_JINJA_ADD, &before, &part, &total));
    }
    *out = total;
    return FW_OK;
}

FILTER(items) {
    if (c->self->kind == FW_JINJA_UNDEFINED) return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, NULL, 0, out);
    if (c->self->kind != FW_JINJA_DICT)
        return fw_jinja_fail(j, "items needs a dict, not a value of type %s", fw_jinja_type_name(c->self));
    static const fw_jinja_args nothing = {0};
    FW_TRY(fw_jinja_run(j, fw_jinja_find_function(fw_jinja_dict_methods, "items", 5), c->self, &nothing, out));
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, out->list->item, out->list->n, out);
}

FILTER(map) {
    fw_jinja_value *item, path = {0}, otherwise = {0};
    fw_jinja_args args = *c->args;
    size_t n = 0;
    if (fw_jinja_truth(c->self)) FW_TRY(copy_items(j, c->self, &item, &n));
    if (n == 0) return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, NULL, 0, out);
    bool by_attribute = args.n == 0 && fw_jinja_take_keyword(&args, "attribute", 9, &path);
    if (by_attribute) {
        bool has_default = fw_jinja_take_keyword(&args, "default", 7, &otherwise) && fw_jinja_has(&otherwise);
        if (args.keyword_n > 0) return fw_jinja_fail(j, "map has no argument %.60s", args.keyword[0].name);
        for (size_t i = 0; i < n; i++) {
            fw_jinja_value whole = item[i];
            if (fw_jinja_has(&path)) FW_TRY(attribute_of(j, &whole, &path, has_default ? &otherwise : NULL, &item[i]));
        }
        return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, item, n, out);
    }
    if (args.n == 0) return fw_jinja_fail(j, "map needs the name of a filter, or attribute=");
    const fw_jinja_value *name = &args.value[0];
    fw_jinja_args rest = {args.value + 1, args.n - 1, args.keyword, args.keyword_n};
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value whole = item[i];
        FW_TRY(fw_jinja_filter_by_name(j, name, &whole, &rest, &item[i]));
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, item, n, out);
}

static fw_status filtered(fw_jinja *j, const fw_jinja_call *c, bool by_attribute, bool wanted, fw_jinja_value *out) {
    fw_jinja_value *item;
    size_t n = 0, kept_n = 0, off = by_attribute;
    if (fw_jinja_truth(c->self)) FW_TRY(copy_items(j, c->self, &item, &n));
    if (n == 0) return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, NULL, 0, out);
    if (c->args->n < off) return fw_jinja_fail(j, "selectattr and rejectattr need the name of an attribute");
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value subject = item[i];
        bool passes;
        if (by_attribute) FW_TRY(attribute_of(j, &item[i], &c->args->value[0], NULL, &subject));
        if (c->args->n > off) {
            fw_jinja_args rest = {c->args->value + off + 1, c->args->n - off - 1, c->args->keyword, c->args->keyword_n};
            FW_TRY(fw_jinja_test_by_name(j, &c->args->value[off], &subject, &rest, &passes));
        } else {
            passes = fw_jinja_truth(&subject);
        }
        if (passes == wanted) item[kept_n++] = item[i];
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, item, kept_n, out);
}
FILTER(select) { return filtered(j, c, false, true, out); }
FILTER(reject) { return filtered(j, c, false, false, out); }
FILTER(selectattr) { return filtered(j, c, true, true, out); }
FILTER(rejectattr) { return filtered(j, c, true, false, out); }

FILTER(batch) {
    fw_jinja_value *item, *rows;
    size_t n;
    int64_t width;
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 1, "the width of batch", &width));
    FW_TRY(copy_items(j, c->self, &item, &n));
    if (width < 1) width = (int64_t)n + 1; /* as in the reference, the row never gets full */
    size_t row_n = n / (size_t)width + (n % (size_t)width != 0);
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, rows, row_n));
    for (size_t r = 0; r < row_n; r++) {
        size_t start = r * (size_t)width, stop = start + (size_t)width < n ? start + (size_t)width : n,
               at = stop - start;
        size_t total = fw_jinja_has(&c->v[1]) ? (size_t)width : at;
        fw_jinja_list *row;
        FW_TRY(fw_jinja_spend(j, total));
        FW_TRY(fw_jinja_list_make(j->memory, &row, FW_JINJA_IS_LIST, total));
        memcpy(row->item, item + start, at * sizeof *item);
        while (at < total) row->item[at++] = c->v[1];
        rows[r] = (fw_jinja_value){.kind = FW_JINJA_LIST, .origin = fw_jinja_own_origin(j), .list = row};
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, rows, row_n, out);
}

FILTER(slice) {
    fw_jinja_value *item, *columns;
    size_t n, at = 0;
    int64_t wanted;
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 1, "the number of slices", &wanted));
    FW_TRY(copy_items(j, c->self, &item, &n));
    if (wanted == 0) return fw_jinja_fail(j, "slice into 0 parts");
    size_t column_n = wanted < 0 ? 0 : (size_t)wanted;
    FW_TRY(fw_jinja_spend(j, column_n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, columns, column_n));
    for (size_t i = 0; i < column_n; i++) {
        size_t own = n / column_n + (i < n % column_n);
        bool filled = fw_jinja_has(&c->v[1]) && i >= n % column_n;
        fw_jinja_list *column;
        FW_TRY(fw_jinja_list_make(j->memory, &column, FW_JINJA_IS_LIST, own + filled));
        if (own) memcpy(column->item, item + at, own * sizeof *item);
        if (filled) column->item[own] = c->v[1];
        at += own;
        columns[i] = (fw_jinja_value){.kind = FW_JINJA_LIST, .origin = fw_jinja_own_origin(j), .list = column};
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_ITERATOR, columns, column_n, out);
}

FILTER(groupby) {
    fw_jinja_value *item, *key, *groups;
    size_t n, group_n = 0;
    bool case_matters = fw_jinja_truth(&c->v[2]);
    const fw_jinja_value *otherwise = fw_jinja_has(&c->v[1]) ? &c->v[1] : NULL;
    FW_TRY(copy_items(j, c->self, &item, &n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, key, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, groups, n));
    for (size_t i = 0; i < n; i++) FW_TRY(key_of(j, &item[i], &c->v[0], case_matters, otherwise, &key[i]));
    FW_TRY(fw_jinja_sort(j, item, key, n, false));
    for (size_t start = 0, end; start < n; start = end) {
        bool same = true;
        for (end = start + 1; end < n; end++) {
            FW_TRY(fw_jinja_same(j, &key[start], &key[end], &same));
            if (!same) break;
        }
        fw_jinja_value *pair;
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, pair, 2));
        FW_TRY(key_of(j, &item[start], &c->v[0], true, otherwise, &pair[0]));
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_LIST, item + start, end - start, &pair[1]));
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, pair, 2, &groups[group_n]));
        groups[group_n++].list->is_group = true;
    }
    return fw_jinja_wrap(j, FW_JINJA_IS_LIST, groups, group_n, out);
}

const fw_jinja_function fw_jinja_sequence_filters[] = {
    {"first", "", 0, do_first},
    {"last", "", 0, do_last},
    {"length", "", 0, do_length},
    {"count", "", 0, do_length},
    {"list", "", 0, do_list},
    {"join", "d,attribute", 0, do_join},
    {"reverse", "", 0, do_reverse},
    {"sort", "reverse,case_sensitive,attribute", 0, do_sort},
    {"dictsort", "case_sensitive,by,reverse", 0, do_dictsort},
    {"unique", "case_sensitive,attribute", 0, do_unique},
    {"min", "case_sensitive,attribute", 0, do_min},
    {"max", "case_sensitive,attribute", 0, do_max},
    {"sum", "attribute,start", 0, do_sum},
    {"items", "", 0, do_items},
    {"map", "*", 0, do_map},
    {"select", "*", 0, do_select},
    {"reject", "*", 0, do_reject},
    {"selectattr", "*", 0, do_selectattr},
    {"rejectattr", "*", 0, do_rejectattr},
    {"batch", "linecount,fill_with", 1, do_batch},
    {"slice", "slices,fill_with", 1, do_slice},
    {"groupby", "attribute,default,case_sensitive", 1, do_groupby},
    {0},
};
