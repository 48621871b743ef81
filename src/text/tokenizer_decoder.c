/* decoder of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <string.h>

static const char what[] = "decoder";

static fw_status new_step(fw_tokenizer *t, fw_decode_kind kind, fw_decode_step **step, const char *where) {
    if (t->decode.step_n == FW_DECODE_STEP_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"decoder\" has more than %d steps", where, FW_DECODE_STEP_MAX);
    *step = &t->decode.step[t->decode.step_n++];
    **step = (fw_decode_step){.kind = kind};
    return FW_OK;
}

static fw_status read_replace(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "pattern", "content", NULL};
    const char *regex, *string;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.Replace", where));
    FW_TRY(fw_tokenizer_pattern(&regex, &string, json, what, where));
    FW_TRY(new_step(t, regex ? FW_DECODE_REPLACE_REGEX : FW_DECODE_REPLACE_STRING, &step, where));
    FW_TRY(fw_tokenizer_text(&step->with, &step->with_bytes, json, "content", what, where));
    if (regex != NULL) return fw_regex_create(&step->regex, regex, where);
    step->find_bytes = strlen(string);
    return fw_strdup(&step->find, string);
}

/* The text that a step looks for: of one character, or of any length but none. */
static fw_status read_find(fw_decode_step *step, const json_t *json, const char *key, bool one, const char *where) {
    FW_TRY(fw_tokenizer_text(&step->find, &step->find_bytes, json, key, what, where));
    uint32_t code;
    if (step->find_bytes == 0 || (one && fw_utf8_next(&code, step->find) != step->find_bytes))
        return fw_tokenizer_refuse(json, what, one ? "it needs one character" : "its text must not be empty", where);
    return FW_OK;
}

static fw_status read_strip(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "content", "start", "stop", NULL};
    int64_t start, stop;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.Strip", where));
    FW_TRY(fw_json_need_int(&start, json, "start", 0, INT32_MAX, where));
    FW_TRY(fw_json_need_int(&stop, json, "stop", 0, INT32_MAX, where));
    FW_TRY(new_step(t, FW_DECODE_STRIP, &step, where));
    step->left = (uint32_t)start;
    step->right = (uint32_t)stop;
    return read_find(step, json, "content", true, where);
}

static fw_status read_metaspace(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type",    "replacement", "add_prefix_space", "prepend_scheme", "split",
                                        "str_rep", NULL};
    const char *scheme;
    bool prefix;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.Metaspace", where));
    FW_TRY(fw_json_get_string(&scheme, json, "prepend_scheme", "always", where));
    FW_TRY(fw_json_get_bool(&prefix, json, "add_prefix_space", true, where));
    bool never = strcmp(scheme, "never") == 0;
    if ((!never && strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0) || (!prefix && !never))
        return fw_tokenizer_refuse(json, what,
                                   "its \"prepend_scheme\" must be always, first or never; with \"add_prefix_space\": "
                                   "false it must be never",
                                   where);
    FW_TRY(new_step(t, FW_DECODE_METASPACE, &step, where));
    step->left = !never;
    return read_find(step, json, "replacement", true, where);
}

static fw_status read_word_suffix(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "suffix", NULL};
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.BPEDecoder", where));
    FW_TRY(new_step(t, FW_DECODE_WORD_SUFFIX, &step, where));
    return read_find(step, json, "suffix", false, where);
}

static fw_status read_step(fw_tokenizer *t, const json_t *json, int depth, const char *where) {
    static const char *const known[] = {"type", NULL}, *const known_sequence[] = {"type", "decoders", NULL};
    const char *type;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_step_type(&type, json, what, where));
    if (strcmp(type, "ByteLevel") == 0) /* its options are about offsets and encoding */
        return new_step(t, FW_DECODE_BYTE_LEVEL, &step, where);
    if (strcmp(type, "Replace") == 0) return read_replace(t, json, where);
    if (strcmp(type, "Strip") == 0) return read_strip(t, json, where);
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(t, json, where);
    if (strcmp(type, "BPEDecoder") == 0) return read_word_suffix(t, json, where);
    bool fuse = strcmp(type, "Fuse") == 0;
    if (fuse || strcmp(type, "ByteFallback") == 0) {
        FW_TRY(fw_tokenizer_check_keys(json, known, what, where));
        return new_step(t, fuse ? FW_DECODE_FUSE : FW_DECODE_BYTE_FALLBACK, &step, where);
    }
    const json_t *list = json_object_get(json, "decoders");
    if (strcmp(type, "Sequence") == 0 && depth < 4 && json_is_array(list)) {
        FW_TRY(fw_tokenizer_check_keys(json, known_sequence, what, where));
        for (size_t i = 0; i < json_array_size(list); i++)
            FW_TRY(read_step(t, json_array_get(list, i), depth + 1, where));
        return FW_OK;
    }
    return fw_tokenizer_refuse(json, what,
                               "null, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, BPEDecoder and a "
                               "Sequence of them are known",
                               where);
}

fw_status fw_tokenizer_read_decoder(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *json = json_object_get(file, "decoder");
    t->decode.joins_with_space = json == NULL || json_is_null(json);
    return t->decode.joins_with_space ? FW_OK : read_step(t, json, 0, where);
}
