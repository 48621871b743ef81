/* normalizer, pre_tokenizer, post_processor and decoder of tokenizer.json: what is not known is refused. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

/* The pattern of ByteLevel with use_regex: contractions, words, numbers, the rest, white space. Source: GPT-2. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

fw_status fw_tokenizer_refuse(const json_t *value, const char *what, const char *expected, const char *where) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    fw_status status = fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %.80s; %s", where, what, text ? text : "unknown", expected);
    fw_free(text);
    return status;
}

fw_status fw_tokenizer_check_keys(const json_t *object, const char *const *known, const char *what, const char *where) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        int i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) i++;
        if (known[i] != NULL) continue;
        char name[128];
        snprintf(name, sizeof name, "%s.%.60s", what, key);
        return fw_tokenizer_refuse(value, name, "this key is not known", where);
    }
    return FW_OK;
}

/* *type borrows "type" of a step. */
static fw_status step_type(const char **type, const json_t *step, const char *what, const char *where) {
    if (!json_is_object(step)) return fw_tokenizer_refuse(step, what, "an object with a \"type\" is needed", where);
    FW_TRY(fw_json_get_string(type, step, "type", NULL, where));
    if (*type == NULL) return fw_tokenizer_refuse(step, what, "its \"type\" is missing", where);
    return FW_OK;
}

static fw_status read_normalizer(fw_tokenizer *t, const json_t *step, bool nested, const char *where) {
    static const char *const known[] = {"type", NULL}, *const known_sequence[] = {"type", "normalizers", NULL};
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    if (step == NULL || json_is_null(step)) return FW_OK;
    const char *type;
    FW_TRY(step_type(&type, step, "normalizer", where));
    const json_t *list = json_object_get(step, "normalizers");
    if (strcmp(type, "Sequence") == 0 && !nested && json_is_array(list)) {
        FW_TRY(fw_tokenizer_check_keys(step, known_sequence, "normalizer", where));
        for (size_t i = 0; i < json_array_size(list); i++)
            FW_TRY(read_normalizer(t, json_array_get(list, i), true, where));
        return FW_OK;
    }
    for (int i = 0; i < 4; i++) {
        if (strcmp(type, forms[i]) != 0) continue;
        FW_TRY(fw_tokenizer_check_keys(step, known, "normalizer", where));
        if (t->norm != FW_NORM_NONE)
            return fw_tokenizer_refuse(step, "normalizer", "a second normalisation is not known", where);
        t->norm = (fw_norm_form)(FW_NORM_NFC + i);
        return FW_OK;
    }
    return fw_tokenizer_refuse(step, "normalizer", "null, NFC, NFD, NFKC, NFKD or a Sequence of one of them are known",
                               where);
}

static fw_status new_step(fw_tokenizer *t, fw_pre_kind kind, fw_pre_step **step, const char *where) {
    if (t->step_n == FW_PRE_STEP_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"pre_tokenizer\" has more than %d steps", where, FW_PRE_STEP_MAX);
    *step = &t->step[t->step_n++];
    **step = (fw_pre_step){.kind = kind};
    return FW_OK;
}

