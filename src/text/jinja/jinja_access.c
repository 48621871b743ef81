/* x.name, x[key] and x[start:stop:step]. x.name looks for an attribute of the type first and for a key then; x[key] the
 * other way round: a dict's own "items" is reached by x['items'] only, as in Python. */
#include "text/jinja/jinja_call.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <string.h>

/* Methods that would change the value: the reference's sandbox has them undefined, with a message once called. */
static bool changes(const fw_jinja_value *v, const char *name, size_t bytes) {
    static const char *const of_lists[] = {"append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *names = v->kind == FW_JINJA_DICT                                        ? of_dicts
                               : v->kind == FW_JINJA_LIST && v->list->kind == FW_JINJA_IS_LIST ? of_lists
                                                                                               : NULL;
    for (; names != NULL && *names != NULL; names++)
        if (strlen(*names) == bytes && memcmp(*names, name, bytes) == 0) return true;
    return false;
}

/* An attribute that the type has; *found false: it has none of that name. */
static fw_status type_attribute(fw_jinja *j, const fw_jinja_value *v, const char *name, size_t bytes,
                                fw_jinja_value *out, bool *found) {
    const fw_jinja_function *methods = NULL;
    *found = true;
    if (changes(v, name, bytes))
        return fw_jinja_undefined_hint(j, out, "a chat template may not change lists and dicts (append, update, ...)");
    switch (v->kind) {
    case FW_JINJA_TEXT: methods = fw_jinja_text_methods; break;
    case FW_JINJA_DICT: methods = fw_jinja_dict_methods; break;
    case FW_JINJA_LIST:
        methods = fw_jinja_list_methods;
        if (v->list->is_group &&
            ((bytes == 7 && memcmp(name, "grouper", 7) == 0) || (bytes == 4 && memcmp(name, "list", 4) == 0))) {
            *out = v->list->item[bytes == 4];
            return FW_OK;
        }
        break;
    case FW_JINJA_CYCLER:
        methods = fw_jinja_cycler_methods;
        if (bytes == 7 && memcmp(name, "current", 7) == 0) {
            *out = v->turn->item[v->turn->at];
            return FW_OK;
        }
        break;
    case FW_JINJA_LOOP: return fw_jinja_loop_attribute(j, v, name, bytes, out, found);
    case FW_JINJA_NAMESPACE: {
        const fw_jinja_value *value = fw_jinja_dict_find_text(v->dict, name, bytes);
        if ((*found = value != NULL)) *out = *value;
        return FW_OK;
    }
    case FW_JINJA_MACRO:
        if (bytes == 4 && memcmp(name, "name", 4) == 0 && v->macro->definition->name != NULL)
            return fw_jinja_text_of(j->memory, out, v->macro->definition->name->text, v->macro->definition->name->bytes,
                                    fw_jinja_own_origin(j), false);
        break;
    default: break;
    }
    const fw_jinja_function *method = methods ? fw_jinja_find_function(methods, name, bytes) : NULL;
    if (method == NULL && v->kind == FW_JINJA_TEXT)
        method = fw_jinja_find_function(fw_jinja_text_class_methods, name, bytes);
    if (method == NULL || (v->kind == FW_JINJA_LIST && v->list->kind > FW_JINJA_IS_RANGE)) {
        *found = false;
        return FW_OK;
    }
    return fw_jinja_bind(j, method, v, out);
}

static fw_status list_item(fw_jinja *j, const fw_jinja_value *v, int64_t index, fw_jinja_value *out, bool *found) {
    (void)j;
    int64_t n = (int64_t)v->list->n;
    if (index < 0) index += n;
    *found = index >= 0 && index < n;
    if (*found) *out = v->list->item[index];
    return FW_OK;
}

static fw_status text_item(fw_jinja *j, const fw_jinja_value *v, int64_t index, fw_jinja_value *out, bool *found) {
    int64_t n = (int64_t)fw_jinja_char_n(v->text);
    if (index < 0) index += n;
    *found = index >= 0 && index < n;
    if (!*found) return FW_OK;
    size_t at = (size_t)index;
    if (n != (int64_t)v->text->bytes) {
        FW_TRY(fw_jinja_spend(j, v->text->bytes));
        at = fw_jinja_char_offset(v->text->data, v->text->bytes, at);
    }
    uint32_t code;
    return fw_jinja_part(j->memory, v, at, at + fw_utf8_next(&code, v->text->data + at), out);
}

static bool is_indexed(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_LIST && v->list->kind <= FW_JINJA_IS_RANGE;
}

/* v[key] by Python's own rule. */
static fw_status own_item(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *key, fw_jinja_value *out,
                          bool *found) {
    *found = false;
    if (v->kind == FW_JINJA_DICT && fw_jinja_is_hashable(key)) {
        if (key->kind == FW_JINJA_LIST) FW_TRY(fw_jinja_spend(j, 100000));
        const fw_jinja_value *value = fw_jinja_dict_find(v->dict, key);
        if ((*found = value != NULL)) *out = *value;
        return FW_OK;
    }
    if (!fw_jinja_is_integer(key)) return FW_OK;
    if (is_indexed(v)) return list_item(j, v, fw_jinja_as_integer(key), out, found);
    if (v->kind == FW_JINJA_TEXT) return text_item(j, v, fw_jinja_as_integer(key), out, found);
    return FW_OK;
}

fw_status fw_jinja_attribute(fw_jinja *j, const fw_jinja_value *v, const char *name, size_t bytes,
                             fw_jinja_value *out) {
    bool found;
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    FW_TRY(type_attribute(j, v, name, bytes, out, &found));
    if (found) return FW_OK;
    if (v->kind == FW_JINJA_DICT) {
        const fw_jinja_value *value = fw_jinja_dict_find_text(v->dict, name, bytes);
        if (value != NULL) {
            *out = *value;
            return FW_OK;
        }
    }
    return fw_jinja_undefined_attribute(j, out, v, name, bytes);
}

fw_status fw_jinja_item(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *key, fw_jinja_value *out) {
    bool found;
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    FW_TRY(own_item(j, v, key, out, &found));
    if (found) return FW_OK;
    if (key->kind == FW_JINJA_TEXT) {
        FW_TRY(type_attribute(j, v, key->text->data, key->text->bytes, out, &found));
        if (found) return FW_OK;
        return fw_jinja_undefined_attribute(j, out, v, key->text->data, key->text->bytes);
    }
    return fw_jinja_undefined_attribute(j, out, v, "(a number or the like)", 22);
}

/* Python's rule for the bounds of a slice of n: start and stop moved into range. */
static fw_status slice_bounds(fw_jinja *j, const fw_jinja_value bound[3], int64_t n, int64_t *start, int64_t *stop,
                              int64_t *step) {
    static const char what[] = "a bound of a slice";
    int64_t *out[3] = {start, stop, step};
    bool given[3];
    for (int i = 0; i < 3; i++) {
        given[i] = fw_jinja_has(&bound[i]);
        *out[i] = 1;
        if (given[i]) FW_TRY(fw_jinja_need_int(j, &bound[i], 0, what, out[i]));
    }
    if (*step == 0) return fw_jinja_fail(j, "the step of a slice is 0");
    if (*step < -n - 1) *step = -n - 1; /* further does not matter */
    if (*step > n + 1) *step = n + 1;
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        if (!given[i]) {
            *out[i] = (i == 0) == (*step > 0) ? low : high;
            continue;
        }
        if (*out[i] < 0) *out[i] = *out[i] < -n ? low : *out[i] + n;
        if (*out[i] < low) *out[i] = low;
        if (*out[i] > high) *out[i] = high;
    }
    return FW_OK;
}

