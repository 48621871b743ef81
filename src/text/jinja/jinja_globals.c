/* Functions that every template has: those of Jinja, and raise_exception and strftime_now of transformers. */
#include "text/jinja/jinja_call.h"

#include <string.h>

#define GLOBAL(name) static fw_status do_##name(fw_jinja *j, const fw_jinja_call *c, fw_jinja_value *out)

GLOBAL(range) {
    int64_t v[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (fw_jinja_given(&c->v[i])) FW_TRY(fw_jinja_need_int(j, &c->v[i], 0, "an argument of range", &v[i]));
    if (c->args->n == 1) return fw_jinja_range(j, 0, v[0], 1, out);
    return fw_jinja_range(j, v[0], v[1], v[2], out);
}

/* dict(pairs or a dict, name=value, ...) */
static fw_status make_dict(fw_jinja *j, const fw_jinja_args *args, fw_jinja_dict **out) {
    fw_jinja_value *item = NULL;
    size_t n = 0;
    FW_TRY(fw_jinja_dict_make(j->memory, out, 0));
    if (args->n > 1) return fw_jinja_fail(j, "dict takes one value at most beside names");
    if (args->n == 1 && args->value[0].kind == FW_JINJA_DICT) {
        const fw_jinja_dict *from = args->value[0].dict;
        FW_TRY(fw_jinja_spend(j, from->n));
        for (size_t i = 0; i < from->n; i++)
            FW_TRY(fw_jinja_dict_put(j->memory, *out, from->entry[i].key, from->entry[i].value));
    } else if (args->n == 1) {
        FW_TRY(fw_jinja_items(j, &args->value[0], &item, &n));
    }
    for (size_t i = 0; i < n; i++) {
        fw_jinja_value *pair;
        size_t pair_n;
        FW_TRY(fw_jinja_spend(j, 64));
        FW_TRY(fw_jinja_items(j, &item[i], &pair, &pair_n));
        if (pair_n != 2 || !fw_jinja_is_hashable(&pair[0]))
            return fw_jinja_fail(j, "dict needs pairs of a key and a value");
        FW_TRY(fw_jinja_dict_put(j->memory, *out, pair[0], pair[1]));
    }
    return fw_jinja_put_keywords(j, *out, args);
}

GLOBAL(dict) {
    fw_jinja_dict *made;
    FW_TRY(make_dict(j, c->args, &made));
    *out = (fw_jinja_value){.kind = FW_JINJA_DICT, .origin = fw_jinja_own_origin(j), .dict = made};
    return FW_OK;
}

GLOBAL(namespace) {
    fw_jinja_dict *made;
    FW_TRY(make_dict(j, c->args, &made));
    for (size_t i = 0; i < made->n; i++)
        if (made->entry[i].key.kind == FW_JINJA_TEXT && made->entry[i].key.text->bytes > 0 &&
            made->entry[i].key.text->data[0] == '_')
            return fw_jinja_fail(j, "a namespace takes no name that begins with _");
    *out = (fw_jinja_value){.kind = FW_JINJA_NAMESPACE, .origin = fw_jinja_own_origin(j), .dict = made};
    return FW_OK;
}

GLOBAL(cycler) {
    fw_jinja_turn *turn;
    if (c->args->n == 0 || c->args->keyword_n > 0) return fw_jinja_fail(j, "cycler needs values to go through");
    FW_TRY(FW_JINJA_NEW(j->memory, turn));
    *turn = (fw_jinja_turn){c->args->value, c->args->n, 0};
    *out = (fw_jinja_value){.kind = FW_JINJA_CYCLER, .origin = fw_jinja_own_origin(j), .turn = turn};
    return FW_OK;
}

GLOBAL(joiner) {
    fw_jinja_turn *turn;
    FW_TRY(FW_JINJA_NEW(j->memory, turn));
    FW_TRY(FW_JINJA_NEW(j->memory, turn->item));
    turn->n = 1;
    turn->item[0] = c->v[0];
    if (!fw_jinja_given(&c->v[0]))
        FW_TRY(fw_jinja_text_of(j->memory, turn->item, ", ", 2, fw_jinja_own_origin(j), false));
    *out = (fw_jinja_value){.kind = FW_JINJA_JOINER, .origin = fw_jinja_own_origin(j), .turn = turn};
    return FW_OK;
}

GLOBAL(raise_exception) {
    fw_jinja_value text;
    (void)out;
    FW_TRY(fw_jinja_to_text(j, &c->v[0], &text));
    int n = text.text->bytes > 400 ? 400 : (int)text.text->bytes;
    return fw_jinja_fail(j, "the chat template refuses this conversation: %.*s", n, text.text->data);
}

GLOBAL(strftime_now) {
    char format[200], text[1000];
    struct tm when;
    FW_TRY(fw_jinja_need_text(j, &c->v[0], "the format of strftime_now"));
    size_t n = c->v[0].text->bytes;
    if (n >= sizeof format - 1 || memchr(c->v[0].text->data, 0, n) != NULL)
        return fw_jinja_fail(j, "the format of strftime_now is too long");
    memcpy(format, c->v[0].text->data, n);
    format[n] = ' '; /* so that an empty result can be told from one that does not fit */
    format[n + 1] = 0;
    if (localtime_r(&j->now, &when) == NULL) return fw_jinja_fail(j, "the date cannot be told");
    size_t written = strftime(text, sizeof text, format, &when);
    if (written == 0) return fw_jinja_fail(j, "the format of strftime_now gives too long a text");
    return fw_jinja_text_of(j->memory, out, text, written - 1, fw_jinja_own_origin(j), true);
}

const fw_jinja_function fw_jinja_globals[] = {
    {"range", "/start,stop,step", 1, do_range},
    {"dict", "*", 0, do_dict},
    {"namespace", "*", 0, do_namespace},
    {"cycler", "*", 0, do_cycler},
    {"joiner", "sep", 0, do_joiner},
    {"raise_exception", "message", 1, do_raise_exception},
    {"strftime_now", "format", 1, do_strftime_now},
    {0},
};
