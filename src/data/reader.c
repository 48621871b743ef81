#include "data/reader.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/format.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct fw_reader {
    char *name;
    const char *text;
    fw_mapping mapping; /* data is NULL when the text is borrowed */
    fw_records records;
};

/* Keys that change what is trained on: to ignore them would train on something else than the user meant. */
static const char *const record_keys_refused[] = {"tools", "functions"};
static const char *const message_keys_refused[] = {"tool_calls", "function_call", "tool_call_id",     "loss_weight",
                                                   "weight",     "train",         "reasoning_content"};

fw_status fw_reader_open_memory(fw_reader **out, const char *name, const void *bytes, size_t n_bytes) {
    *out = NULL;
    fw_reader *r;
    fw_status status;
    FW_TRY(FW_NEW(r));
    FW_TRY_OR(fw_strdup(&r->name, name), failed);
    r->text = bytes;
    FW_TRY_OR(fw_format_split(&r->records, name, n_bytes ? bytes : "", n_bytes), failed);
    if (r->records.n == 0) {
        status = fw_fail(FW_ERR_INPUT, "%s: the array is empty; at least one conversation is needed", name);
        goto failed;
    }
    *out = r;
    return FW_OK;
failed:
    fw_reader_close(r);
    return status;
}

fw_status fw_reader_open(fw_reader **out, const char *path) {
    *out = NULL;
    fw_mapping mapping;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return fw_fail(FW_ERR_INPUT,
                       "there is no dataset %s; check the path (a file of conversations, one JSON object a line: "
                       "docs/data-format.md; data sets are not fetched from the Hub)",
                       path);
    FW_TRY(fw_file_map(&mapping, path));
    fw_status status = fw_reader_open_memory(out, path, mapping.data, mapping.bytes);
    if (status != FW_OK) {
        fw_file_unmap(&mapping);
        return status;
    }
    (*out)->mapping = mapping;
    return FW_OK;
}

void fw_reader_close(fw_reader *r) {
    if (r == NULL) return;
    if (r->mapping.data) fw_file_unmap(&r->mapping);
    fw_free(r->records.record);
    fw_free(r->name);
    fw_free(r);
}

int64_t fw_reader_n(const fw_reader *r) { return (int64_t)r->records.n; }

/* null or of no length: the key is there but says nothing */
static int is_empty(const json_t *value) {
    return value == NULL || json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static fw_status parse_record(json_t **out, const fw_reader *r, size_t index) {
    const fw_record *record = &r->records.record[index];
    fw_status status =
        fw_json_parse_at(out, r->text + record->offset, record->bytes, r->name, record->line, record->column);
    if (status != FW_ERR_INPUT || r->records.is_array) return status;
    char message[FW_TRAIL_MESSAGE_BYTES];
    strncpy(message, fw_trail_message(), sizeof message - 1);
    message[sizeof message - 1] = 0;
    if (index + 1 == r->records.n && r->records.cut_off)
        return fw_fail(FW_ERR_INPUT, "%s; this last line has no newline: is the file cut off?", message);
    return fw_fail(FW_ERR_INPUT, "%s; every line must hold one whole conversation", message);
}

static fw_status read_message(fw_message *out, const fw_reader *r, size_t line, size_t index, json_t *message) {
    if (!json_is_object(message))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: messages[%zu] must be an object with \"role\" and \"content\"", r->name,
                       line, index);
    for (size_t i = 0; i < sizeof message_keys_refused / sizeof *message_keys_refused; i++)
        if (!is_empty(json_object_get(message, message_keys_refused[i])))
            return fw_fail(FW_ERR_INPUT, "%s:%zu: messages[%zu] has \"%s\", which is not supported; remove it", r->name,
                           line, index, message_keys_refused[i]);
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    if (!json_is_string(role))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: messages[%zu] needs a \"role\": system, user or assistant", r->name, line,
                       index);
    out->role = json_string_value(role);
    if (strcmp(out->role, "system") != 0 && strcmp(out->role, "user") != 0 && strcmp(out->role, "assistant") != 0)
        return fw_fail(FW_ERR_INPUT,
                       "%s:%zu: messages[%zu] has the unknown role \"%.40s\"; known are system, user and assistant",
                       r->name, line, index, out->role);
    if (content == NULL || json_is_null(content))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: the content of messages[%zu] (%s) is %s; a string is needed", r->name,
                       line, index, out->role, content ? "null" : "missing");
    if (json_is_array(content))
        return fw_fail(FW_ERR_INPUT,
                       "%s:%zu: the content of messages[%zu] (%s) is a list of parts, which is not supported; "
                       "make it one string",
                       r->name, line, index, out->role);
    if (!json_is_string(content))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: the content of messages[%zu] (%s) is not a string", r->name, line, index,
                       out->role);
    out->json = message;
    out->content = json_string_value(content);
    out->content_bytes = json_string_length(content);
    return FW_OK;
}

static fw_status read_messages(fw_conversation *out, const fw_reader *r, size_t line) {
    json_t *messages = json_is_object(out->json) ? json_object_get(out->json, "messages") : NULL;
    if (messages == NULL) return fw_format_refuse_record(r->name, line, out->json);
    for (size_t i = 0; i < sizeof record_keys_refused / sizeof *record_keys_refused; i++)
        if (!is_empty(json_object_get(out->json, record_keys_refused[i])))
            return fw_fail(FW_ERR_INPUT, "%s:%zu: the record has \"%s\"; tool calls are not supported, remove it",
                           r->name, line, record_keys_refused[i]);
    if (!json_is_array(messages))
        return fw_fail(FW_ERR_INPUT, "%s:%zu: \"messages\" must be a list of {\"role\", \"content\"}", r->name, line);
    if (json_array_size(messages) == 0)
        return fw_fail(FW_ERR_INPUT, "%s:%zu: \"messages\" is empty; remove the record", r->name, line);
    FW_TRY(FW_NEW_ARRAY(out->message, json_array_size(messages)));
    out->messages = messages;
    out->message_n = json_array_size(messages);
    for (size_t i = 0; i < out->message_n; i++) {
        FW_TRY(read_message(&out->message[i], r, line, i, json_array_get(messages, i)));
        if (strcmp(out->message[i].role, "assistant") == 0) out->has_assistant = 1;
    }
    return FW_OK;
}

fw_status fw_reader_get(const fw_reader *r, int64_t index, fw_conversation *out) {
    *out = (fw_conversation){0};
    if (index < 0 || index >= fw_reader_n(r))
        return fw_fail(FW_ERR_INTERNAL, "%s has %zu conversations; number %lld was asked for", r->name, r->records.n,
                       (long long)index);
    size_t line = r->records.record[index].line;
    fw_status status;
    out->file = r->name;
    out->line = (int64_t)line;
    FW_TRY_OR(parse_record(&out->json, r, (size_t)index), failed);
    FW_TRY_OR(read_messages(out, r, line), failed);
    return FW_OK;
failed:
    fw_conversation_fini(out);
    return status;
}
