#include "config/leaves.h"

#include "base/alloc.h"
#include "base/json.h"
#include "config/yaml_events.h"

#include <stdio.h>
#include <string.h>

void fw_leaves_fini(fw_leaves *l) {
    for (size_t i = 0; i < l->n; i++) {
        fw_free(l->leaf[i].path);
        fw_free(l->leaf[i].text);
    }
    fw_free(l->leaf);
    *l = (fw_leaves){0};
}

/* Where a message says that something stands. */
static const char *place(char out[FW_LEAF_PATH_BYTES], const char *where, int line) {
    if (line > 0)
        snprintf(out, FW_LEAF_PATH_BYTES, "%.200s:%d", where, line);
    else
        snprintf(out, FW_LEAF_PATH_BYTES, "%.200s", where);
    return out;
}

static fw_status add(fw_leaves *l, const char *path, const char *text, bool null, int line, const char *where) {
    char at[FW_LEAF_PATH_BYTES];
    if (l->n == FW_LEAF_MAX)
        return fw_fail(FW_ERR_OPTION, "%s: more than %d values; this is no file of settings", place(at, where, line),
                       FW_LEAF_MAX);
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->leaf[i].path, path) == 0)
            return fw_fail(FW_ERR_OPTION, "%s: %s is given twice; keep one", place(at, where, line), path);
    if (l->n == l->cap) {
        FW_TRY(FW_GROW_ARRAY(l->leaf, l->cap * 2 + 16));
        l->cap = l->cap * 2 + 16;
    }
    fw_leaf leaf = {.line = line, .null = null};
    FW_TRY(fw_strdup(&leaf.path, path));
    fw_status status = fw_strdup(&leaf.text, text);
    if (status != FW_OK) {
        fw_free(leaf.path);
        return status;
    }
    l->leaf[l->n++] = leaf;
    return FW_OK;
}

/* path.step */
static fw_status join(char out[FW_LEAF_PATH_BYTES], const char *path, const char *step, int line, const char *where) {
    char at[FW_LEAF_PATH_BYTES];
    int n = snprintf(out, FW_LEAF_PATH_BYTES, "%s%s%s", path, path[0] != 0 ? "." : "", step);
    if (n >= 0 && n < FW_LEAF_PATH_BYTES) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s: the name \"%.60s...\" is too long", place(at, where, line), step);
}

static fw_status too_deep(const char *where, int line) {
    char at[FW_LEAF_PATH_BYTES];
    return fw_fail(FW_ERR_OPTION, "%s: nested deeper than %d levels; this is no file of settings",
                   place(at, where, line), FW_LEAF_DEPTH_MAX);
}

/* ---- YAML ---- */

static const char *const plain_advice = "write one map of settings";

static fw_status add_yaml(fw_leaves *l, yaml_parser_t *parser, const yaml_event_t *first, const char *path,
                          const char *where, int depth);

/* The members of a list or map whose start has been read. */
static fw_status add_members(fw_leaves *l, yaml_parser_t *parser, bool map, const char *path, const char *where,
                             int depth, int *member_n) {
    for (*member_n = 0;; (*member_n)++) {
        yaml_event_t key = {0}, value = {0};
        char below[FW_LEAF_PATH_BYTES], number[16];
        fw_status status;
        bool last = false;
        FW_TRY_OR(fw_yaml_next(parser, &key, where), done);
        last = key.type == (map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT);
        if (last) goto done;
        int line = fw_yaml_line(&key.start_mark);
        FW_TRY_OR(fw_yaml_check_plain(&key, where, plain_advice), done);
        if (!map) {
            snprintf(number, sizeof number, "%d", *member_n);
            FW_TRY_OR(join(below, path, number, line, where), done);
            FW_TRY_OR(add_yaml(l, parser, &key, below, where, depth), done);
            goto done;
        }
        if (key.type != YAML_SCALAR_EVENT || key.data.scalar.length == 0) {
            status = fw_fail(FW_ERR_OPTION, "%.200s:%d: a name is empty, a list or a map", where, line);
            goto done;
        }
        FW_TRY_OR(join(below, path, (const char *)key.data.scalar.value, line, where), done);
        FW_TRY_OR(fw_yaml_next(parser, &value, where), done);
        FW_TRY_OR(add_yaml(l, parser, &value, below, where, depth), done);
    done:
        yaml_event_delete(&key);
        yaml_event_delete(&value);
        if (status != FW_OK || last) return status;
    }
}

