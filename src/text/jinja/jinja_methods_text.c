/* Methods of str. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_strings.h"
#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <string.h>

#define METHOD(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

METHOD(upper) { return fw_jinja_recase(j, c->self, FW_JINJA_ALL_UPPER, out); }
METHOD(lower) { return fw_jinja_recase(j, c->self, FW_JINJA_ALL_LOWER, out); }
METHOD(casefold) { return fw_jinja_recase(j, c->self, FW_JINJA_FOLDED, out); }
METHOD(title) { return fw_jinja_recase(j, c->self, FW_JINJA_EACH_WORD, out); }
METHOD(capitalize) { return fw_jinja_recase(j, c->self, FW_JINJA_FIRST_ONLY, out); }
METHOD(swapcase) { return fw_jinja_recase(j, c->self, FW_JINJA_SWAPPED, out); }

static fw_status stripped(fw_jinja *j, const fw_jinja_call *c, bool left, bool right, fw_jinja_value *out) {
    bool has = fw_jinja_has(&c->v[0]);
    if (has) FW_TRY(fw_jinja_need_text(j, &c->v[0], "the argument of strip"));
    return fw_jinja_strip(j, c->self, has ? &c->v[0] : NULL, left, right, out);
}
METHOD(strip) { return stripped(j, c, true, true, out); }
METHOD(lstrip) { return stripped(j, c, true, false, out); }
METHOD(rstrip) { return stripped(j, c, false, true, out); }

static fw_status split_at(fw_jinja *j, const fw_jinja_call *c, bool right, fw_jinja_value *out) {
    int64_t most;
    bool has = fw_jinja_has(&c->v[0]);
    if (has) FW_TRY(fw_jinja_need_text(j, &c->v[0], "the separator of split"));
    FW_TRY(fw_jinja_need_int(j, &c->v[1], -1, "the limit of split", &most));
    const fw_jinja_value *separator = has ? &c->v[0] : NULL;
    return right ? fw_jinja_split_right(j, c->self, separator, most, out)
                 : fw_jinja_split(j, c->self, separator, most, out);
}
METHOD(split) { return split_at(j, c, false, out); }
METHOD(rsplit) { return split_at(j, c, true, out); }
METHOD(splitlines) { return fw_jinja_split_lines(j, c->self, fw_jinja_truth(&c->v[0]), out); }

METHOD(replace) {
    int64_t most;
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "what replace looks for"));
    FW_TRY(fw_jinja_need_text(j, &c->v[1], "what replace puts"));
    FW_TRY(fw_jinja_need_int(j, &c->v[2], -1, "the count of replace", &most));
    return fw_jinja_replace(j, c->self, &c->v[0], &c->v[1], most, out);
}

METHOD(join) {
    fw_jinja_value *item;
    size_t n;
    FW_TRY(fw_jinja_items(j, &c->v[0], &item, &n));
    return fw_jinja_join(j, c->self, item, n, false, out);
}

/* The part of the text that arguments from, to (as in a slice) mean, in bytes; false: there is none. */
static fw_status window(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *from, const fw_jinja_value *to,
                        size_t *start, size_t *end, bool *some) {
    int64_t n = (int64_t)fw_jinja_char_n(text->text), first = 0, last = n;
    if (fw_jinja_has(from)) FW_TRY(fw_jinja_need_int(j, from, 0, "the start of a search", &first));
    if (fw_jinja_has(to)) FW_TRY(fw_jinja_need_int(j, to, 0, "the end of a search", &last));
    if (first < 0) first = first < -n ? 0 : first + n;
    if (last < 0) last = last < -n ? 0 : last + n;
    if (last > n) last = n;
    *some = first <= last;
    *start = *end = 0;
    if (!*some) return FW_OK;
    FW_TRY(fw_jinja_spend(j, text->text->bytes));
    *start = fw_jinja_char_offset(text->text->data, text->text->bytes, (size_t)first);
    *end = fw_jinja_char_offset(text->text->data, text->text->bytes, (size_t)last);
    return FW_OK;
}

static fw_status begins_or_ends(fw_jinja *j, const fw_jinja_call *c, bool ends, fw_jinja_value *out) {
    const fw_jinja_value *one = &c->v[0];
    size_t n = 1, start, end;
    bool some, found = false;
    FW_TRY(window(j, c->self, &c->v[1], &c->v[2], &start, &end, &some));
    if (one->kind == FW_JINJA_LIST && one->list->kind == FW_JINJA_IS_TUPLE) {
        n = one->list->n;
        one = one->list->item;
    }
    for (size_t i = 0; i < n && !found; i++) {
        FW_TRY(fw_jinja_need_text(j, &one[i], "what a text begins or ends with"));
        const fw_jinja_text *text = one[i].text;
        found = some && text->bytes <= end - start &&
                memcmp(c->self->text->data + (ends ? end - text->bytes : start), text->data, text->bytes) == 0;
    }
    *out = fw_jinja_bool(found);
    return FW_OK;
}
METHOD(startswith) { return begins_or_ends(j, c, false, out); }
METHOD(endswith) { return begins_or_ends(j, c, true, out); }

