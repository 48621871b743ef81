/* From a conversation to its text: JSON becomes values that know where they come from, then the template runs. */
#include "text/jinja/jinja.h"

#include "text/conversation.h"
#include "text/jinja/jinja_run.h"

#include <string.h>

enum { JSON_DEPTH_MAX = 500 };

/* Origins of the parts of a value, by where they stand in a message. */
typedef struct source {
    int64_t message;
    bool in_calls; /* inside "tool_calls": names and arguments are told apart */
    fw_chat_field field;
    bool may_think; /* content in which a </think> ends a thought: an assistant's */
} source;

typedef struct loader {
    fw_jinja_memory *memory;
    fw_jinja *j;
    unsigned forms;
    size_t bytes; /* of all texts: what limits are measured by */
} loader;

static fw_status load(loader *l, const json_t *json, source from, fw_jinja_value *out, int depth);

/* A text up to its last </think> is thought. */
static fw_status split_thought(loader *l, fw_jinja_value *v, source from) {
    static const char end[] = "</think>";
    fw_jinja_text what = {.data = end, .bytes = sizeof end - 1};
    int64_t found = fw_jinja_find_last(v->text, 0, v->text->bytes, &what);
    if (found < 0) return FW_OK;
    fw_jinja_origin *origin;
    FW_TRY(fw_jinja_take(l->memory, (void **)&origin, v->text->bytes * sizeof *origin));
    for (size_t i = 0; i < v->text->bytes; i++)
        origin[i] = i < (size_t)found + what.bytes ? fw_jinja_origin_of(from.message, FW_CHAT_THOUGHT) : v->origin;
    v->text->origin = origin;
    return FW_OK;
}

static fw_status load_text(loader *l, const char *text, size_t bytes, source from, fw_jinja_value *out) {
    l->bytes += bytes;
    FW_TRY(fw_jinja_text_of(l->memory, out, text, bytes, fw_jinja_origin_of(from.message, from.field), false));
    return from.may_think ? split_thought(l, out, from) : FW_OK;
}

static fw_status load_array(loader *l, const json_t *json, source from, fw_jinja_value *out, int depth) {
    fw_jinja_list *list;
    FW_TRY(fw_jinja_list_make(l->memory, &list, FW_JINJA_IS_LIST, json_array_size(json)));
    for (size_t i = 0; i < list->n; i++) FW_TRY(load(l, json_array_get(json, i), from, &list->item[i], depth));
    out->kind = FW_JINJA_LIST;
    out->list = list;
    return FW_OK;
}

static source inside(source from, const char *key) {
    if (!from.in_calls) return from;
    if (strcmp(key, "arguments") == 0) return (source){from.message, false, FW_CHAT_TOOL_ARGUMENTS, false};
    if (strcmp(key, "name") == 0) return (source){from.message, false, FW_CHAT_TOOL_NAME, false};
    return from;
}

/* Arguments of a call: an object that knows that it is one, or its JSON as `| tojson` writes it. */
static fw_status finish_arguments(loader *l, fw_jinja_value *v) {
    static const fw_jinja_json_style style = {0};
    if (v->kind != FW_JINJA_DICT) return FW_OK;
    v->dict->is_arguments = true;
    if (!(l->forms & FW_JINJA_ARGUMENTS_TEXT)) return FW_OK;
    fw_jinja_builder b = {.memory = l->memory, .uniform = v->origin};
    FW_TRY(fw_jinja_put_json(l->j, &b, v, &style));
    return fw_jinja_builder_finish(&b, v);
}

static fw_status load_object(loader *l, const json_t *json, source from, fw_jinja_value *out, int depth) {
    fw_jinja_dict *dict;
    const char *key;
    size_t key_bytes;
    json_t *value;
    FW_TRY(fw_jinja_dict_make(l->memory, &dict, json_object_size(json)));
    json_object_keylen_foreach((json_t *)(uintptr_t)json, key, key_bytes, value) {
        fw_jinja_value name, loaded;
        source plain = from;
        if (plain.field == FW_CHAT_CONTENT) plain.field = FW_CHAT_OTHER;
        plain.may_think = false;
        FW_TRY(load_text(l, key, key_bytes, plain, &name));
        name.text->char_n = FW_JINJA_UNCOUNTED;
        FW_TRY(load(l, value, inside(from, key), &loaded, depth));
        if (from.in_calls && strcmp(key, "arguments") == 0) FW_TRY(finish_arguments(l, &loaded));
        FW_TRY(fw_jinja_dict_put(l->memory, dict, name, loaded));
    }
    out->kind = FW_JINJA_DICT;
    out->dict = dict;
    return FW_OK;
}

