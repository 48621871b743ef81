#include "text/chat_probe.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Renderings of a few short conversations. */
typedef struct probe {
    fw_chat_template *chat;
    json_t *messages;
    fw_chat_rendering before, after;
} probe;

static fw_status render(probe *p, fw_chat_rendering *out, size_t message_n, json_t *variables, unsigned flags) {
    json_t *messages = json_array();
    for (size_t i = 0; messages != NULL && i < message_n; i++)
        if (json_array_append(messages, json_array_get(p->messages, i)) != 0) break;
    fw_conversation c = {.messages = messages, .kwargs = variables};
    fw_status status = json_array_size(messages) == message_n ? fw_chat_render(out, p->chat, &c, flags)
                                                              : fw_fail(FW_ERR_NOMEM, "out of memory");
    json_decref(messages);
    return status;
}

/* Where two texts part: not inside a token, as far as can be seen ("<|end|>" and "<|assistant|>" part before "<|"). */
static size_t common_start(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    size_t n = 0, least = a_bytes < b_bytes ? a_bytes : b_bytes;
    while (n < least && a[n] == b[n]) n++;
    if (n == a_bytes || n == b_bytes) return n;
    while (n > 0 && strchr(">]\n ", a[n - 1]) == NULL) n--;
    return n;
}

static fw_status add_prompt(fw_chat_template *chat, const char *text, size_t bytes) {
    for (size_t i = 0; i < chat->prompt_n; i++)
        if (strlen(chat->prompt[i]) == bytes && memcmp(chat->prompt[i], text, bytes) == 0) return FW_OK;
    if (memchr(text, 0, bytes) != NULL) return FW_OK;
    FW_TRY(FW_GROW_ARRAY(chat->prompt, chat->prompt_n + 1));
    FW_TRY(fw_strndup(&chat->prompt[chat->prompt_n], text, bytes));
    chat->prompt_n++;
    return FW_OK;
}

/* What is written after a question when a reply is asked for. */
static fw_status find_prompt(probe *p, const char *variable, bool value) {
    json_t *variables = variable ? json_pack("{sb}", variable, value) : NULL;
    fw_status status = FW_OK;
    if (variable != NULL && variables == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory");
    FW_TRY_OR(render(p, &p->before, 1, variables, 0), done);
    FW_TRY_OR(render(p, &p->after, 1, variables, FW_CHAT_GENERATION_PROMPT), done);
    size_t n = common_start(p->before.text, p->before.text_bytes, p->after.text, p->after.text_bytes);
    if (n < p->after.text_bytes) FW_TRY_OR(add_prompt(p->chat, p->after.text + n, p->after.text_bytes - n), done);
done:
    json_decref(variables);
    return status;
}

/* The template's text of a message up to the first byte of the message's own. */
static const char *lead_of(const fw_chat_rendering *r, int64_t message, size_t *bytes) {
    size_t start = SIZE_MAX;
    for (size_t i = 0; i < r->segment_n; i++) {
        const fw_chat_segment *s = &r->segment[i];
        if (s->message != message) continue;
        if (start == SIZE_MAX) start = s->offset;
        *bytes = s->offset - start;
        if (s->field == FW_CHAT_CONTENT) return r->text + start;
    }
    *bytes = 0;
    return r->text;
}

static fw_status find_frame(probe *p) {
    FW_TRY(render(p, &p->after, 4, NULL, 0));
    const fw_chat_rendering *r = &p->after;
    size_t first_bytes, last_bytes, own_end = 0, end = 0;
    const char *first = lead_of(r, 1, &first_bytes), *last = lead_of(r, 3, &last_bytes);
    FW_TRY(fw_strndup(&p->chat->opening, first, common_start(first, first_bytes, last, last_bytes)));
    for (size_t i = 0; i < r->segment_n; i++) {
        if (r->segment[i].message != 3) continue;
        end = r->segment[i].offset + r->segment[i].bytes;
        if (r->segment[i].field == FW_CHAT_CONTENT) own_end = end;
    }
    FW_TRY(fw_strndup(&p->chat->ending, r->text + own_end, end - own_end));
    return fw_strndup(&p->chat->after, r->text + end, r->text_bytes - end);
}

static int longest_first(const void *a, const void *b) {
    size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
    return x > y ? -1 : x < y;
}

/* A template may refuse what it is asked here; that is no error. */
static fw_status forgive(fw_status status) { return status == FW_ERR_INPUT ? FW_OK : status; }

static fw_status ask(probe *p) {
    static const char *const modes[] = {"enable_thinking", "thinking"};
    fw_status plain = find_prompt(p, NULL, false);
    FW_TRY(forgive(plain));
    for (size_t i = 0; i < 2 && plain == FW_OK; i++)
        for (int value = 0; value < 2; value++) FW_TRY(forgive(find_prompt(p, modes[i], value != 0)));
    if (p->chat->prompt_n > 0) qsort(p->chat->prompt, p->chat->prompt_n, sizeof *p->chat->prompt, longest_first);
    return forgive(find_frame(p));
}

void fw_chat_probe_clear(fw_chat_template *chat) {
    for (size_t i = 0; i < chat->prompt_n; i++) fw_free(chat->prompt[i]);
    fw_free(chat->prompt);
    fw_free(chat->opening);
    fw_free(chat->ending);
    fw_free(chat->after);
    chat->prompt = NULL;
    chat->prompt_n = 0;
    chat->opening = chat->ending = chat->after = NULL;
}

fw_status fw_chat_probe(fw_chat_template *chat) {
    probe p = {.chat = chat};
    fw_chat_probe_clear(chat);
    p.messages = json_pack("[{ssss}, {ssss}, {ssss}, {ssss}]", "role", "user", "content", "Q", "role", "assistant",
                           "content", "A", "role", "user", "content", "Q", "role", "assistant", "content", "A");
    fw_status status = p.messages ? ask(&p) : fw_fail(FW_ERR_NOMEM, "out of memory");
    fw_chat_rendering_fini(&p.before);
    fw_chat_rendering_fini(&p.after);
    json_decref(p.messages);
    return status;
}