static fw_status found_at(fw_jinja *j, const fw_jinja_call *c, bool last, bool must, fw_jinja_value *out) {
    size_t start, end;
    bool some;
    int64_t at = -1;
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "what is looked for"));
    FW_TRY(window(j, c->self, &c->v[1], &c->v[2], &start, &end, &some));
    if (last) FW_TRY(fw_jinja_spend(j, (end - start) * (c->v[0].text->bytes / 16 + 1)));
    if (some)
        at = last ? fw_jinja_find_last(c->self->text, start, end, c->v[0].text)
                  : fw_jinja_find(c->self->text, start, end, c->v[0].text);
    if (at < 0 && must) return fw_jinja_fail(j, "index: the text that is looked for is not there");
    *out = fw_jinja_int(at < 0 ? -1 : (int64_t)fw_jinja_count_chars(c->self->text->data, (size_t)at));
    return FW_OK;
}
METHOD(find) { return found_at(j, c, false, false, out); }
METHOD(rfind) { return found_at(j, c, true, false, out); }
METHOD(index) { return found_at(j, c, false, true, out); }
METHOD(rindex) { return found_at(j, c, true, true, out); }

METHOD(count) {
    size_t start, end;
    bool some;
    int64_t n = 0;
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "what is counted"));
    FW_TRY(window(j, c->self, &c->v[1], &c->v[2], &start, &end, &some));
    if (some && c->v[0].text->bytes == 0)
        n = (int64_t)fw_jinja_count_chars(c->self->text->data + start, end - start) + 1;
    while (some && c->v[0].text->bytes > 0) {
        int64_t at = fw_jinja_find(c->self->text, start, end, c->v[0].text);
        if (at < 0) break;
        n++;
        start = (size_t)at + c->v[0].text->bytes;
    }
    *out = fw_jinja_int(n);
    return FW_OK;
}

static fw_status parted(fw_jinja *j, const fw_jinja_call *c, bool last, fw_jinja_value *out) {
    fw_jinja_list *three;
    size_t n = c->self->text->bytes;
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "the separator of partition"));
    if (c->v[0].text->bytes == 0) return fw_jinja_fail(j, "a text is parted at an empty separator");
    FW_TRY(fw_jinja_spend(j, n * (c->v[0].text->bytes / 16 + 1)));
    int64_t at =
        last ? fw_jinja_find_last(c->self->text, 0, n, c->v[0].text) : fw_jinja_find(c->self->text, 0, n, c->v[0].text);
    FW_TRY(fw_jinja_list_make(j->memory, &three, FW_JINJA_IS_TUPLE, 3));
    size_t first = at >= 0 ? (size_t)at : last ? 0 : n, second = at >= 0 ? first + c->v[0].text->bytes : first;
    FW_TRY(fw_jinja_part(j->memory, c->self, 0, first, &three->item[0]));
    FW_TRY(fw_jinja_part(j->memory, c->self, first, second, &three->item[1]));
    FW_TRY(fw_jinja_part(j->memory, c->self, second, n, &three->item[2]));
    *out = (fw_jinja_value){.kind = FW_JINJA_LIST, .origin = fw_jinja_own_origin(j), .list = three};
    return FW_OK;
}
METHOD(partition) { return parted(j, c, false, out); }
METHOD(rpartition) { return parted(j, c, true, out); }

static fw_status without(fw_jinja *j, const fw_jinja_call *c, bool end, fw_jinja_value *out) {
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "what is removed"));
    size_t n = c->self->text->bytes, m = c->v[0].text->bytes;
    bool there = m <= n && memcmp(c->self->text->data + (end ? n - m : 0), c->v[0].text->data, m) == 0;
    if (!there) m = 0;
    return fw_jinja_part(j->memory, c->self, end ? 0 : m, end ? n - m : n, out);
}
METHOD(removeprefix) { return without(j, c, false, out); }
METHOD(removesuffix) { return without(j, c, true, out); }

static fw_status padded(fw_jinja *j, const fw_jinja_call *c, int side, fw_jinja_value *out) {
    fw_jinja_value fill = c->v[1];
    int64_t width;
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 0, "the width", &width));
    if (!fw_jinja_given(&fill)) FW_TRY(fw_jinja_text_of(j->memory, &fill, " ", 1, fw_jinja_own_origin(j), false));
    FW_TRY(fw_jinja_need_text(j, &fill, "what is filled in"));
    if (fw_jinja_char_n(fill.text) != 1) return fw_jinja_fail(j, "what is filled in must be one character");
    int64_t missing = width - (int64_t)fw_jinja_char_n(c->self->text);
    if (missing < 0) missing = 0;
    int64_t left = side == 0 ? missing / 2 + (missing & width & 1) : side < 0 ? 0 : missing;
    return fw_jinja_pad(j, c->self, (size_t)left, (size_t)(missing - left), &fill, out);
}
METHOD(ljust) { return padded(j, c, -1, out); }
METHOD(rjust) { return padded(j, c, 1, out); }
METHOD(center) { return padded(j, c, 0, out); }

