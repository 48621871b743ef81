/* decoder of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <string.h>

static const char what[] = "decoder";

static fw_status new_step(fw_tokenizer *t, fw_decode_kind kind, fw_decode_step **step, const char *where) {
    if (t->decode.step_n == FW_DECODE_STEP_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"decoder\" has more than %d steps", where, FW_DECODE_STEP_MAX);
    *step = &t->decode.step[t->decode.step_n++];
    **step = (fw_decode_step){.kind = kind};
    return FW_OK;
}

static fw_status set_find(fw_decode_step *step, const char *find) {
    step->find_bytes = strlen(find);
    return fw_strdup(&step->find, find);
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
    return set_find(step, string);
}

static fw_status read_strip(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "content", "start", "stop", NULL};
    int64_t start, stop;
    const char *content;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.Strip", where));
    FW_TRY(fw_tokenizer_character(&content, json, "content", what, where));
    FW_TRY(fw_json_need_int(&start, json, "start", 0, INT32_MAX, where));
    FW_TRY(fw_json_need_int(&stop, json, "stop", 0, INT32_MAX, where));
    FW_TRY(new_step(t, FW_DECODE_STRIP, &step, where));
    step->left = (uint32_t)start;
    step->right = (uint32_t)stop;
    return set_find(step, content);
}

static fw_status read_metaspace(fw_tokenizer *t, const json_t *json, const char *where) {
    const char *replacement;
    fw_prepend prepend = FW_PREPEND_ALWAYS;
    bool split;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_metaspace(&replacement, &prepend, &split, json, what, where));
    FW_TRY(new_step(t, FW_DECODE_METASPACE, &step, where));
    step->left = prepend != FW_PREPEND_NEVER;
    return set_find(step, replacement);
}

static fw_status read_word_suffix(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "suffix", NULL};
    const char *suffix;
    fw_decode_step *step = NULL;
    FW_TRY(fw_tokenizer_check_keys(json, known, "decoder.BPEDecoder", where));
    FW_TRY(fw_json_get_string(&suffix, json, "suffix", "", where));
    if (suffix[0] == 0) return fw_tokenizer_refuse(json, what, "its \"suffix\" must not be empty", where);
    FW_TRY(new_step(t, FW_DECODE_WORD_SUFFIX, &step, where));
    return set_find(step, suffix);
}

static fw_status read_step(fw_tokenizer *t, const json_t *json, int depth, const char *where) {
    static const char *const known[] = {"type", NULL};
    const char *type;
    bool is_sequence = false;
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
    FW_TRY(fw_tokenizer_sequence(&is_sequence, t, json, "decoders", read_step, depth, what, where));
    if (is_sequence) return FW_OK;
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
