/* Filters of texts. What is no text is printed first. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_strings.h"
#include "text/jinja/jinja_unicode.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

#define FILTER(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

static fw_status recased(fw_jinja *j, const fw_jinja_call *c, fw_jinja_casing how, fw_jinja_value *out) {
    fw_jinja_value text;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    return fw_jinja_recase(j, &text, how, out);
}
FILTER(upper) { return recased(j, c, FW_JINJA_ALL_UPPER, out); }
FILTER(lower) { return recased(j, c, FW_JINJA_ALL_LOWER, out); }
FILTER(capitalize) { return recased(j, c, FW_JINJA_FIRST_ONLY, out); }
FILTER(title) { return recased(j, c, FW_JINJA_WORDS, out); }

FILTER(string) { return fw_jinja_to_text(j, c->self, out); }

FILTER(trim) {
    fw_jinja_value text;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    if (fw_jinja_has(&c->v[0])) FW_TRY(fw_jinja_need_text(j, &c->v[0], "the argument of trim"));
    return fw_jinja_strip(j, &text, fw_jinja_has(&c->v[0]) ? &c->v[0] : NULL, true, true, out);
}

FILTER(replace) {
    fw_jinja_value text, old, with;
    int64_t most = -1;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    FW_TRY(fw_jinja_to_text(j, &c->v[0], &old));
    FW_TRY(fw_jinja_to_text(j, &c->v[1], &with));
    if (fw_jinja_has(&c->v[2])) FW_TRY(fw_jinja_need_int(j, &c->v[2], -1, "the count of replace", &most));
    return fw_jinja_replace(j, &text, &old, &with, most, out);
}

/* Spaces, or a text of the template's own. */
static fw_status indentation(fw_jinja *j, const fw_jinja_value *width, fw_jinja_value *out) {
    int64_t n;
    if (width->kind == FW_JINJA_TEXT) {
        *out = *width;
        return FW_OK;
    }
    fw_jinja_value space, times;
    FW_TRY(fw_jinja_need_int(j, width, 4, "the width of indent", &n));
    FW_TRY(fw_jinja_text_of(j->memory, &space, " ", 1, fw_jinja_own_origin(j), false));
    times = fw_jinja_int(n);
    return fw_jinja_arithmetic(j, FW_JINJA_MUL, &space, &times, out);
}

FILTER(indent) {
    fw_jinja_value in, line_end, text, lines;
    bool first = fw_jinja_truth(&c->v[1]), blank = fw_jinja_truth(&c->v[2]);
    FW_TRY(fw_jinja_need_text(j, c->self, "what indent works on"));
    FW_TRY(indentation(j, &c->v[0], &in));
    FW_TRY(fw_jinja_text_of(j->memory, &line_end, "\n", 1, fw_jinja_own_origin(j), false));
    FW_TRY(fw_jinja_join_two(j->memory, c->self, &line_end, &text)); /* so that an empty last line counts */
    FW_TRY(fw_jinja_split_lines(j, &text, false, &lines));
    fw_jinja_builder b = {.memory = j->memory, .uniform = c->self->origin};
    if (first) FW_TRY(fw_jinja_put_text(&b, &in));
    for (size_t i = 0; i < lines.list->n; i++) {
        const fw_jinja_value *line = &lines.list->item[i];
        if (i > 0) FW_TRY(fw_jinja_put_text(&b, &line_end));
        FW_TRY(fw_jinja_spend(j, in.text->bytes));
        if (i > 0 && (blank || line->text->bytes > 0)) FW_TRY(fw_jinja_put_text(&b, &in));
        FW_TRY(fw_jinja_put_text(&b, line));
    }
    return fw_jinja_builder_finish(&b, out);
}