METHOD(zfill) {
    fw_jinja_value zero, sign, rest;
    int64_t width;
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 0, "the width of zfill", &width));
    FW_TRY(fw_jinja_text_of(j->memory, &zero, "0", 1, fw_jinja_own_origin(j), false));
    int64_t missing = width - (int64_t)fw_jinja_char_n(c->self->text);
    bool has_sign = c->self->text->bytes > 0 && (c->self->text->data[0] == '-' || c->self->text->data[0] == '+');
    FW_TRY(fw_jinja_part(j->memory, c->self, 0, has_sign, &sign));
    FW_TRY(fw_jinja_part(j->memory, c->self, has_sign, c->self->text->bytes, &rest));
    FW_TRY(fw_jinja_pad(j, &rest, missing > 0 ? (size_t)missing : 0, 0, &zero, &rest));
    return fw_jinja_join_two(j->memory, &sign, &rest, out);
}

/* Is there a character, and is each of this kind? */
static fw_status all_are(fw_jinja *j, const fw_jinja_call *c, bool (*is)(uint32_t), fw_jinja_value *out) {
    const fw_jinja_text *text = c->self->text;
    bool all = text->bytes > 0;
    FW_TRY(fw_jinja_spend(j, 4 * text->bytes));
    for (size_t at = 0; at < text->bytes && all;) {
        uint32_t code;
        at += fw_utf8_next(&code, text->data + at);
        all = is(code);
    }
    *out = fw_jinja_bool(all);
    return FW_OK;
}
static bool is_alnum(uint32_t code) { return fw_jinja_is_alpha(code) || fw_jinja_is_numeric(code); }
METHOD(isspace) { return all_are(j, c, fw_jinja_is_space, out); }
METHOD(isalpha) { return all_are(j, c, fw_jinja_is_alpha, out); }
METHOD(isdecimal) { return all_are(j, c, fw_jinja_is_decimal, out); }
METHOD(isnumeric) { return all_are(j, c, fw_jinja_is_numeric, out); }
METHOD(isdigit) { return all_are(j, c, fw_jinja_is_digit, out); }
METHOD(isalnum) { return all_are(j, c, is_alnum, out); }
METHOD(isupper) {
    FW_TRY(fw_jinja_spend(j, 4 * c->self->text->bytes));
    *out = fw_jinja_bool(fw_jinja_all_cased(c->self->text, true));
    return FW_OK;
}
METHOD(islower) {
    FW_TRY(fw_jinja_spend(j, 4 * c->self->text->bytes));
    *out = fw_jinja_bool(fw_jinja_all_cased(c->self->text, false));
    return FW_OK;
}

METHOD(format) { return fw_jinja_braces(j, c->self, c->args, out); }

const fw_jinja_function fw_jinja_text_methods[] = {
    {"upper", "/", 0, do_upper},
    {"lower", "/", 0, do_lower},
    {"casefold", "/", 0, do_casefold},
    {"title", "/", 0, do_title},
    {"capitalize", "/", 0, do_capitalize},
    {"swapcase", "/", 0, do_swapcase},
    {"strip", "/chars", 0, do_strip},
    {"lstrip", "/chars", 0, do_lstrip},
    {"rstrip", "/chars", 0, do_rstrip},
    {"split", "sep,maxsplit", 0, do_split},
    {"rsplit", "sep,maxsplit", 0, do_rsplit},
    {"splitlines", "keepends", 0, do_splitlines},
    {"replace", "/old,new,count", 2, do_replace},
    {"join", "/iterable", 1, do_join},
    {"startswith", "/prefix,start,end", 1, do_startswith},
    {"endswith", "/suffix,start,end", 1, do_endswith},
    {"find", "/sub,start,end", 1, do_find},
    {"rfind", "/sub,start,end", 1, do_rfind},
    {"index", "/sub,start,end", 1, do_index},
    {"rindex", "/sub,start,end", 1, do_rindex},
    {"count", "/sub,start,end", 1, do_count},
    {"partition", "/sep", 1, do_partition},
    {"rpartition", "/sep", 1, do_rpartition},
    {"removeprefix", "/prefix", 1, do_removeprefix},
    {"removesuffix", "/suffix", 1, do_removesuffix},
    {"ljust", "/width,fillchar", 1, do_ljust},
    {"rjust", "/width,fillchar", 1, do_rjust},
    {"center", "/width,fillchar", 1, do_center},
    {"zfill", "/width", 1, do_zfill},
    {"format", "*", 0, do_format},
    {0},
};
/* What a text is made of. */
const fw_jinja_function fw_jinja_text_class_methods[] = {
    {"isspace", "/", 0, do_isspace},     {"isalpha", "/", 0, do_isalpha},     {"isdigit", "/", 0, do_isdigit},
    {"isdecimal", "/", 0, do_isdecimal}, {"isnumeric", "/", 0, do_isnumeric}, {"isalnum", "/", 0, do_isalnum},
    {"isupper", "/", 0, do_isupper},     {"islower", "/", 0, do_islower},     {0},
};
