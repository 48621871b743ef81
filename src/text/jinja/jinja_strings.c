#include "text/jinja/jinja_strings.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <string.h>

static bool is_cased(uint32_t code) { return fw_jinja_is_upper(code) || fw_jinja_is_lower(code); }

/* A capital sigma at the end of a word has a small form of its own. */
static bool ends_word(const fw_jinja_text *text, size_t start, size_t end) {
    uint32_t code;
    if (start == 0) return false;
    fw_jinja_char_before(text->data, start, &code);
    if (!is_cased(code)) return false;
    if (end == text->bytes) return true;
    fw_utf8_next(&code, text->data + end);
    return !is_cased(code);
}

static bool begins_word(uint32_t before) {
    return fw_jinja_is_space(before) || (before < 0x80 && strchr("-({[<", (int)before) != NULL);
}

fw_status fw_jinja_recase(fw_jinja *j, const fw_jinja_value *v, fw_jinja_casing how, fw_jinja_value *out) {
    const fw_jinja_text *text = v->text;
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    uint32_t before = ' ';
    FW_TRY(fw_jinja_spend(j, 8 * text->bytes));
    FW_TRY(fw_jinja_builder_reserve(&b, text->bytes));
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code, to[3];
        size_t next = at + fw_utf8_next(&code, text->data + at);
        fw_jinja_case casing = FW_JINJA_LOWER;
        if (how == FW_JINJA_ALL_UPPER || (how == FW_JINJA_SWAPPED && fw_jinja_is_lower(code)) ||
            (how == FW_JINJA_WORDS && begins_word(before)))
            casing = FW_JINJA_UPPER;
        if ((how == FW_JINJA_EACH_WORD && !is_cased(before)) || (how == FW_JINJA_FIRST_ONLY && at == 0))
            casing = FW_JINJA_TITLE;
        if (how == FW_JINJA_FOLDED) casing = FW_JINJA_FOLD;
        if (casing == FW_JINJA_LOWER && code == 0x3a3 && ends_word(text, at, next)) {
            FW_TRY(fw_jinja_put_code(&b, 0x3c2, fw_jinja_origin_at(v, at)));
        } else {
            int n = fw_jinja_change_case(to, code, casing);
            for (int i = 0; i < n; i++) FW_TRY(fw_jinja_put_code(&b, to[i], fw_jinja_origin_at(v, at)));
        }
        before = code;
        at = next;
    }
    return fw_jinja_builder_finish(&b, out);
}

static bool is_stripped(const fw_jinja_value *chars, const char *character, size_t bytes, uint32_t code) {
    if (chars == NULL) return fw_jinja_is_space(code);
    for (size_t at = 0; at + bytes <= chars->text->bytes;) {
        if (memcmp(chars->text->data + at, character, bytes) == 0) return true;
        at += fw_utf8_next(&code, chars->text->data + at);
    }
    return false;
}

fw_status fw_jinja_strip(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *chars, bool left, bool right,
                         fw_jinja_value *out) {
    const char *data = v->text->data;
    size_t start = 0, end = v->text->bytes, work = 1;
    uint32_t code;
    if (chars != NULL) work += chars->text->bytes;
    while (left && start < end) {
        size_t n = fw_utf8_next(&code, data + start);
        if (!is_stripped(chars, data + start, n, code)) break;
        start += n;
        FW_TRY(fw_jinja_spend(j, work));
    }
    while (right && end > start) {
        size_t before = fw_jinja_char_before(data, end, &code);
        if (!is_stripped(chars, data + before, end - before, code)) break;
        end = before;
        FW_TRY(fw_jinja_spend(j, work));
    }
    return fw_jinja_part(j->memory, v, start, end, out);
}

