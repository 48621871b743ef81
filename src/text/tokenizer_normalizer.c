/* normalizer of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <string.h>

static const char what[] = "normalizer";

static fw_status new_step(fw_tokenizer *t, fw_norm_kind kind, fw_norm_step **step, const char *where) {
    if (t->norm.step_n == FW_NORM_STEP_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"normalizer\" has more than %d steps", where, FW_NORM_STEP_MAX);
    *step = &t->norm.step[t->norm.step_n++];
    **step = (fw_norm_step){.kind = kind};
    return FW_OK;
}

/* Those that are a name and nothing else. */
static const struct {
    const char *type;
    fw_norm_kind kind;
} plain[] = {
    {"NFC", FW_NORM_NFC},
    {"NFD", FW_NORM_NFD},
    {"NFKC", FW_NORM_NFKC},
    {"NFKD", FW_NORM_NFKD},
    {"Lowercase", FW_NORM_LOWERCASE},
    {"StripAccents", FW_NORM_STRIP_ACCENTS},
    {"Nmt", FW_NORM_NMT},
    {"ByteLevel", FW_NORM_BYTE_LEVEL},
};

static fw_status read_strip(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "strip_left", "strip_right", NULL};
    fw_norm_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, what, where));
    if (!json_is_boolean(json_object_get(json, "strip_left")) || !json_is_boolean(json_object_get(json, "strip_right")))
        return fw_tokenizer_refuse(json, what, "its \"strip_left\" and \"strip_right\" must be true or false", where);
    FW_TRY(new_step(t, FW_NORM_STRIP, &step, where));
    step->left = json_is_true(json_object_get(json, "strip_left"));
    step->right = json_is_true(json_object_get(json, "strip_right"));
    return FW_OK;
}

static fw_status read_prepend(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "prepend", NULL};
    fw_norm_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, what, where));
    FW_TRY(new_step(t, FW_NORM_PREPEND, &step, where));
    return fw_tokenizer_text(&step->with, &step->with_bytes, json, "prepend", what, where);
}

static fw_status read_replace(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "pattern", "content", NULL};
    const char *regex, *string;
    fw_norm_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, what, where));
    FW_TRY(fw_tokenizer_pattern(&regex, &string, json, what, where));
    FW_TRY(new_step(t, regex ? FW_NORM_REPLACE_REGEX : FW_NORM_REPLACE_STRING, &step, where));
    FW_TRY(fw_tokenizer_text(&step->with, &step->with_bytes, json, "content", what, where));
    if (regex != NULL) return fw_regex_create(&step->regex, regex, where);
    step->find_bytes = strlen(string);
    return fw_strdup(&step->find, string);
}

static fw_status read_step(fw_tokenizer *t, const json_t *json, int depth, const char *where) {
    static const char *const known[] = {"type", NULL};
    const char *type;
    bool is_sequence = false;
    FW_TRY(fw_tokenizer_step_type(&type, json, what, where));
    FW_TRY(fw_tokenizer_sequence(&is_sequence, t, json, "normalizers", read_step, depth, what, where));
    if (is_sequence) return FW_OK;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(type, plain[i].type) != 0) continue;
        fw_norm_step *step = NULL;
        FW_TRY(fw_tokenizer_check_keys(json, known, what, where));
        return new_step(t, plain[i].kind, &step, where);
    }
    if (strcmp(type, "Strip") == 0) return read_strip(t, json, where);
    if (strcmp(type, "Prepend") == 0) return read_prepend(t, json, where);
    if (strcmp(type, "Replace") == 0) return read_replace(t, json, where);
    return fw_tokenizer_refuse(json, what,
                               "null, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, ByteLevel, Prepend, "
                               "Replace and a Sequence of them are known",
                               where);
}

fw_status fw_tokenizer_read_normalizer(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *json = json_object_get(file, "normalizer");
    return json == NULL || json_is_null(json) ? FW_OK : read_step(t, json, 0, where);
}
