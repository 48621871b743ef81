#include "data/shape_parts.h"

#include "base/alloc.h"
#include "base/json.h"
#include "text/chat.h"

#include <stdio.h>
#include <string.h>

fw_status fw_shape_json_ok(int result) {
    return result == 0 ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while reading a conversation");
}

fw_status fw_shape_json_made(const void *value) { return fw_shape_json_ok(value == NULL ? -1 : 0); }

int fw_json_says_nothing(const json_t *value) {
    return value == NULL || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

json_t *fw_shape_value(const fw_shape_work *w, const char *key) {
    json_t *value = json_object_get(w->row, key);
    return fw_json_says_nothing(value) ? NULL : value;
}

fw_status fw_shape_keep(fw_shape_work *w, json_t *value) {
    return fw_shape_json_ok(json_array_append_new(w->out->json, value));
}

fw_status fw_shape_list(fw_shape_work *w, const char *key, json_t **list) {
    *list = fw_shape_value(w, key);
    if (json_is_string(*list)) {
        json_t *parsed;
        fw_status status = fw_json_parse(&parsed, json_string_value(*list), json_string_length(*list), key, 1);
        if (status == FW_ERR_INPUT)
            return fw_row_refuse(w->place, FW_DROP_SHAPE, "\"%s\" is a string that is not JSON", key);
        FW_TRY(status);
        FW_TRY(fw_shape_keep(w, parsed));
        *list = fw_json_says_nothing(parsed) ? NULL : parsed;
    }
    if (*list != NULL && !json_is_array(*list))
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "\"%s\" must be a list", key);
    return FW_OK;
}

fw_status fw_shape_start(fw_shape_work *w) {
    w->out->messages = json_array();
    return fw_shape_keep(w, w->out->messages);
}

fw_status fw_shape_add(fw_shape_work *w, const char *role, json_t *content) {
    return fw_shape_json_ok(
        json_array_append_new(w->out->messages, json_pack("{s:s, s:O}", "role", role, "content", content)));
}

fw_status fw_shape_add_text(fw_shape_work *w, const char *role, const char *text, size_t text_bytes) {
    json_t *content = json_stringn(text, text_bytes);
    FW_TRY(fw_shape_json_made(content));
    fw_status status = fw_shape_add(w, role, content);
    json_decref(content);
    return status;
}

fw_status fw_shape_add_list(fw_shape_work *w, json_t *list, const char *name) {
    if (!json_is_array(list))
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "\"%s\" must be a list of {\"role\", \"content\"}", name);
    return fw_shape_json_ok(json_array_extend(w->out->messages, list));
}

static fw_status read_tools(fw_shape_work *w) {
    FW_TRY(fw_shape_list(w, "tools", &w->out->tools));
    if (w->out->tools == NULL) FW_TRY(fw_shape_list(w, "functions", &w->out->tools));
    size_t i;
    json_t *tool;
    json_array_foreach(w->out->tools, i, tool) if (!json_is_object(tool)) return fw_row_refuse(
        w->place, FW_DROP_TOOLS, "\"tools\" must be a list of objects, and its entry %zu is none", i);
    return fw_shape_list(w, "documents", &w->out->documents);
}

fw_status fw_shape_finish(fw_shape_work *w, const char *list_name) {
    fw_conversation *c = w->out;
    FW_TRY(read_tools(w));
    json_t *kwargs = fw_shape_value(w, "chat_template_kwargs");
    if (kwargs != NULL && !json_is_object(kwargs))
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "\"chat_template_kwargs\" must be an object");
    const char *reserved = fw_chat_reserved_name(kwargs);
    if (reserved != NULL)
        return fw_row_refuse(
            w->place, FW_DROP_SHAPE,
            "\"chat_template_kwargs\" has \"%s\", which is no variable of a template: conversations are "
            "rendered whole, with what stands in their rows",
            reserved);
    c->kwargs = kwargs;
    const size_t n = json_array_size(c->messages);
    if (n == 0) return fw_row_refuse(w->place, FW_DROP_EMPTY, "\"%s\" is empty; remove the record", list_name);
    FW_TRY(FW_NEW_ARRAY(c->message, n));
    c->message_n = n;
    for (size_t i = 0; i < n; i++) {
        char where[64];
        snprintf(where, sizeof where, "%s[%zu]", list_name, i);
        FW_TRY(fw_message_read(&c->message[i], json_array_get(c->messages, i), where, w->place));
        if (strcmp(c->message[i].role, "assistant") == 0) c->has_assistant = true;
        if (c->message[i].learn != FW_LEARN_AS_ASKED) c->has_marks = true;
    }
    return FW_OK;
}