static fw_status read_split(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const behaviors[] = {"Isolated",           "Removed",        "Contiguous",
                                            "MergedWithPrevious", "MergedWithNext", NULL};
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.Split", where));
    const json_t *pattern = json_object_get(json, "pattern");
    const char *regex = NULL, *string = NULL, *behavior;
    bool invert;
    if (json_is_object(pattern) && json_object_size(pattern) == 1) {
        FW_TRY(fw_json_get_string(&regex, pattern, "Regex", NULL, where));
        FW_TRY(fw_json_get_string(&string, pattern, "String", NULL, where));
    }
    if (regex == NULL && (string == NULL || string[0] == 0))
        return fw_tokenizer_refuse(json, "pre_tokenizer", "its \"pattern\" must be {\"Regex\": ..} or {\"String\": ..}",
                                   where);
    FW_TRY(fw_json_get_string(&behavior, json, "behavior", "", where));
    FW_TRY(fw_json_get_bool(&invert, json, "invert", false, where));
    int b = 0;
    while (behaviors[b] != NULL && strcmp(behaviors[b], behavior) != 0) b++;
    if (behaviors[b] == NULL)
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"pre_tokenizer.Split.behavior\" is \"%.40s\"; Isolated, Removed, Contiguous, "
                       "MergedWithPrevious and MergedWithNext are known",
                       where, behavior);
    fw_pre_step *step = NULL;
    FW_TRY(new_step(t, regex ? FW_PRE_SPLIT_REGEX : FW_PRE_SPLIT_STRING, &step, where));
    step->behavior = (fw_split_behavior)b;
    step->invert = invert;
    if (regex != NULL) return fw_regex_create(&step->regex, regex, where);
    step->string_bytes = strlen(string);
    return fw_strdup(&step->string, string);
}

static fw_status read_byte_level(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool prefix, use_regex;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.ByteLevel", where));
    FW_TRY(fw_json_get_bool(&prefix, json, "add_prefix_space", true, where));
    FW_TRY(fw_json_get_bool(&use_regex, json, "use_regex", true, where)); /* older files have no such key */
    if (prefix) FW_TRY(new_step(t, FW_PRE_PREFIX_SPACE, &step, where));
    if (!use_regex) return FW_OK;
    FW_TRY(new_step(t, FW_PRE_SPLIT_REGEX, &step, where));
    return fw_regex_create(&step->regex, byte_level_pattern, where);
}

/* *byte_level: ByteLevel was there; it turns text into bytes, so nothing may follow it. */
static fw_status read_pre_tokenizer(fw_tokenizer *t, const json_t *json, bool nested, bool *byte_level,
                                    const char *where) {
    static const char *const known[] = {"type", "pretokenizers", NULL}, *const known_digits[] = {
                                                                            "type", "individual_digits", NULL};
    if (*byte_level) return fw_tokenizer_refuse(json, "pre_tokenizer", "ByteLevel must be the last step", where);
    const char *type;
    FW_TRY(step_type(&type, json, "pre_tokenizer", where));
    if (strcmp(type, "Split") == 0) return read_split(t, json, where);
    if (strcmp(type, "ByteLevel") == 0) {
        *byte_level = true;
        return read_byte_level(t, json, where);
    }
    if (strcmp(type, "Digits") == 0) {
        bool individual;
        fw_pre_step *step = NULL;
        FW_TRY(fw_tokenizer_check_keys(json, known_digits, "pre_tokenizer.Digits", where));
        FW_TRY(fw_json_get_bool(&individual, json, "individual_digits", false, where));
        FW_TRY(new_step(t, FW_PRE_DIGITS, &step, where));
        step->behavior = individual ? FW_SPLIT_ISOLATED : FW_SPLIT_CONTIGUOUS;
        return FW_OK;
    }
    const json_t *list = json_object_get(json, "pretokenizers");
    if (strcmp(type, "Sequence") == 0 && !nested && json_is_array(list)) {
        FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer", where));
        for (size_t i = 0; i < json_array_size(list); i++)
            FW_TRY(read_pre_tokenizer(t, json_array_get(list, i), true, byte_level, where));
        return FW_OK;
    }
    return fw_tokenizer_refuse(json, "pre_tokenizer", "ByteLevel, Split, Digits and a Sequence of them are known",
                               where);
}