static fw_status add_yaml(fw_leaves *l, yaml_parser_t *parser, const yaml_event_t *first, const char *path,
                          const char *where, int depth) {
    const int line = fw_yaml_line(&first->start_mark);
    FW_TRY(fw_yaml_check_plain(first, where, plain_advice));
    if (first->type == YAML_SCALAR_EVENT) {
        bool null = fw_yaml_is_null(first);
        return add(l, path, null ? "" : (const char *)first->data.scalar.value, null, line, where);
    }
    if (first->type != YAML_MAPPING_START_EVENT && first->type != YAML_SEQUENCE_START_EVENT)
        return fw_fail(FW_ERR_OPTION, "%.200s:%d: a value is missing", where, line);
    if (depth == FW_LEAF_DEPTH_MAX) return too_deep(where, line);
    const bool map = first->type == YAML_MAPPING_START_EVENT;
    int member_n;
    FW_TRY(add_members(l, parser, map, path, where, depth + 1, &member_n));
    return member_n > 0 || path[0] == 0 ? FW_OK : add(l, path, map ? "{}" : "[]", false, line, where);
}

fw_status fw_leaves_add_node(fw_leaves *l, yaml_parser_t *parser, const yaml_event_t *first, const char *path,
                             const char *where) {
    return add_yaml(l, parser, first, path, where, 0);
}

fw_status fw_leaves_read_yaml(fw_leaves *l, const char *text, size_t text_bytes, const char *where) {
    yaml_parser_t parser;
    yaml_event_t event = {0};
    fw_status status;
    FW_TRY(fw_yaml_open(&parser, text, text_bytes, where));
    FW_TRY_OR(fw_yaml_expect(&parser, YAML_STREAM_START_EVENT, where, "the file is not YAML", plain_advice), done);
    FW_TRY_OR(fw_yaml_expect(&parser, YAML_DOCUMENT_START_EVENT, where, "the file is empty", plain_advice), done);
    FW_TRY_OR(fw_yaml_next(&parser, &event, where), done);
    if (event.type != YAML_MAPPING_START_EVENT) {
        status = fw_fail(FW_ERR_OPTION, "%.200s:%d: there are no names here; a setting is `name: value`", where,
                         fw_yaml_line(&event.start_mark));
        goto done;
    }
    FW_TRY_OR(fw_leaves_add_node(l, &parser, &event, "", where), done);
    FW_TRY_OR(fw_yaml_expect(&parser, YAML_DOCUMENT_END_EVENT, where, "the file goes on after its end", plain_advice),
              done);
    FW_TRY_OR(fw_yaml_expect(&parser, YAML_STREAM_END_EVENT, where, "a second document is not taken", plain_advice),
              done);
done:
    yaml_event_delete(&event);
    yaml_parser_delete(&parser);
    return status;
}

/* ---- JSON ---- */

static fw_status add_json(fw_leaves *l, const json_t *value, const char *path, const char *where, int depth);

static fw_status add_scalar(fw_leaves *l, const json_t *value, const char *path, const char *where) {
    fw_strbuf text = {0};
    fw_status status;
    if (json_is_string(value)) {
        if (strlen(json_string_value(value)) != json_string_length(value))
            return fw_fail(FW_ERR_OPTION, "%.200s: %s: a zero byte is not taken", where, path);
        return add(l, path, json_string_value(value), false, 0, where);
    }
    if (json_is_null(value)) return add(l, path, "", true, 0, where);
    FW_TRY_OR(fw_json_dump(&text, value, JSON_ENCODE_ANY | JSON_COMPACT), done);
    FW_TRY_OR(add(l, path, fw_strbuf_text(&text), false, 0, where), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

static fw_status add_json(fw_leaves *l, const json_t *value, const char *path, const char *where, int depth) {
    char below[FW_LEAF_PATH_BYTES];
    if (!json_is_object(value) && !json_is_array(value)) return add_scalar(l, value, path, where);
    if (depth == FW_LEAF_DEPTH_MAX) return too_deep(where, 0);
    size_t n = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    if (n == 0) return path[0] == 0 ? FW_OK : add(l, path, json_is_object(value) ? "{}" : "[]", false, 0, where);
    if (json_is_object(value)) {
        const char *name;
        json_t *member;
        json_object_foreach((json_t *)value, name, member) {
            FW_TRY(join(below, path, name, 0, where));
            FW_TRY(add_json(l, member, below, where, depth + 1));
        }
        return FW_OK;
    }
    for (size_t i = 0; i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        FW_TRY(join(below, path, number, 0, where));
        FW_TRY(add_json(l, json_array_get(value, i), below, where, depth + 1));
    }
    return FW_OK;
}

fw_status fw_leaves_read_json(fw_leaves *l, const char *text, size_t text_bytes, const char *where) {
    json_t *root;
    fw_status status = fw_json_parse(&root, text, text_bytes, where, 1);
    if (status == FW_ERR_INPUT) return fw_fail_context(FW_ERR_OPTION, "reading the settings: ");
    FW_TRY(status);
    if (json_is_object(root))
        status = add_json(l, root, "", where, 0);
    else
        status =
            fw_fail(FW_ERR_OPTION, "%.200s: there are no names here; a setting is \"name\": value in braces", where);
    json_decref(root);
    return status;
}