/* An empty text is found before each character and at the end. */
static fw_status insert_everywhere(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *with, int64_t most,
                                   fw_jinja_value *out) {
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    size_t at = 0;
    for (; most != 0; most--) {
        uint32_t code;
        FW_TRY(fw_jinja_spend(j, with->text->bytes));
        FW_TRY(fw_jinja_put_text(&b, with));
        if (at == v->text->bytes) break;
        size_t n = fw_utf8_next(&code, v->text->data + at);
        FW_TRY(fw_jinja_put_part(&b, v, at, at + n));
        at += n;
    }
    FW_TRY(fw_jinja_put_part(&b, v, at, v->text->bytes));
    return fw_jinja_builder_finish(&b, out);
}

fw_status fw_jinja_replace(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *old, const fw_jinja_value *with,
                           int64_t most, fw_jinja_value *out) {
    if (old->text->bytes == 0) return insert_everywhere(j, v, with, most, out);
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    size_t at = 0, end = v->text->bytes;
    FW_TRY(fw_jinja_spend(j, end));
    for (; most != 0; most--) {
        int64_t found = fw_jinja_find(v->text, at, end, old->text);
        if (found < 0) break;
        FW_TRY(fw_jinja_spend(j, with->text->bytes));
        FW_TRY(fw_jinja_put_part(&b, v, at, (size_t)found));
        FW_TRY(fw_jinja_put_text(&b, with));
        at = (size_t)found + old->text->bytes;
    }
    if (at == 0) {
        *out = *v;
        return FW_OK;
    }
    FW_TRY(fw_jinja_put_part(&b, v, at, end));
    return fw_jinja_builder_finish(&b, out);
}

/* Values that come one after the other. */
typedef struct gathering {
    fw_jinja *j;
    fw_jinja_value *item;
    size_t n, cap;
} gathering;

static fw_status gather(gathering *g, const fw_jinja_value *text, size_t start, size_t end) {
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 8;
        fw_jinja_value *wider;
        FW_TRY(FW_JINJA_NEW_ARRAY(g->j->memory, wider, cap));
        if (g->n) memcpy(wider, g->item, g->n * sizeof *wider);
        g->item = wider;
        g->cap = cap;
    }
    FW_TRY(fw_jinja_spend(g->j, 64));
    return fw_jinja_part(g->j->memory, text, start, end, &g->item[g->n++]);
}

static fw_status gathered(gathering *g, bool reversed, fw_jinja_value *out) {
    for (size_t a = 0, b = g->n; reversed && a + 1 < b; a++, b--) {
        fw_jinja_value held = g->item[a];
        g->item[a] = g->item[b - 1];
        g->item[b - 1] = held;
    }
    return fw_jinja_wrap(g->j, FW_JINJA_IS_LIST, g->item, g->n, out);
}

/* The end of the white space (or of what is none) that starts at `at`. */
static size_t skip(const fw_jinja_text *text, size_t at, bool space) {
    while (at < text->bytes) {
        uint32_t code;
        size_t n = fw_utf8_next(&code, text->data + at);
        if (fw_jinja_is_space(code) != space) break;
        at += n;
    }
    return at;
}

static size_t skip_back(const fw_jinja_text *text, size_t at, bool space) {
    while (at > 0) {
        uint32_t code;
        size_t before = fw_jinja_char_before(text->data, at, &code);
        if (fw_jinja_is_space(code) != space) break;
        at = before;
    }
    return at;
}

fw_status fw_jinja_split(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *separator, int64_t most,
                         fw_jinja_value *out) {
    gathering g = {.j = j};
    const fw_jinja_text *text = v->text;
    FW_TRY(fw_jinja_spend(j, text->bytes * 4));
    if (separator == NULL) {
        for (size_t at = skip(text, 0, true); at < text->bytes; most--) {
            size_t end = most == 0 ? text->bytes : skip(text, at, false);
            FW_TRY(gather(&g, v, at, end));
            if (most == 0) break;
            at = skip(text, end, true);
        }
        return gathered(&g, false, out);
    }
    if (separator->text->bytes == 0) return fw_jinja_fail(j, "a text is split at an empty separator");
    size_t at = 0;
    for (; most != 0; most--) {
        int64_t found = fw_jinja_find(text, at, text->bytes, separator->text);
        if (found < 0) break;
        FW_TRY(gather(&g, v, at, (size_t)found));
        at = (size_t)found + separator->text->bytes;
    }
    FW_TRY(gather(&g, v, at, text->bytes));
    return gathered(&g, false, out);
}

