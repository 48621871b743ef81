/* What the readers of tokenizer.json share: refusing by name, types and patterns of steps. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

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