static fw_status load(loader *l, const json_t *json, source from, fw_jinja_value *out, int depth) {
    *out = (fw_jinja_value){.kind = FW_JINJA_NONE, .origin = fw_jinja_origin_of(from.message, from.field)};
    l->bytes += 16;
    if (depth > JSON_DEPTH_MAX) return fw_fail(FW_ERR_INPUT, "the conversation has JSON that is nested too deeply");
    switch (json_typeof(json)) {
    case JSON_STRING: return load_text(l, json_string_value(json), json_string_length(json), from, out);
    case JSON_ARRAY: return load_array(l, json, from, out, depth + 1);
    case JSON_OBJECT: return load_object(l, json, from, out, depth + 1);
    case JSON_INTEGER:
        out->kind = FW_JINJA_INT;
        out->integer = json_integer_value(json);
        break;
    case JSON_REAL:
        out->kind = FW_JINJA_FLOAT;
        out->real = json_real_value(json);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        out->kind = FW_JINJA_BOOL;
        out->boolean = json_is_true(json);
        break;
    case JSON_NULL: break;
    }
    return FW_OK;
}

static fw_chat_field field_of(const char *key) {
    static const struct {
        const char *key;
        fw_chat_field field;
    } known[] = {
        {"role", FW_CHAT_ROLE},
        {"content", FW_CHAT_CONTENT},
        {"reasoning_content", FW_CHAT_REASONING},
        {"thinking", FW_CHAT_REASONING},
        {"reasoning", FW_CHAT_REASONING},
        {"tool_calls", FW_CHAT_TOOL_CALL},
        {"function_call", FW_CHAT_TOOL_CALL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i].key) == 0) return known[i].field;
    return FW_CHAT_OTHER;
}

static fw_status put_key(loader *l, fw_jinja_dict *dict, int64_t message, bool thinks, const char *key,
                         const json_t *value) {
    fw_jinja_value name, loaded;
    fw_chat_field field = field_of(key);
    source from = {message, field == FW_CHAT_TOOL_CALL, field, thinks && field == FW_CHAT_CONTENT},
           of_key = {message, false, field == FW_CHAT_CONTENT ? FW_CHAT_OTHER : field, false};
    FW_TRY(load_text(l, key, strlen(key), of_key, &name));
    FW_TRY(load(l, value, from, &loaded, 0));
    return fw_jinja_dict_put(l->memory, dict, name, loaded);
}

/* The content that a message without one gets all the same, or NULL. */
static fw_status missing_content(const loader *l, const json_t *message, json_t **out) {
    const json_t *content = json_object_get(message, "content");
    const bool has_calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
    const bool is_missing = content == NULL || json_is_null(content);
    const bool is_empty = json_is_string(content) && json_string_length(content) == 0;
    *out = NULL;
    if ((l->forms & FW_JINJA_CONTENT_EMPTY) && is_missing) {
        *out = json_string("");
        return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory");
    }
    if ((l->forms & FW_JINJA_CONTENT_NONE) && (is_missing || (is_empty && has_calls))) *out = json_null();
    return FW_OK;
}

/* As transformers hands it over: without the keys that are null, and with its reasoning under the names that templates
 * ask for. */
static fw_status load_message(loader *l, const json_t *json, int64_t index, fw_jinja_value *out) {
    static const char *const reasoning[] = {"reasoning_content", "thinking", "reasoning"};
    const json_t *thought = NULL;
    const char *key;
    json_t *value;
    fw_jinja_dict *dict;
    const bool thinks = fw_message_is_assistant(json);
    if (!json_is_object(json)) return fw_fail(FW_ERR_INPUT, "message %lld is no object", (long long)index);
    for (size_t i = 0; i < 3 && thought == NULL; i++) {
        thought = json_object_get(json, reasoning[i]);
        if (json_is_null(thought)) thought = NULL;
    }
    FW_TRY(fw_jinja_dict_make(l->memory, &dict, json_object_size(json) + 2));
    if (thought != NULL) FW_TRY(put_key(l, dict, index, thinks, "thinking", thought));
    json_t *content = NULL;
    if (thinks) FW_TRY(missing_content(l, json, &content));
    json_object_foreach((json_t *)(uintptr_t)json, key, value) {
        if (!json_is_null(value)) FW_TRY(put_key(l, dict, index, thinks, key, value));
    }
    if (content != NULL) {
        fw_status status = put_key(l, dict, index, thinks, "content", content);
        json_decref(content);
        FW_TRY(status);
    }
    if (thought != NULL) FW_TRY(put_key(l, dict, index, thinks, "reasoning_content", thought));
    dict->message = index;
    *out = (fw_jinja_value){.kind = FW_JINJA_DICT, .origin = fw_jinja_origin_of(index, FW_CHAT_OTHER), .dict = dict};
    return FW_OK;
}

