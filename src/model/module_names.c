#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/module_names.h"

#include "base/alloc.h"
#include "base/json.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists and maps */

static fw_status add(fw_module_names *l, const char *name, size_t name_bytes, double value, const char *option) {
    if (name_bytes == 0) return fw_fail(FW_ERR_OPTION, "%s has an empty name", option);
    if (l->n == FW_MODULE_NAMES_MAX)
        return fw_fail(FW_ERR_OPTION, "%s names more than %d modules", option, FW_MODULE_NAMES_MAX);
    FW_TRY(FW_GROW_ARRAY(l->name, (size_t)l->n + 1));
    FW_TRY(FW_GROW_ARRAY(l->value, (size_t)l->n + 1));
    FW_TRY(fw_strndup(&l->name[l->n], name, name_bytes));
    l->value[l->n++] = value;
    return FW_OK;
}

static fw_status add_json_member(fw_module_names *l, const json_t *member, const char *option) {
    char number[32];
    if (json_is_string(member)) return add(l, json_string_value(member), json_string_length(member), 1, option);
    if (!json_is_integer(member)) return fw_fail(FW_ERR_OPTION, "%s: a list of names is wanted", option);
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(member));
    return add(l, number, strlen(number), 1, option);
}

static fw_status read_json(fw_module_names *l, const char *text, bool map, const char *option) {
    json_t *root = NULL;
    fw_status status = fw_json_parse(&root, text, strlen(text), option, 1);
    if (status == FW_ERR_INPUT) status = fw_fail(FW_ERR_OPTION, "%s", fw_trail_message());
    FW_TRY_OR(status, done);
    const char *key;
    json_t *member;
    size_t i;
    if (map) {
        json_object_foreach(root, key, member) {
            status = json_is_number(member) ? add(l, key, strlen(key), json_number_value(member), option)
                                            : fw_fail(FW_ERR_OPTION, "%s: \"%.60s\" must have a number", option, key);
            if (status != FW_OK) break;
        }
    } else {
        json_array_foreach(root, i, member) {
            status = add_json_member(l, member, option);
            if (status != FW_OK) break;
        }
    }
done:
    json_decref(root);
    return status;
}

static const char between[] = " ,\t\n";

fw_status fw_module_names_read_list(fw_module_names *l, const char *text, const char *option) {
    *l = (fw_module_names){0};
    if (text == NULL) return FW_OK;
    const char *c = text + strspn(text, between);
    if (*c == '[') return read_json(l, c, false, option);
    for (; *c != 0; c += strspn(c, between)) {
        const size_t bytes = strcspn(c, between);
        FW_TRY(add(l, c, bytes, 1, option));
        c += bytes;
    }
    return FW_OK;
}

/* "q_proj=8,up_proj=4" */
static fw_status read_pairs(fw_module_names *l, const char *c, const char *option) {
    for (; *c != 0; c += strspn(c, between)) {
        const size_t bytes = strcspn(c, between);
        const char *equals = memchr(c, '=', bytes);
        char *end = NULL;
        const double value = equals == NULL ? 0 : strtod(equals + 1, &end);
        if (equals == NULL || end != c + bytes || end == equals + 1)
            return fw_fail(FW_ERR_OPTION, "%s: \"%.*s\" is not a name with a number; write q_proj=8,up_proj=4", option,
                           bytes < 60 ? (int)bytes : 60, c);
        FW_TRY(add(l, c, (size_t)(equals - c), value, option));
        c += bytes;
    }
    return FW_OK;
}

fw_status fw_module_names_read_map(fw_module_names *l, const char *text, const char *option) {
    *l = (fw_module_names){0};
    if (text == NULL) return FW_OK;
    const char *c = text + strspn(text, between);
    return *c == '{' ? read_json(l, c, true, option) : read_pairs(l, c, option);
}

void fw_module_names_fini(fw_module_names *l) {
    for (int i = 0; i < l->n; i++) fw_free(l->name[i]);
    fw_free(l->name);
    fw_free(l->value);
    *l = (fw_module_names){0};
}

/* ---- matching */

bool fw_module_is_pattern(const char *text) {
    const char *c = text + strspn(text, between);
    return *c != '[' && *c != '{' && strpbrk(c, "\\*+?()[]{}|^$") != NULL;
}

bool fw_module_has_name(const char *path, const char *name) {
    const size_t path_bytes = strlen(path), name_bytes = strlen(name);
    if (name_bytes > path_bytes || strcmp(path + path_bytes - name_bytes, name) != 0) return false;
    return name_bytes == path_bytes || path[path_bytes - name_bytes - 1] == '.';
}

static void *take(size_t bytes, void *context) {
    (void)context;
    return fw_alloc_raw(bytes);
}
static void give(void *block, void *context) {
    (void)context;
    fw_free(block);
}

static fw_status no_memory(const char *option) {
    return fw_fail(FW_ERR_NOMEM, "%s: out of memory in the regex library", option);
}

/* A pattern from a file of others may be made to run for ever. */
enum { MATCH_LIMIT = 100000, HEAP_LIMIT_KIB = 1 << 14 };

fw_status fw_module_matches(bool *matches, const char *path, const char *pattern, bool behind_dots,
                            const char *option) {
    *matches = false;
    fw_status status = FW_OK;
    pcre2_general_context *general = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *compile = general == NULL ? NULL : pcre2_compile_context_create(general);
    pcre2_match_context *limits = general == NULL ? NULL : pcre2_match_context_create(general);
    pcre2_match_data *data = general == NULL ? NULL : pcre2_match_data_create(1, general);
    pcre2_code *code = NULL;
    char *whole = NULL;
    int error = 0;
    PCRE2_SIZE error_at = 0;
    if (compile == NULL || limits == NULL || data == NULL) status = no_memory(option);
    if (status != FW_OK) goto done;
    const size_t whole_bytes = strlen(pattern) + sizeof "^(?:.*\\.)?(?:)$";
    FW_TRY_OR(FW_NEW_ARRAY(whole, whole_bytes), done);
    snprintf(whole, whole_bytes, behind_dots ? "^(?:.*\\.)?(?:%s)$" : "^(?:%s)$", pattern);
    code = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &error_at, compile);
    if (code == NULL) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(error, why, sizeof why);
        status =
            error == PCRE2_ERROR_NOMEMORY || error == 121
                ? no_memory(option)
                : fw_fail(FW_ERR_OPTION, "%s: the pattern \"%.100s\" cannot be used: %s", option, pattern, (char *)why);
        goto done;
    }
    pcre2_set_match_limit(limits, MATCH_LIMIT);
    pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
    const int found = pcre2_match(code, (PCRE2_SPTR)path, PCRE2_ZERO_TERMINATED, 0, 0, data, limits);
    if (found == PCRE2_ERROR_NOMEMORY)
        status = no_memory(option);
    else if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        status =
            fw_fail(FW_ERR_OPTION, "%s: the pattern \"%.100s\" takes too long; write a simpler one", option, pattern);
    *matches = found >= 0;
done:
    pcre2_code_free(code);
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    pcre2_compile_context_free(compile);
    pcre2_general_context_free(general);
    fw_free(whole);
    return status;
}