fw_status fw_jinja_split_right(fw_jinja *j, const fw_jinja_value *v, const fw_jinja_value *separator, int64_t most,
                               fw_jinja_value *out) {
    gathering g = {.j = j};
    const fw_jinja_text *text = v->text;
    if (separator == NULL) {
        FW_TRY(fw_jinja_spend(j, text->bytes * 4));
        for (size_t at = skip_back(text, text->bytes, true); at > 0; most--) {
            size_t start = most == 0 ? 0 : skip_back(text, at, false);
            FW_TRY(gather(&g, v, start, at));
            if (most == 0) break;
            at = skip_back(text, start, true);
        }
        return gathered(&g, true, out);
    }
    if (separator->text->bytes == 0) return fw_jinja_fail(j, "a text is split at an empty separator");
    FW_TRY(fw_jinja_spend(j, text->bytes * (separator->text->bytes / 16 + 1)));
    size_t end = text->bytes;
    for (; most != 0; most--) {
        int64_t found = fw_jinja_find_last(text, 0, end, separator->text);
        if (found < 0) break;
        FW_TRY(gather(&g, v, (size_t)found + separator->text->bytes, end));
        end = (size_t)found;
    }
    FW_TRY(gather(&g, v, 0, end));
    return gathered(&g, true, out);
}

fw_status fw_jinja_split_lines(fw_jinja *j, const fw_jinja_value *v, bool keep_ends, fw_jinja_value *out) {
    gathering g = {.j = j};
    const fw_jinja_text *text = v->text;
    size_t start = 0;
    FW_TRY(fw_jinja_spend(j, text->bytes * 4));
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        size_t next = at + fw_utf8_next(&code, text->data + at);
        if (fw_jinja_is_line_end(code)) {
            if (code == '\r' && next < text->bytes && text->data[next] == '\n') next++;
            FW_TRY(gather(&g, v, start, keep_ends ? next : at));
            start = next;
        }
        at = next;
    }
    if (start < text->bytes) FW_TRY(gather(&g, v, start, text->bytes));
    return gathered(&g, false, out);
}

fw_status fw_jinja_join(fw_jinja *j, const fw_jinja_value *separator, const fw_jinja_value *item, size_t n,
                        bool convert, fw_jinja_value *out) {
    fw_jinja_builder b = {.memory = j->memory, .uniform = fw_jinja_own_origin(j)};
    for (size_t i = 0; i < n; i++) {
        if (i > 0) FW_TRY(fw_jinja_put_str(j, &b, separator));
        if (!convert && item[i].kind != FW_JINJA_TEXT)
            return fw_jinja_fail(j, "a value of type %s among texts that are joined", fw_jinja_type_name(&item[i]));
        FW_TRY(fw_jinja_put_str(j, &b, &item[i]));
    }
    return fw_jinja_builder_finish(&b, out);
}

fw_status fw_jinja_pad(fw_jinja *j, const fw_jinja_value *v, size_t left, size_t right, const fw_jinja_value *fill,
                       fw_jinja_value *out) {
    fw_jinja_builder b = {.memory = j->memory, .uniform = v->origin};
    FW_TRY(fw_jinja_spend(j, 4 * (left + right)));
    if (left + right > j->memory->limit_bytes) return fw_jinja_fail(j, "a text is made too wide");
    for (size_t i = 0; i < left; i++) FW_TRY(fw_jinja_put_text(&b, fill));
    FW_TRY(fw_jinja_put_text(&b, v));
    for (size_t i = 0; i < right; i++) FW_TRY(fw_jinja_put_text(&b, fill));
    return fw_jinja_builder_finish(&b, out);
}
