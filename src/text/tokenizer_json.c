/* What the readers of tokenizer.json share: refusing by name, types and patterns of steps. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

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

fw_status fw_tokenizer_step_type(const char **type, const json_t *step, const char *what, const char *where) {
    *type = NULL;
    if (!json_is_object(step)) return fw_tokenizer_refuse(step, what, "an object with a \"type\" is needed", where);
    FW_TRY(fw_json_get_string(type, step, "type", NULL, where));
    if (*type == NULL) return fw_tokenizer_refuse(step, what, "its \"type\" is missing", where);
    return FW_OK;
}

fw_status fw_tokenizer_sequence(bool *is_sequence, fw_tokenizer *t, const json_t *step, const char *key,
                                fw_tokenizer_step_fn read, int depth, const char *what, const char *where) {
    enum { DEPTH_MAX = 4 };
    const char *const known[] = {"type", key, NULL};
    const json_t *type = json_object_get(step, "type"), *list = json_object_get(step, key);
    *is_sequence = depth < DEPTH_MAX && json_is_array(list) && json_is_string(type) &&
                   strcmp(json_string_value(type), "Sequence") == 0;
    if (!*is_sequence) return FW_OK;
    FW_TRY(fw_tokenizer_check_keys(step, known, what, where));
    for (size_t i = 0; i < json_array_size(list); i++) FW_TRY(read(t, json_array_get(list, i), depth + 1, where));
    return FW_OK;
}

fw_status fw_tokenizer_character(const char **character, const json_t *step, const char *key, const char *what,
                                 const char *where) {
    FW_TRY(fw_json_get_string(character, step, key, NULL, where));
    uint32_t code;
    if (*character == NULL || (*character)[0] == 0 || fw_utf8_next(&code, *character) != strlen(*character)) {
        char expected[64];
        snprintf(expected, sizeof expected, "its \"%.20s\" must be one character", key);
        return fw_tokenizer_refuse(step, what, expected, where);
    }
    return FW_OK;
}

fw_status fw_tokenizer_metaspace(const char **replacement, fw_prepend *prepend, bool *split, const json_t *step,
                                 const char *what, const char *where) {
    /* str_rep is of old files, which say there what "replacement" says too */
    static const char *const known[] = {"type",    "replacement", "add_prefix_space", "prepend_scheme", "split",
                                        "str_rep", NULL};
    static const char *const schemes[] = {"always", "first", "never"};
    const char *scheme;
    bool prefix;
    FW_TRY(fw_tokenizer_check_keys(step, known, "Metaspace", where));
    FW_TRY(fw_tokenizer_character(replacement, step, "replacement", what, where));
    FW_TRY(fw_json_get_string(&scheme, step, "prepend_scheme", "always", where));
    FW_TRY(fw_json_get_bool(&prefix, step, "add_prefix_space", true, where));
    FW_TRY(fw_json_get_bool(split, step, "split", true, where));
    int p = 0;
    while (p < 3 && strcmp(schemes[p], scheme) != 0) p++;
    if (p == 3 || (!prefix && p != FW_PREPEND_NEVER))
        return fw_tokenizer_refuse(step, what,
                                   "its \"prepend_scheme\" must be always, first or never; with \"add_prefix_space\": "
                                   "false it must be never",
                                   where);
    *prepend = (fw_prepend)p;
    return FW_OK;
}

fw_status fw_tokenizer_pattern(const char **regex, const char **string, const json_t *step, const char *what,
                               const char *where) {
    const json_t *pattern = json_object_get(step, "pattern");
    *regex = *string = NULL;
    if (json_is_object(pattern) && json_object_size(pattern) == 1) {
        FW_TRY(fw_json_get_string(regex, pattern, "Regex", NULL, where));
        FW_TRY(fw_json_get_string(string, pattern, "String", NULL, where));
    }
    if (*regex == NULL && (*string == NULL || (*string)[0] == 0))
        return fw_tokenizer_refuse(step, what, "its \"pattern\" must be {\"Regex\": ..} or {\"String\": ..}", where);
    return FW_OK;
}

fw_status fw_tokenizer_text(char **text, size_t *text_bytes, const json_t *step, const char *key, const char *what,
                            const char *where) {
    enum { MAX_BYTES = 1024 };
    const char *borrowed = NULL;
    FW_TRY(fw_json_get_string(&borrowed, step, key, NULL, where));
    if (borrowed == NULL || strlen(borrowed) > MAX_BYTES) {
        char expected[96];
        snprintf(expected, sizeof expected, "its \"%s\" must be a text of at most %d bytes", key, MAX_BYTES);
        return fw_tokenizer_refuse(step, what, expected, where);
    }
    *text_bytes = strlen(borrowed);
    return fw_strdup(text, borrowed);
}