static fw_status slice_text(fw_jinja *j, const fw_jinja_value *v, int64_t start, int64_t stop, int64_t step,
                            fw_jinja_value *out) {
    const fw_jinja_text *text = v->text;
    FW_TRY(fw_jinja_spend(j, text->bytes));
    if (step == 1) {
        size_t from = fw_jinja_char_offset(text->data, text->bytes, (size_t)start), to = text->bytes;
        if (stop <= start)
            to = from;
        else if (stop < (int64_t)fw_jinja_char_n(v->text))
            to = from + fw_jinja_char_offset(text->data + from, text->bytes - from, (size_t)(stop - start));
        return fw_jinja_part(j->memory, v, from, to, out);
    }
    fw_jinja_value *letters;
    size_t n;
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    FW_TRY(fw_jinja_items(j, v, &letters, &n));
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) FW_TRY(fw_jinja_put_text(&b, &letters[i]));
    return fw_jinja_builder_finish(&b, out);
}

fw_status fw_jinja_slice(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value bound[3], fw_jinja_value *out) {
    int64_t start, stop, step;
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (!is_indexed(v) && v->kind != FW_JINJA_TEXT)
        return fw_jinja_fail(j, "a value of type %s has no slices", fw_jinja_type_name(v));
    int64_t n = v->kind == FW_JINJA_TEXT ? (int64_t)fw_jinja_char_n(v->text) : (int64_t)v->list->n;
    FW_TRY(slice_bounds(j, bound, n, &start, &stop, &step));
    if (v->kind == FW_JINJA_TEXT) return slice_text(j, v, start, stop, step, out);
    int64_t distance = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
    int64_t count = distance > 0 ? (distance - 1) / stride + 1 : 0;
    FW_TRY(fw_jinja_spend(j, (size_t)count));
    fw_jinja_value *item = count > 0 ? v->list->item + start : NULL;
    if (step != 1 && count > 0) {
        FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, item, (size_t)count));
        for (int64_t i = 0; i < count; i++) item[i] = v->list->item[start + i * step];
    }
    FW_TRY(fw_jinja_wrap(j, v->list->kind, item, (size_t)count, out));
    out->origin = v->origin;
    if (v->list->kind == FW_JINJA_IS_RANGE) {
        const int64_t *r = v->list->range;
        uint64_t first = (uint64_t)r[0], apart = (uint64_t)r[2]; /* may wrap when there is nothing in it */
        int64_t range[3] = {(int64_t)(first + (uint64_t)start * apart), (int64_t)(first + (uint64_t)stop * apart),
                            (int64_t)(apart * (uint64_t)step)};
        memcpy(out->list->range, range, sizeof range);
    }
    return FW_OK;
}
