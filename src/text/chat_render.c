/* Rendering: a conversation as the model's template writes it, each stretch with where it comes from. */
#include "text/chat_left_out.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

const char *fw_chat_field_name(fw_chat_field field) {
    static const char *const names[FW_CHAT_FIELD_N] = {"template",  "role",      "content",        "thought",
                                                       "reasoning", "tool name", "tool arguments", "tool call",
                                                       "other",     "tools",     "documents",      "variable"};
    return (unsigned)field < FW_CHAT_FIELD_N ? names[field] : "unknown";
}

static fw_status put_segment(fw_chat_rendering *r, size_t offset, size_t bytes, fw_jinja_origin origin) {
    if (r->segment_n == r->segment_cap) {
        size_t cap = r->segment_cap ? 2 * r->segment_cap : 64;
        FW_TRY(FW_GROW_ARRAY(r->segment, cap));
        r->segment_cap = cap;
    }
    r->segment[r->segment_n++] = (fw_chat_segment){.offset = offset,
                                                   .bytes = bytes,
                                                   .message = fw_jinja_origin_message(origin),
                                                   .field = fw_jinja_origin_field(origin & ~FW_JINJA_GENERATION),
                                                   .generation = (origin & FW_JINJA_GENERATION) != 0};
    return FW_OK;
}

static fw_status cut_by_origin(fw_chat_rendering *r, const fw_jinja_output *o) {
    for (size_t start = 0, i = 1; start < o->bytes; i++) {
        if (o->origin == NULL) i = o->bytes;
        if (i < o->bytes && o->origin[i] == o->origin[start]) continue;
        FW_TRY(put_segment(r, start, i - start, o->origin ? o->origin[start] : o->uniform));
        start = i;
    }
    return FW_OK;
}

/* A message of calls may have no content, but a template may need one: it is given what the file has, as others do. */
static fw_status add_remedy(const json_t *messages) {
    char message[FW_TRAIL_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", fw_trail_message());
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        if (content != NULL && !json_is_null(content)) continue;
        return fw_fail(FW_ERR_INPUT,
                       "%.700s; messages[%zu] has no content: if the template needs one, write \"content\": \"\"",
                       message, i);
    }
    return FW_ERR_INPUT;
}

fw_status fw_chat_render(fw_chat_rendering *r, const fw_chat_template *chat, const fw_conversation *c, unsigned flags) {
    const fw_jinja_program *program = c->tools != NULL && chat->with_tools ? chat->with_tools : chat->plain;
    fw_jinja_input input = {.messages = c->messages,
                            .tools = c->tools,
                            .documents = c->documents,
                            .variables = {chat->variables, c->kwargs},
                            .special = chat->special,
                            .add_generation_prompt = (flags & FW_CHAT_GENERATION_PROMPT) != 0,
                            .now = chat->now};
    fw_jinja_output out;
    r->text_bytes = r->segment_n = r->mark_ignored_n = 0;
    r->is_answer_lost = false;
    if (program == NULL) return fw_fail(FW_ERR_INPUT, "%s", chat->absent ? chat->absent : "there is no chat template");
    fw_status status = fw_jinja_render(&out, &r->memory, program, &input);
    if (status == FW_ERR_INPUT && !r->memory.is_spent) status = add_remedy(c->messages);
    FW_TRY(status);
    r->text = out.text;
    r->text_bytes = out.bytes;
    FW_TRY(cut_by_origin(r, &out));
    return fw_chat_find_left_out(r, c);
}

void fw_chat_rendering_fini(fw_chat_rendering *r) {
    fw_jinja_memory_fini(&r->memory);
    fw_free(r->segment);
    *r = (fw_chat_rendering){0};
}
