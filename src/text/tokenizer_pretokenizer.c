/* pre_tokenizer of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <string.h>

static const char what[] = "pre_tokenizer";

/* The pattern of ByteLevel with use_regex: contractions, words, numbers, the rest, white space. Source: GPT-2. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static fw_status new_step(fw_tokenizer *t, fw_pre_kind kind, fw_pre_step **step, const char *where) {
    if (t->pre.step_n == FW_PRE_STEP_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"pre_tokenizer\" has more than %d steps", where, FW_PRE_STEP_MAX);
    *step = &t->pre.step[t->pre.step_n++];
    **step = (fw_pre_step){.kind = kind};
    return FW_OK;
}

static fw_status new_regex(fw_tokenizer *t, const char *pattern, fw_pre_step **step, const char *where) {
    fw_scan_fn scan = fw_scan_find(pattern);
    FW_TRY(new_step(t, scan ? FW_PRE_SPLIT_SCAN : FW_PRE_SPLIT_REGEX, step, where));
    (*step)->scan = scan;
    if (scan != NULL) return t->pre.classes ? FW_OK : fw_char_classes_create(&t->pre.classes);
    t->pre.has_regex = true;
    return fw_regex_create(&(*step)->regex, pattern, where);
}

static fw_status new_string(fw_tokenizer *t, fw_pre_kind kind, const char *string, fw_pre_step **step,
                            const char *where) {
    FW_TRY(new_step(t, kind, step, where));
    (*step)->string_bytes = strlen(string);
    return fw_strdup(&(*step)->string, string);
}

static fw_status read_behavior(fw_split_behavior *behavior, const json_t *json, const char *fallback,
                               const char *where) {
    static const char *const behaviors[] = {"Isolated",           "Removed",        "Contiguous",
                                            "MergedWithPrevious", "MergedWithNext", NULL};
    const char *name;
    FW_TRY(fw_json_get_string(&name, json, "behavior", fallback, where));
    int b = 0;
    while (behaviors[b] != NULL && strcmp(behaviors[b], name) != 0) b++;
    if (behaviors[b] == NULL)
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"pre_tokenizer.behavior\" is \"%.40s\"; Isolated, Removed, Contiguous, "
                       "MergedWithPrevious and MergedWithNext are known",
                       where, name);
    *behavior = (fw_split_behavior)b;
    return FW_OK;
}

static fw_status read_split(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "pattern", "behavior", "invert", NULL};
    const char *regex, *string;
    fw_split_behavior behavior = FW_SPLIT_ISOLATED;
    bool invert;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.Split", where));
    FW_TRY(fw_tokenizer_pattern(&regex, &string, json, what, where));
    FW_TRY(read_behavior(&behavior, json, "", where));
    FW_TRY(fw_json_get_bool(&invert, json, "invert", false, where));
    if (regex != NULL)
        FW_TRY(new_regex(t, regex, &step, where));
    else
        FW_TRY(new_string(t, FW_PRE_SPLIT_STRING, string, &step, where));
    step->behavior = behavior;
    step->invert = invert;
    return FW_OK;
}

static fw_status read_byte_level(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool prefix, use_regex;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.ByteLevel", where));
    FW_TRY(fw_json_get_bool(&prefix, json, "add_prefix_space", true, where));
    FW_TRY(fw_json_get_bool(&use_regex, json, "use_regex", true, where)); /* older files have no such key */
    if (prefix) FW_TRY(new_step(t, FW_PRE_PREFIX_SPACE, &step, where));
    if (use_regex) FW_TRY(new_regex(t, byte_level_pattern, &step, where));
    return new_step(t, FW_PRE_BYTE_LEVEL, &step, where);
}

static fw_status read_metaspace(fw_tokenizer *t, const json_t *json, const char *where) {
    const char *replacement;
    fw_prepend prepend = FW_PREPEND_ALWAYS;
    bool split = true;
    FW_TRY(fw_tokenizer_metaspace(&replacement, &prepend, &split, json, what, where));
    fw_pre_step *step = NULL;
    FW_TRY(new_string(t, FW_PRE_METASPACE, replacement, &step, where));
    step->prepend = prepend;
    if (prepend == FW_PREPEND_FIRST) t->norm.wants_head = true;
    if (!split) return FW_OK;
    FW_TRY(new_string(t, FW_PRE_SPLIT_STRING, replacement, &step, where));
    step->behavior = FW_SPLIT_MERGED_WITH_NEXT;
    return FW_OK;
}

static fw_status read_digits(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "individual_digits", NULL};
    bool individual;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.Digits", where));
    FW_TRY(fw_json_get_bool(&individual, json, "individual_digits", false, where));
    FW_TRY(new_step(t, FW_PRE_DIGITS, &step, where));
    step->behavior = individual ? FW_SPLIT_ISOLATED : FW_SPLIT_CONTIGUOUS;
    return FW_OK;
}

static fw_status read_punctuation(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "behavior", NULL};
    fw_split_behavior behavior = FW_SPLIT_ISOLATED;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.Punctuation", where));
    FW_TRY(read_behavior(&behavior, json, "Isolated", where));
    FW_TRY(new_step(t, FW_PRE_PUNCTUATION, &step, where));
    step->behavior = behavior;
    return FW_OK;
}

static fw_status read_whitespace(fw_tokenizer *t, const json_t *json, bool words, const char *where) {
    static const char *const known[] = {"type", NULL};
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.Whitespace", where));
    FW_TRY(new_step(t, words ? FW_PRE_WORDS : FW_PRE_SPACES, &step, where));
    step->behavior = FW_SPLIT_REMOVED;
    step->invert = words;
    return FW_OK;
}

static fw_status read_delimiter(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "delimiter", NULL};
    const char *delimiter;
    fw_pre_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "pre_tokenizer.CharDelimiterSplit", where));
    FW_TRY(fw_tokenizer_character(&delimiter, json, "delimiter", what, where));
    FW_TRY(new_string(t, FW_PRE_SPLIT_STRING, delimiter, &step, where));
    step->behavior = FW_SPLIT_REMOVED;
    return FW_OK;
}

static fw_status read_step(fw_tokenizer *t, const json_t *json, int depth, const char *where) {
    const char *type;
    bool is_sequence = false;
    FW_TRY(fw_tokenizer_step_type(&type, json, what, where));
    if (strcmp(type, "Split") == 0) return read_split(t, json, where);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(t, json, where);
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(t, json, where);
    if (strcmp(type, "Digits") == 0) return read_digits(t, json, where);
    if (strcmp(type, "Punctuation") == 0) return read_punctuation(t, json, where);
    if (strcmp(type, "Whitespace") == 0) return read_whitespace(t, json, true, where);
    if (strcmp(type, "WhitespaceSplit") == 0) return read_whitespace(t, json, false, where);
    if (strcmp(type, "CharDelimiterSplit") == 0) return read_delimiter(t, json, where);
    FW_TRY(fw_tokenizer_sequence(&is_sequence, t, json, "pretokenizers", read_step, depth, what, where));
    if (is_sequence) return FW_OK;
    return fw_tokenizer_refuse(json, what,
                               "null, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                               "CharDelimiterSplit and a Sequence of them are known",
                               where);
}

fw_status fw_tokenizer_read_pretokenizer(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *json = json_object_get(file, "pre_tokenizer");
    return json == NULL || json_is_null(json) ? FW_OK : read_step(t, json, 0, where);
}
