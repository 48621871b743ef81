/* Calls of tools: whatever way a file writes them, one form comes out (text/conversation.h). */
#include "base/json.h"
#include "data/shape_parts.h"

#include <string.h>

/* *out = arguments as an object, a new reference: they may stand there as a string of JSON. */
static fw_status read_arguments(json_t **out, json_t *arguments, const char *where, fw_row_place *place) {
    *out = NULL;
    if (fw_json_says_nothing(arguments)) {
        *out = json_object();
        return fw_shape_json_made(*out);
    }
    if (json_is_object(arguments)) {
        *out = json_incref(arguments);
        return FW_OK;
    }
    if (!json_is_string(arguments))
        return fw_row_refuse(place, FW_DROP_TOOLS,
                             "the arguments of a tool call of %s are neither an object nor a string", where);
    fw_status status = fw_json_parse(out, json_string_value(arguments), json_string_length(arguments), "arguments", 1);
    if (status == FW_ERR_INPUT || (status == FW_OK && !json_is_object(*out))) {
        json_decref(*out);
        *out = NULL;
        return fw_row_refuse(place, FW_DROP_TOOLS,
                             "the arguments of a tool call of %s are not a JSON object: \"%.80s\"", where,
                             json_string_value(arguments));
    }
    return status;
}

/* Any form of a call -> {"id"?, "type", "function": {"name", "arguments"}}, a new reference. */
static fw_status read_call(json_t **out, json_t *call, const char *where, fw_row_place *place) {
    *out = NULL;
    json_t *function = json_object_get(call, "function");
    if (!json_is_object(function)) function = call; /* {"name", "arguments"} alone */
    json_t *name = json_object_get(function, "name"), *arguments = json_object_get(function, "arguments");
    if (arguments == NULL) arguments = json_object_get(function, "parameters");
    if (!json_is_string(name))
        return fw_row_refuse(place, FW_DROP_TOOLS, "a tool call of %s has no \"name\" of a function", where);
    json_t *object, *id = json_object_get(call, "id");
    FW_TRY(read_arguments(&object, arguments, where, place));
    *out = json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name, "arguments", object);
    FW_TRY(fw_shape_json_made(*out));
    if (!fw_json_says_nothing(id) && json_object_set(*out, "id", id) != 0) {
        json_decref(*out);
        *out = NULL;
        return fw_shape_json_ok(-1);
    }
    return FW_OK;
}

/* One call or a list of them, appended to the message's tool_calls. */
static fw_status add_calls(json_t *message, json_t *calls, const char *where, fw_row_place *place) {
    json_t *list = json_object_get(message, "tool_calls");
    if (!json_is_array(list)) {
        list = json_array();
        FW_TRY(fw_shape_json_ok(json_object_set_new(message, "tool_calls", list)));
    }
    const size_t n = json_is_array(calls) ? json_array_size(calls) : 1;
    for (size_t i = 0; i < n; i++) {
        json_t *call;
        FW_TRY(read_call(&call, json_is_array(calls) ? json_array_get(calls, i) : calls, where, place));
        FW_TRY(fw_shape_json_ok(json_array_append_new(list, call)));
    }
    return FW_OK;
}

fw_status fw_message_calls_from_text(json_t *message, const char *text, size_t text_bytes, const char *where,
                                     fw_row_place *place) {
    json_t *calls = NULL;
    fw_status status = fw_json_parse(&calls, text, text_bytes, "call", 1);
    if (status == FW_ERR_INPUT || (status == FW_OK && !json_is_object(calls) && !json_is_array(calls)))
        status =
            fw_row_refuse(place, FW_DROP_TOOLS,
                          "the tool call of %s is not JSON with \"name\" and \"arguments\": \"%.80s\"", where, text);
    if (status == FW_OK) status = add_calls(message, calls, where, place);
    json_decref(calls);
    return status;
}

fw_status fw_message_tool_calls(json_t *message, const char *where, fw_row_place *place) {
    json_t *calls = json_object_get(message, "tool_calls"), *call = json_object_get(message, "function_call");
    if (fw_json_says_nothing(calls) && fw_json_says_nothing(call)) {
        if (calls != NULL && json_object_size(calls) == 0 && !json_is_array(calls))
            json_object_del(message, "tool_calls");
        json_object_del(message, "function_call");
        return FW_OK;
    }
    json_incref(calls);
    json_object_del(message, "tool_calls");
    fw_status status = FW_OK;
    if (json_is_string(calls))
        status = fw_message_calls_from_text(message, json_string_value(calls), json_string_length(calls), where, place);
    else if (!fw_json_says_nothing(calls))
        status = json_is_array(calls)
                     ? add_calls(message, calls, where, place)
                     : fw_row_refuse(place, FW_DROP_TOOLS, "\"tool_calls\" of %s is not a list", where);
    json_decref(calls);
    FW_TRY(status);
    if (!fw_json_says_nothing(call)) FW_TRY(add_calls(message, call, where, place));
    json_object_del(message, "function_call");
    return FW_OK;
}
