#include "text/chat_left_out.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *key, *one, *many, *hint;
} kinds[FW_CHAT_LEFT_N] = {
    [FW_CHAT_LEFT_REASONING] = {"reasoning_left_out", "the reasoning of %lld assistant turn",
                                "the reasoning of %lld assistant turns", ""},
    [FW_CHAT_LEFT_MESSAGE] = {"messages_left_out", "%lld message", "%lld messages",
                              ": does it know their roles (tool, system)?"},
    [FW_CHAT_LEFT_PART] = {"message_parts_left_out", "a part of %lld message", "a part of each of %lld messages", ""},
    [FW_CHAT_LEFT_CALLS] = {"tool_calls_left_out", "tool calls of %lld message", "tool calls of %lld messages",
                            ": is the model made for tools?"},
    [FW_CHAT_LEFT_TOOLS] = {"tools_left_out", "the tools of %lld conversation", "the tools of %lld conversations",
                            ": is the model made for tools?"},
    [FW_CHAT_LEFT_DOCUMENTS] = {"documents_left_out", "the documents of %lld conversation",
                                "the documents of %lld conversations", ": is the model made for documents?"},
    [FW_CHAT_LEFT_CONTENT] = {"content_refused", "the missing content of %lld message, and gets \"\" or none",
                              "the missing content of %lld messages, and gets \"\" or none", ""},
};

const char *fw_chat_left_out_verb(fw_chat_left_out what) {
    return what == FW_CHAT_LEFT_CONTENT ? "refuses" : "leaves out";
}

const char *fw_chat_left_out_key(fw_chat_left_out what) { return kinds[what].key; }
const char *fw_chat_left_out_hint(fw_chat_left_out what) { return kinds[what].hint; }

const char *fw_chat_left_out_words(char text[FW_CHAT_LEFT_OUT_BYTES], fw_chat_left_out what, int64_t n) {
    const char *form = n == 1 ? kinds[what].one : kinds[what].many, *number = strstr(form, "%lld");
    snprintf(text, FW_CHAT_LEFT_OUT_BYTES, "%.*s%lld%s", (int)(number - form), form, (long long)n, number + 4);
    return text;
}

/* What a message holds of each kind, or what the text has of it. */
typedef struct presence {
    size_t content_n; /* characters that are not white space */
    bool reasoning;
    size_t name_bytes; /* of called functions, */
    bool calls;        /* or anything else of calls */
} presence;

/* In characters, as upper and lower case may differ in bytes. */
static size_t count_visible(const char *text, size_t bytes) {
    size_t n = 0;
    for (size_t at = 0, step; at < bytes; at += step) {
        int complete;
        uint32_t code = 0;
        step = fw_utf8_measure((const unsigned char *)text + at, bytes - at, &complete);
        if (complete) fw_utf8_next(&code, text + at);
        n += !fw_jinja_is_space(code);
    }
    return n;
}

/* An assistant's content is reasoning up to its last </think>: as the origins have it. */
static void add_content(presence *p, const json_t *message) {
    static const char end[] = "</think>", begin[] = "<think>";
    const json_t *content = json_object_get(message, "content");
    if (!json_is_string(content)) return;
    const size_t bytes = json_string_length(content);
    const bool thinks = fw_message_is_assistant(message);
    const char *text = json_string_value(content), *last = NULL, *stop = text + bytes;
    for (const char *at = text; thinks && (at = memmem(at, (size_t)(stop - at), end, sizeof end - 1)) != NULL;
         at += sizeof end - 1)
        last = at;
    if (last != NULL) {
        const char *start = memmem(text, (size_t)(last - text), begin, sizeof begin - 1);
        start = start ? start + sizeof begin - 1 : text;
        p->reasoning |= !fw_chat_is_blank(start, (size_t)(last - start));
        text = last + sizeof end - 1;
    }
    p->content_n = count_visible(text, (size_t)(stop - text));
}

static presence held_by(const json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    presence p = {0};
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_object_get(message, names[i]);
        if (json_is_string(value))
            p.reasoning |= !fw_chat_is_blank(json_string_value(value), json_string_length(value));
    }
    const json_t *calls = json_object_get(message, "tool_calls");
    p.calls = json_array_size(calls) > 0;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        const json_t *name = json_object_get(function != NULL ? function : call, "name");
        if (json_is_string(name)) p.name_bytes += json_string_length(name);
    }
    add_content(&p, message);
    return p;
}

static void add_shown(presence *p, const fw_chat_segment *s, const char *text) {
    if (s->field == FW_CHAT_CONTENT) p->content_n += count_visible(text, s->bytes);
    if (fw_chat_is_blank(text, s->bytes)) return;
    p->reasoning |= s->field == FW_CHAT_THOUGHT || s->field == FW_CHAT_REASONING;
    p->calls |= s->field == FW_CHAT_TOOL_NAME || s->field == FW_CHAT_TOOL_ARGUMENTS || s->field == FW_CHAT_TOOL_CALL;
    if (s->field == FW_CHAT_TOOL_NAME) p->name_bytes += s->bytes;
}

fw_status fw_chat_find_left_out(fw_chat_rendering *r, const fw_conversation *c) {
    presence *shown;
    const size_t n = json_array_size(c->messages);
    bool tools = json_array_size(c->tools) > 0, documents = json_array_size(c->documents) > 0;
    memset(r->left_out_n, 0, sizeof r->left_out_n);
    FW_TRY(fw_jinja_take_array(&r->memory, (void **)&shown, n, sizeof *shown));
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, r->is_emptied, n));
    for (size_t i = 0; i < r->segment_n; i++) {
        const fw_chat_segment *s = &r->segment[i];
        if (s->field == FW_CHAT_TOOLS) tools = false;
        if (s->field == FW_CHAT_DOCUMENTS) documents = false;
        if (s->message >= 0 && (size_t)s->message < n) add_shown(&shown[s->message], s, r->text + s->offset);
    }
    for (size_t i = 0; i < n; i++) {
        const presence held = held_by(json_array_get(c->messages, i)), *has = &shown[i];
        const bool calls = held.calls && (!has->calls || has->name_bytes < held.name_bytes);
        r->left_out_n[FW_CHAT_LEFT_REASONING] += held.reasoning && !has->reasoning;
        r->left_out_n[FW_CHAT_LEFT_MESSAGE] += held.content_n > 0 && has->content_n == 0;
        r->left_out_n[FW_CHAT_LEFT_PART] += has->content_n > 0 && has->content_n < held.content_n;
        r->left_out_n[FW_CHAT_LEFT_CALLS] += calls;
        r->is_emptied[i] = held.calls && !has->calls && has->content_n == 0 && !has->reasoning;
    }
    r->left_out_n[FW_CHAT_LEFT_TOOLS] = tools;
    r->left_out_n[FW_CHAT_LEFT_DOCUMENTS] = documents;
    return FW_OK;
}

fw_status fw_chat_check_answers(fw_chat_rendering *r, size_t message_n) {
    for (size_t i = 0; i < r->segment_n; i++) {
        const fw_chat_segment *s = &r->segment[i];
        const bool is_of_message = s->message >= 0 && (size_t)s->message < message_n;
        if (!s->trained || !is_of_message || !r->is_emptied[s->message]) continue;
        r->is_answer_lost = true;
        return fw_fail(
            FW_ERR_INPUT,
            "the chat template writes nothing of the tool call that messages[%lld] is: an empty answer would "
            "be learnt; take a model whose template knows tools, or write the call into \"content\"",
            (long long)s->message);
    }
    return FW_OK;
}