static fw_status read_template_special(fw_tokenizer *t, const json_t *special, fw_ids *ids, const json_t *tokens,
                                       const char *where) {
    const char *name = NULL;
    if (json_is_object(special)) FW_TRY(fw_json_get_string(&name, special, "id", NULL, where));
    const json_t *list = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
    if (!json_is_array(list))
        return fw_tokenizer_refuse(special, "post_processor.single",
                                   "its \"id\" must name one of \"special_tokens\" with \"ids\"", where);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) > INT32_MAX ||
            fw_vocab_token(&t->vocab, (int32_t)json_integer_value(id)) == NULL)
            return fw_tokenizer_refuse(id, "post_processor.special_tokens", "it must be an id of the vocabulary",
                                       where);
        FW_TRY(fw_ids_push(ids, (int32_t)json_integer_value(id)));
    }
    return FW_OK;
}

static fw_status read_template(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "single", "pair", "special_tokens", NULL};
    FW_TRY(fw_tokenizer_check_keys(json, known, "post_processor.TemplateProcessing", where));
    const json_t *single = json_object_get(json, "single"), *tokens = json_object_get(json, "special_tokens");
    bool after = false;
    if (!json_is_array(single))
        return fw_tokenizer_refuse(json, "post_processor", "its \"single\" must be an array", where);
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken"), *text = json_object_get(item, "Sequence");
        if (special != NULL && json_object_size(item) == 1) {
            FW_TRY(read_template_special(t, special, after ? &t->after : &t->before, tokens, where));
        } else if (text != NULL && json_object_size(item) == 1 && !after) {
            after = true;
        } else {
            return fw_tokenizer_refuse(item, "post_processor.single", "special tokens around one text are known",
                                       where);
        }
    }
    if (!after) return fw_tokenizer_refuse(json, "post_processor", "its \"single\" leaves out the text", where);
    return FW_OK;
}

static fw_status read_post_processor(fw_tokenizer *t, const json_t *json, bool nested, const char *where) {
    static const char *const known[] = {"type", "processors", NULL};
    if (json == NULL || json_is_null(json)) return FW_OK;
    const char *type;
    FW_TRY(step_type(&type, json, "post_processor", where));
    if (strcmp(type, "ByteLevel") == 0) return FW_OK; /* shifts offsets only */
    if (strcmp(type, "TemplateProcessing") == 0 && t->before.n + t->after.n == 0) return read_template(t, json, where);
    const json_t *list = json_object_get(json, "processors");
    if (strcmp(type, "Sequence") == 0 && !nested && json_is_array(list)) {
        FW_TRY(fw_tokenizer_check_keys(json, known, "post_processor", where));
        for (size_t i = 0; i < json_array_size(list); i++)
            FW_TRY(read_post_processor(t, json_array_get(list, i), true, where));
        return FW_OK;
    }
    return fw_tokenizer_refuse(json, "post_processor",
                               "null, ByteLevel, one TemplateProcessing and a Sequence of them are known", where);
}

fw_status fw_tokenizer_read_steps(fw_tokenizer *t, const json_t *file, const char *where) {
    FW_TRY(read_normalizer(t, json_object_get(file, "normalizer"), false, where));
    bool byte_level = false;
    const json_t *pre = json_object_get(file, "pre_tokenizer"), *decoder = json_object_get(file, "decoder");
    if (pre != NULL && !json_is_null(pre)) FW_TRY(read_pre_tokenizer(t, pre, false, &byte_level, where));
    if (!byte_level)
        return fw_fail(FW_ERR_INPUT, "%s: \"pre_tokenizer\" has no ByteLevel step; only byte-level BPE is known",
                       where);
    const char *type;
    if (decoder == NULL || json_is_null(decoder))
        return fw_fail(FW_ERR_INPUT, "%s: \"decoder\" is missing; ByteLevel is needed", where);
    FW_TRY(step_type(&type, decoder, "decoder", where));
    if (strcmp(type, "ByteLevel") != 0)
        return fw_tokenizer_refuse(decoder, "decoder", "only ByteLevel is known", where);
    return FW_OK;
}

fw_status fw_tokenizer_read_post_processor(fw_tokenizer *t, const json_t *file, const char *where) {
    return read_post_processor(t, json_object_get(file, "post_processor"), false, where);
}
