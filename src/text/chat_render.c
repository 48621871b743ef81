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

/* What the file has and templates may want otherwise. */
typedef struct calls {
    size_t missing_n; /* assistant messages without content */
    size_t empty_n;   /* with an empty one, beside calls */
    bool any;         /* there are calls */
} calls;

static calls find_calls(const json_t *messages) {
    calls found = {0};
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i), *content = json_object_get(message, "content");
        const bool has_calls = json_array_size(json_object_get(message, "tool_calls")) > 0;
        found.any |= has_calls;
        if (!fw_message_is_assistant(message)) continue;
        found.missing_n += content == NULL || json_is_null(content);
        found.empty_n += has_calls && json_is_string(content) && json_string_length(content) == 0;
    }
    return found;
}

/* Renders in one form; *is_good: nothing of a call is lost, and no {'x': 1} or None stands in the text. */
static fw_status render_in_form(fw_chat_rendering *r, const fw_jinja_program *program, const fw_conversation *c,
                                fw_jinja_input *input, unsigned forms, bool *is_good) {
    fw_jinja_output out;
    input->forms = forms;
    *is_good = false;
    r->text_bytes = r->segment_n = r->mark_ignored_n = 0;
    FW_TRY(fw_jinja_render(&out, &r->memory, program, input));
    r->text = out.text;
    r->text_bytes = out.bytes;
    FW_TRY(cut_by_origin(r, &out));
    FW_TRY(fw_chat_find_left_out(r, c));
    *is_good = !out.prints_python;
    for (size_t i = 0; i < json_array_size(c->messages); i++) *is_good &= !r->is_emptied[i];
    return FW_OK;
}

/* Calls come as files have them: without a content, as transformers shows a null one, and with arguments as objects. Some
 * templates add the missing content to a text and fail, some write the calls only where the content is none, some want
 * the arguments as text (DeepSeek's do all of it). So other forms are tried until one loses nothing; that the content is
 * another is counted. Where none is good, the first that renders is taken. */
static fw_status render(fw_chat_rendering *r, const fw_jinja_program *program, const fw_conversation *c,
                        fw_jinja_input *input) {
    static const unsigned contents[] = {0, FW_JINJA_CONTENT_EMPTY, FW_JINJA_CONTENT_NONE};
    const calls found = find_calls(c->messages);
    char message[FW_TRAIL_MESSAGE_BYTES] = "";
    unsigned forms = 0;
    bool has_rendered = false, is_good = false;
    for (int text = 0; text < (found.any ? 2 : 1) && !is_good; text++) {
        for (int k = 0; k < 3 && !is_good; k++) {
            if (contents[k] != 0 && found.missing_n == 0 && (k == 1 || found.empty_n == 0)) continue;
            const unsigned next = contents[k] | (text ? FW_JINJA_ARGUMENTS_TEXT : 0);
            const fw_status status = render_in_form(r, program, c, input, next, &is_good);
            if (status != FW_OK && (status != FW_ERR_INPUT || r->memory.is_spent)) return status;
            if (status != FW_OK && message[0] == 0) snprintf(message, sizeof message, "%s", fw_trail_message());
            if (status == FW_OK && (is_good || !has_rendered)) forms = next;
            has_rendered |= status == FW_OK;
        }
    }
    if (!has_rendered) return fw_fail(FW_ERR_INPUT, "%s", message);
    if (!is_good) FW_TRY(render_in_form(r, program, c, input, forms, &is_good));
    if (forms & FW_JINJA_CONTENT_EMPTY) r->left_out_n[FW_CHAT_LEFT_CONTENT] = (int64_t)found.missing_n;
    if (forms & FW_JINJA_CONTENT_NONE) r->left_out_n[FW_CHAT_LEFT_CONTENT] = (int64_t)(found.missing_n + found.empty_n);
    return FW_OK;
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
    r->text_bytes = r->segment_n = r->mark_ignored_n = 0;
    r->is_answer_lost = false;
    if (program == NULL) return fw_fail(FW_ERR_INPUT, "%s", chat->absent ? chat->absent : "there is no chat template");
    if (c->tools != NULL && chat->with_tools_unread != NULL)
        return fw_fail(FW_ERR_INPUT, "%s", chat->with_tools_unread);
    return render(r, program, c, &input);
}

void fw_chat_rendering_fini(fw_chat_rendering *r) {
    fw_jinja_memory_fini(&r->memory);
    fw_free(r->segment);
    *r = (fw_chat_rendering){0};
}