FILTER(truncate) {
    fw_jinja_value end = c->v[2], part, space, words;
    int64_t length, leeway = 5;
    size_t whole_n;
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 255, "the length of truncate", &length));
    if (fw_jinja_has(&c->v[3])) FW_TRY(fw_jinja_need_int(j, &c->v[3], 5, "the leeway of truncate", &leeway));
    if (!fw_jinja_given(&end)) FW_TRY(fw_jinja_text_of(j->memory, &end, "...", 3, fw_jinja_own_origin(j), false));
    FW_TRY(fw_jinja_need_text(j, &end, "the end of truncate"));
    FW_TRY(fw_jinja_length(j, c->self, &whole_n)); /* what is short enough may be a list */
    int64_t end_n = (int64_t)fw_jinja_char_n(end.text), n = (int64_t)whole_n;
    if (length < end_n || leeway < 0)
        return fw_jinja_fail(j, "truncate to %lld characters: that is less than its end has", (long long)length);
    if (n <= length || n - length <= leeway) {
        *out = *c->self;
        return FW_OK;
    }
    FW_TRY(fw_jinja_need_text(j, c->self, "what truncate works on"));
    fw_jinja_value bound[3] = {{0}, fw_jinja_int(length - end_n), {0}};
    FW_TRY(fw_jinja_slice(j, c->self, bound, &part));
    if (!fw_jinja_truth(&c->v[1])) { /* back to the last whole word */
        FW_TRY(fw_jinja_text_of(j->memory, &space, " ", 1, 0, false));
        FW_TRY(fw_jinja_split_right(j, &part, &space, 1, &words));
        part = words.list->item[0];
    }
    return fw_jinja_join_two(j->memory, &part, &end, out);
}

FILTER(center) {
    fw_jinja_value text, space;
    int64_t width;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    FW_TRY(fw_jinja_need_int(j, &c->v[0], 80, "the width of center", &width));
    FW_TRY(fw_jinja_text_of(j->memory, &space, " ", 1, fw_jinja_own_origin(j), false));
    int64_t missing = width - (int64_t)fw_jinja_char_n(text.text);
    if (missing < 0) missing = 0;
    int64_t left = missing / 2 + (missing & width & 1);
    return fw_jinja_pad(j, &text, (size_t)left, (size_t)(missing - left), &space, out);
}

FILTER(wordcount) {
    fw_jinja_value text;
    int64_t n = 0;
    bool inside = false;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    FW_TRY(fw_jinja_spend(j, 8 * text.text->bytes));
    for (size_t at = 0; at < text.text->bytes;) {
        uint32_t code;
        at += fw_utf8_next(&code, text.text->data + at);
        bool word = fw_unicode_is_word(code);
        n += word && !inside;
        inside = word;
    }
    *out = fw_jinja_int(n);
    return FW_OK;
}

FILTER(escape) {
    static const char special[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    fw_jinja_value text;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    fw_jinja_builder b = {.memory = j->memory, .uniform = text.origin};
    FW_TRY(fw_jinja_spend(j, text.text->bytes));
    for (size_t i = 0; i < text.text->bytes; i++) {
        const char *found = memchr(special, text.text->data[i], sizeof special - 1);
        if (found == NULL)
            FW_TRY(fw_jinja_put_part(&b, &text, i, i + 1));
        else
            FW_TRY(fw_jinja_put(&b, to[found - special], strlen(to[found - special]), fw_jinja_origin_at(&text, i)));
    }
    return fw_jinja_builder_finish(&b, out);
}

FILTER(format) {
    fw_jinja_value text, values;
    FW_TRY(fw_jinja_to_text(j, c->self, &text));
    if (c->args->keyword_n == 0) {
        FW_TRY(fw_jinja_wrap(j, FW_JINJA_IS_TUPLE, c->args->value, c->args->n, &values));
        return fw_jinja_percent(j, &text, &values, out);
    }
    if (c->args->n > 0) return fw_jinja_fail(j, "format takes values by place or by name, not both");
    fw_jinja_dict *dict;
    FW_TRY(fw_jinja_dict_make(j->memory, &dict, c->args->keyword_n));
    FW_TRY(fw_jinja_put_keywords(j, dict, c->args));
    values = (fw_jinja_value){.kind = FW_JINJA_DICT, .dict = dict};
    return fw_jinja_percent(j, &text, &values, out);
}

const fw_jinja_function fw_jinja_text_filters[] = {
    {"upper", "", 0, do_upper},
    {"lower", "", 0, do_lower},
    {"capitalize", "", 0, do_capitalize},
    {"title", "", 0, do_title},
    {"string", "", 0, do_string},
    {"safe", "", 0, do_string},
    {"trim", "chars", 0, do_trim},
    {"replace", "old,new,count", 2, do_replace},
    {"indent", "width,first,blank", 0, do_indent},
    {"truncate", "length,killwords,end,leeway", 0, do_truncate},
    {"center", "width", 0, do_center},
    {"wordcount", "", 0, do_wordcount},
    {"escape", "", 0, do_escape},
    {"e", "", 0, do_escape},
    {"forceescape", "", 0, do_escape},
    {"format", "*", 0, do_format},
    {0},
};
