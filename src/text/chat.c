/* Rendering: a conversation as the model's template writes it, each stretch with where it comes from. */
#include "text/chat.h"

#include "base/alloc.h"
#include "text/utf8.h"

#include <string.h>

static fw_status put(fw_chat_rendering *r, const char *bytes, size_t n_bytes, int64_t message, fw_chat_kind kind,
                     bool trained) {
    if (n_bytes == 0) return FW_OK;
    fw_chat_segment *last = r->segment_n > 0 ? &r->segment[r->segment_n - 1] : NULL;
    bool joins = last != NULL && last->message == message && last->kind == kind && last->trained == trained;
    if (!joins && r->segment_n == r->segment_cap) {
        size_t cap = r->segment_cap ? 2 * r->segment_cap : 16;
        FW_TRY(FW_GROW_ARRAY(r->segment, cap));
        r->segment_cap = cap;
    }
    size_t offset = r->text.len_bytes;
    FW_TRY(fw_strbuf_append(&r->text, bytes, n_bytes));
    if (joins)
        r->segment[r->segment_n - 1].bytes += n_bytes;
    else
        r->segment[r->segment_n++] = (fw_chat_segment){offset, n_bytes, message, kind, trained};
    return FW_OK;
}

static fw_status put_template(fw_chat_rendering *r, const char *text, int64_t message, bool trained) {
    return put(r, text, strlen(text), message, FW_CHAT_TEMPLATE, trained);
}

/* A stretch of a message's content; all borrowed. */
typedef struct slice {
    const char *text;
    size_t bytes;
} slice;

static slice strip_left(slice s) {
    while (s.bytes > 0 && s.text[0] == '\n') s = (slice){s.text + 1, s.bytes - 1};
    return s;
}

static slice strip_right(slice s) {
    while (s.bytes > 0 && s.text[s.bytes - 1] == '\n') s.bytes--;
    return s;
}

static const char *find(slice s, const char *what) {
    return s.bytes ? memmem(s.text, s.bytes, what, strlen(what)) : NULL;
}

/* What follows the last `what`, or all of s. */
static slice after_last(slice s, const char *what) {
    size_t n = strlen(what);
    for (const char *at; (at = find(s, what)) != NULL;) s = (slice){at + n, s.bytes - (size_t)(at - s.text) - n};
    return s;
}

static slice before_first(slice s, const char *what) {
    const char *at = find(s, what);
    return at == NULL ? s : (slice){s.text, (size_t)(at - s.text)};
}

static bool is_role(const fw_chat_message *m, const char *role) { return strcmp(m->role, role) == 0; }

static bool is_tool_response(const fw_chat_message *m) {
    static const char start[] = "<tool_response>", end[] = "</tool_response>";
    return m->content_bytes >= sizeof end - 1 && memcmp(m->content, start, sizeof start - 1) == 0 &&
           memcmp(m->content + m->content_bytes - (sizeof end - 1), end, sizeof end - 1) == 0;
}

/* Index of the last user message that asks something. */
static size_t last_query(const fw_chat_message *messages, size_t message_n) {
    for (size_t i = message_n; i-- > 0;)
        if (is_role(&messages[i], "user") && !is_tool_response(&messages[i])) return i;
    return message_n - 1;
}

/* The content of an assistant's turn, by Qwen3's rules. */
static fw_status put_qwen3(fw_chat_rendering *r, const fw_chat_message *m, int64_t index, bool after_query, bool last) {
    slice content = {m->content, m->content_bytes}, reasoning = {NULL, 0};
    bool has_block = find(content, "</think>") != NULL;
    if (has_block) {
        reasoning = strip_left(after_last(strip_right(before_first(content, "</think>")), "<think>"));
        content = strip_left(after_last(content, "</think>"));
    }
    bool writes_block = after_query && (last || reasoning.bytes > 0);
    if (writes_block) {
        reasoning = strip_right(reasoning);
        content = strip_left(content);
        FW_TRY(put_template(r, "<think>\n", index, has_block));
        FW_TRY(put(r, reasoning.text, reasoning.bytes, index, FW_CHAT_CONTENT, true));
        FW_TRY(put_template(r, "\n</think>\n\n", index, has_block));
    } else if (reasoning.bytes > 0) {
        r->reasoning_dropped_n++;
    }
    return put(r, content.text, content.bytes, index, FW_CHAT_CONTENT, true);
}

static fw_status put_message(fw_chat_rendering *r, const fw_chat_template *chat, const fw_chat_message *messages,
                             size_t i, size_t message_n, size_t query) {
    const fw_chat_message *m = &messages[i];
    bool assistant = is_role(m, "assistant");
    FW_TRY(put_template(r, "<|im_start|>", (int64_t)i, false));
    FW_TRY(put_template(r, m->role, (int64_t)i, false));
    FW_TRY(put_template(r, "\n", (int64_t)i, false));
    if (assistant && chat->style == FW_CHAT_QWEN3)
        FW_TRY(put_qwen3(r, m, (int64_t)i, i > query, i + 1 == message_n));
    else
        FW_TRY(put(r, m->content, m->content_bytes, (int64_t)i, FW_CHAT_CONTENT, assistant));
    FW_TRY(put_template(r, "<|im_end|>", (int64_t)i, assistant));
    return put_template(r, "\n", (int64_t)i, false);
}

static fw_status check_message(const fw_chat_message *m, size_t index) {
    if (!is_role(m, "system") && !is_role(m, "user") && !is_role(m, "assistant"))
        return fw_fail(FW_ERR_INPUT, "message %zu has the role \"%.40s\"; system, user and assistant are known", index,
                       m->role);
    size_t invalid = fw_utf8_find_invalid(m->content, m->content_bytes);
    if (invalid < m->content_bytes)
        return fw_fail(FW_ERR_INPUT, "message %zu is not valid UTF-8 at byte %zu (0x%02x)", index, invalid,
                       (unsigned char)m->content[invalid]);
    return FW_OK;
}

fw_status fw_chat_render(fw_chat_rendering *r, const fw_chat_template *chat, const fw_chat_message *messages,
                         size_t message_n, unsigned flags) {
    fw_strbuf_clear(&r->text);
    r->segment_n = 0;
    r->reasoning_dropped_n = 0;
    if (message_n == 0) return fw_fail(FW_ERR_INPUT, "a conversation without messages");
    for (size_t i = 0; i < message_n; i++) FW_TRY(check_message(&messages[i], i));
    if (chat->system_default != NULL && !is_role(&messages[0], "system")) {
        FW_TRY(put_template(r, "<|im_start|>system\n", -1, false));
        FW_TRY(put_template(r, chat->system_default, -1, false));
        FW_TRY(put_template(r, "<|im_end|>\n", -1, false));
    }
    size_t query = last_query(messages, message_n);
    for (size_t i = 0; i < message_n; i++) FW_TRY(put_message(r, chat, messages, i, message_n, query));
    if (!(flags & FW_CHAT_GENERATION_PROMPT)) return FW_OK;
    FW_TRY(put_template(r, "<|im_start|>assistant\n", -1, false));
    if (chat->prompt == FW_CHAT_PROMPT_THINKING) return put_template(r, "<think>\n", -1, false);
    if (chat->prompt == FW_CHAT_PROMPT_SWITCH && (flags & FW_CHAT_NO_THINKING))
        return put_template(r, "<think>\n\n</think>\n\n", -1, false);
    return FW_OK;
}

void fw_chat_rendering_fini(fw_chat_rendering *r) {
    fw_strbuf_fini(&r->text);
    fw_free(r->segment);
    *r = (fw_chat_rendering){0};
}