static fw_status load_messages(loader *l, const json_t *messages, fw_jinja_value *out) {
    fw_jinja_list *list;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return fw_fail(FW_ERR_INPUT, "a conversation without messages");
    if (json_array_size(messages) > FW_JINJA_MESSAGE_MAX)
        return fw_fail(FW_ERR_INPUT, "a conversation of too many messages");
    FW_TRY(fw_jinja_list_make(l->memory, &list, FW_JINJA_IS_LIST, json_array_size(messages)));
    for (size_t i = 0; i < list->n; i++)
        FW_TRY(load_message(l, json_array_get(messages, i), (int64_t)i, &list->item[i]));
    *out = (fw_jinja_value){.kind = FW_JINJA_LIST, .list = list};
    return FW_OK;
}

/* A variable of the rendering. Names that the template does not use are passed over. */
static fw_status set_global(fw_jinja *j, const char *name, fw_jinja_value value) {
    unsigned bucket = 0;
    size_t bytes = strlen(name);
    for (size_t i = 0; i < bytes; i++) bucket = bucket * 31 + (unsigned char)name[i];
    for (const fw_jinja_name *at = j->program->name[bucket % 256]; at != NULL; at = at->next)
        if (at->bytes == bytes && memcmp(at->text, name, bytes) == 0)
            return fw_jinja_scope_set(j, j->globals, at, value);
    return FW_OK;
}

static fw_status set_all(fw_jinja *j, loader *l, const json_t *object, fw_chat_field field) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        fw_jinja_value loaded;
        FW_TRY(load(l, value, (source){-1, false, field, false}, &loaded, 0));
        FW_TRY(set_global(j, key, loaded));
    }
    return FW_OK;
}

static fw_status set_globals(fw_jinja *j, loader *l, const fw_jinja_input *in) {
    fw_jinja_value value;
    FW_TRY(set_all(j, l, in->special, FW_CHAT_TEMPLATE));
    for (int i = 0; i < 2; i++) FW_TRY(set_all(j, l, in->variables[i], FW_CHAT_VARIABLE));
    FW_TRY(load_messages(l, in->messages, &value));
    FW_TRY(set_global(j, "messages", value));
    value = fw_jinja_none();
    if (in->tools != NULL) FW_TRY(load(l, in->tools, (source){-1, false, FW_CHAT_TOOLS, false}, &value, 0));
    FW_TRY(set_global(j, "tools", value));
    value = fw_jinja_none();
    if (in->documents != NULL) FW_TRY(load(l, in->documents, (source){-1, false, FW_CHAT_DOCUMENTS, false}, &value, 0));
    FW_TRY(set_global(j, "documents", value));
    return set_global(j, "add_generation_prompt", fw_jinja_bool(in->add_generation_prompt));
}

fw_status fw_jinja_render(fw_jinja_output *out, fw_jinja_memory *memory, const fw_jinja_program *program,
                          const fw_jinja_input *in) {
    fw_jinja_memory_clear(memory);
    memory->limit_bytes = SIZE_MAX / 4; /* what is loaded has been in memory already */
    fw_jinja j = {.memory = memory, .program = program, .step_n = INT64_MAX, .message = -1, .now = in->now};
    loader l = {.memory = memory, .j = &j, .forms = in->forms};
    fw_jinja_builder builder = {.memory = memory};
    FW_TRY(fw_jinja_scope_push(&j, NULL, NULL));
    j.globals = j.scope;
    FW_TRY(set_globals(&j, &l, in));
    memory->limit_bytes = memory->taken_bytes + ((size_t)64 << 20) + 64 * l.bytes;
    j.step_n = 4000000 + 64 * (int64_t)l.bytes;
    j.out = &builder;
    fw_status status = fw_jinja_scope_push(&j, j.globals, &program->body);
    if (status == FW_OK) status = fw_jinja_exec(&j, &program->body);
    if (status == FW_ERR_INPUT && strncmp(fw_trail_message(), program->where, strlen(program->where)) != 0)
        fw_fail_context(status, "%s:%d: ", program->where, j.line); /* memory does not know where it ran out */
    FW_TRY(status);
    *out = (fw_jinja_output){builder.data ? builder.data : "", builder.n, builder.origin, builder.uniform,
                             j.prints_python};
    return FW_OK;
}
