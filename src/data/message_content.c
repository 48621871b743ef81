/* The content of a message: a string, null, or a list of typed parts. */
#include "base/strbuf.h"
#include "data/shape_parts.h"

#include <string.h>

/* Keys under which programs put the text of a part. */
static const char *const text_keys[] = {"text", "value", "content"};
static const char *const text_types[] = {"text", "input_text", "output_text"};
static const char *const media_words[] = {"image", "audio", "video", "file"};

static int is_one_of(const char *word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0) return 1;
    return 0;
}

static const json_t *part_text(const json_t *part, const char *type) {
    const json_t *text = json_object_get(part, type); /* {"type": "thinking", "thinking": ...} */
    for (size_t i = 0; i < sizeof text_keys / sizeof *text_keys && !json_is_string(text); i++)
        text = json_object_get(part, text_keys[i]);
    return json_is_string(text) ? text : NULL;
}

typedef struct parts {
    fw_strbuf text, reasoning;
    int has_text, has_reasoning;
} parts;

static fw_status append(fw_strbuf *to, const json_t *text) {
    return fw_strbuf_append(to, json_string_value(text), json_string_length(text));
}

static fw_status read_part(parts *p, json_t *message, const json_t *part, size_t index, const char *where,
                           fw_row_place *place) {
    if (json_is_string(part)) {
        p->has_text = 1;
        return append(&p->text, part);
    }
    const json_t *type_value = json_object_get(part, "type");
    const char *type = json_is_string(type_value) ? json_string_value(type_value) : NULL;
    if (type == NULL)
        return fw_row_refuse(place, FW_DROP_CONTENT, "part %zu of the content of %s needs a \"type\"", index, where);
    for (size_t i = 0; i < sizeof media_words / sizeof *media_words; i++)
        if (strstr(type, media_words[i]) != NULL)
            return fw_row_refuse(place, FW_DROP_MEDIA,
                                 "part %zu of the content of %s is of type \"%.40s\"; only text can be learnt", index,
                                 where, type);
    const json_t *text = part_text(part, type);
    int is_text = is_one_of(type, text_types, 3);
    int is_reasoning = strcmp(type, "reasoning") == 0 || strcmp(type, "thinking") == 0;
    int is_call = strcmp(type, "tool_call") == 0;
    if (!is_text && !is_reasoning && !is_call)
        return fw_row_refuse(
            place, FW_DROP_CONTENT,
            "part %zu of the content of %s is of type \"%.40s\"; known are text, reasoning and tool_call", index, where,
            type);
    if (text == NULL)
        return fw_row_refuse(place, FW_DROP_CONTENT, "part %zu of the content of %s (%s) has no text", index, where,
                             type);
    if (is_call)
        return fw_message_calls_from_text(message, json_string_value(text), json_string_length(text), where, place);
    *(is_text ? &p->has_text : &p->has_reasoning) = 1;
    return append(is_text ? &p->text : &p->reasoning, text);
}

static fw_status set_string(json_t *message, const char *key, const fw_strbuf *text) {
    return fw_shape_json_ok(json_object_set_new(message, key, json_stringn(fw_strbuf_text(text), text->len_bytes)));
}

fw_status fw_message_content(json_t **out, json_t *message, const json_t *content, const char *where,
                             fw_row_place *place) {
    *out = NULL;
    if (content == NULL || json_is_null(content)) return FW_OK;
    if (json_is_string(content)) {
        *out = json_incref((json_t *)(uintptr_t)content);
        return FW_OK;
    }
    if (!json_is_array(content))
        return fw_row_refuse(place, FW_DROP_CONTENT, "the content of %s is not a string", where);
    parts p = {0};
    fw_status status = FW_OK;
    size_t i;
    json_t *part;
    json_array_foreach(content, i, part) FW_TRY_OR(read_part(&p, message, part, i, where, place), done);
    if (p.has_reasoning) FW_TRY_OR(set_string(message, "reasoning_content", &p.reasoning), done);
    *out = json_stringn(fw_strbuf_text(&p.text), p.text.len_bytes);
    FW_TRY_OR(fw_shape_json_made(*out), done);
done:
    fw_strbuf_fini(&p.text);
    fw_strbuf_fini(&p.reasoning);
    return status;
}
