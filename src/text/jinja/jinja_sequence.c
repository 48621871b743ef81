/* What can be gone through: lists, tuples, ranges, dicts and their views, texts, iterators. */
#include "text/jinja/jinja_call.h"

#include "text/utf8.h"

#include <string.h>

static fw_status chars(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value **item, size_t *n) {
    *n = fw_jinja_char_n(v->text);
    FW_TRY(fw_jinja_spend(j, v->text->bytes * 4));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, *item, *n));
    for (size_t at = 0, i = 0; at < v->text->bytes; i++) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, v->text->data + at);
        FW_TRY(fw_jinja_part(j->memory, v, at, at + bytes, &(*item)[i]));
        at += bytes;
    }
    return FW_OK;
}

static fw_status keys(fw_jinja *j, const fw_jinja_dict *dict, fw_jinja_value **item, size_t *n) {
    *n = dict->n;
    FW_TRY(fw_jinja_spend(j, dict->n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, *item, dict->n));
    for (size_t i = 0; i < dict->n; i++) (*item)[i] = dict->entry[i].key;
    return FW_OK;
}

bool fw_jinja_is_iterable(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_LIST || v->kind == FW_JINJA_DICT || v->kind == FW_JINJA_TEXT ||
           v->kind == FW_JINJA_UNDEFINED;
}

fw_status fw_jinja_items(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value **item, size_t *n) {
    *item = NULL;
    *n = 0;
    switch (v->kind) {
    case FW_JINJA_UNDEFINED: return FW_OK;
    case FW_JINJA_TEXT: return chars(j, v, item, n);
    case FW_JINJA_DICT: return keys(j, v->dict, item, n);
    case FW_JINJA_LIST:
        *n = v->list->n - v->list->next;
        if (*n > 0) *item = v->list->item + v->list->next;
        if (v->list->kind == FW_JINJA_IS_ITERATOR) v->list->next = v->list->n;
        return fw_jinja_spend(j, *n);
    default: return fw_jinja_fail(j, "a value of type %s cannot be gone through", fw_jinja_type_name(v));
    }
}

fw_status fw_jinja_length(fw_jinja *j, const fw_jinja_value *v, size_t *n) {
    *n = 0;
    switch (v->kind) {
    case FW_JINJA_UNDEFINED: return FW_OK;
    case FW_JINJA_TEXT: *n = fw_jinja_char_n(v->text); return FW_OK;
    case FW_JINJA_DICT: *n = v->dict->n; return FW_OK;
    case FW_JINJA_LOOP: {
        bool there;
        FW_TRY(fw_jinja_loop_reach(j, v->loop, SIZE_MAX, &there));
        *n = v->loop->n;
        return FW_OK;
    }
    case FW_JINJA_LIST:
        if (v->list->kind == FW_JINJA_IS_ITERATOR) break;
        *n = v->list->n;
        return FW_OK;
    default: break;
    }
    return fw_jinja_fail(j, "a value of type %s has no length", fw_jinja_type_name(v));
}

fw_status fw_jinja_wrap(fw_jinja *j, fw_jinja_list_kind kind, fw_jinja_value *item, size_t n, fw_jinja_value *out) {
    fw_jinja_list *list;
    FW_TRY(fw_jinja_list_make(j->memory, &list, kind, 0));
    list->item = item;
    list->n = n;
    *out = (fw_jinja_value){.kind = FW_JINJA_LIST, .origin = fw_jinja_own_origin(j), .list = list};
    return FW_OK;
}

fw_status fw_jinja_range(fw_jinja *j, int64_t start, int64_t stop, int64_t step, fw_jinja_value *out) {
    enum { RANGE_MAX = 100000 }; /* as the reference's sandbox has it */
    if (step == 0) return fw_jinja_fail(j, "the step of a range is 0");
    __int128 distance = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    __int128 stride = step > 0 ? step : -(__int128)step, wide_n = distance > 0 ? (distance + stride - 1) / stride : 0;
    if (wide_n > RANGE_MAX)
        return fw_jinja_fail(j, "a range of more than %d numbers; the sandbox of chat templates allows no longer one",
                             RANGE_MAX);
    size_t n = (size_t)wide_n;
    fw_jinja_value *item;
    FW_TRY(fw_jinja_spend(j, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, item, n));
    for (size_t i = 0; i < n; i++) item[i] = fw_jinja_int((int64_t)((__int128)start + (__int128)i * step));
    FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_RANGE, item, n, out));
    int64_t range[3] = {start, stop, step};
    memcpy(out->list->range, range, sizeof range);
    return FW_OK;
}

typedef struct pair {
    fw_jinja_value item, key;
} pair;

static fw_status merge(fw_jinja *j, const pair *from, pair *to, size_t start, size_t middle, size_t end, bool reverse) {
    size_t a = start, b = middle;
    for (size_t i = start; i < end; i++) {
        bool right = a == middle;
        bool nothing =
            !right && b < end && from[a].key.kind == FW_JINJA_UNDEFINED && from[b].key.kind == FW_JINJA_UNDEFINED;
        if (!right && b < end && !nothing) { /* the right one goes first only when it is truly less (greater): stable */
            FW_TRY(reverse ? fw_jinja_less(j, &from[a].key, &from[b].key, false, &right)
                           : fw_jinja_less(j, &from[b].key, &from[a].key, false, &right));
        }
        to[i] = right ? from[b++] : from[a++];
    }
    return FW_OK;
}

fw_status fw_jinja_sort(fw_jinja *j, fw_jinja_value *item, fw_jinja_value *key, size_t n, bool reverse) {
    pair *from, *to;
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, from, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, to, n));
    for (size_t i = 0; i < n; i++) from[i] = (pair){item[i], key[i]};
    for (size_t width = 1; width < n; width *= 2) {
        FW_TRY(fw_jinja_spend(j, n));
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t middle = start + width < n ? start + width : n, end = start + 2 * width < n ? start + 2 * width : n;
            FW_TRY(merge(j, from, to, start, middle, end, reverse));
        }
        pair *other = from;
        from = to;
        to = other;
    }
    for (size_t i = 0; i < n; i++) {
        item[i] = from[i].item;
        key[i] = from[i].key;
    }
    return FW_OK;
}
