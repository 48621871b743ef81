/* The bytes are a chat template, a zero byte, and a conversation as JSON (messages alone, or an object with messages,
 * tools, documents, kwargs); without the second a small one is taken. Rendered or refused with a message, in bounded time and
 * memory; what is rendered is covered by its segments, labelled or not. */
#include "base/json.h"
#include "text/chat_label.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char usual[] =
    "[{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"<think>a</think>b\","
    " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, null]}}}]}]";

static void check_cover(const fw_chat_rendering *r) {
    size_t covered = 0;
    for (size_t i = 0; i < r->segment_n; covered += r->segment[i++].bytes)
        if (r->segment[i].offset != covered || r->segment[i].bytes == 0) abort();
    if (covered != r->text_bytes) abort();
}

static void run(const fw_chat_template *chat, const json_t *json) {
    json_t *object = (json_t *)(uintptr_t)json;
    const fw_conversation c = {.messages = json_is_array(json) ? object : json_object_get(json, "messages"),
                               .tools = json_object_get(json, "tools"),
                               .documents = json_object_get(json, "documents"),
                               .kwargs = json_object_get(json, "kwargs")};
    fw_chat_rendering r = {0};
    if (fw_chat_render(&r, chat, &c, 0) == FW_OK) {
        check_cover(&r);
        const fw_chat_control end = {r.text_bytes / 2, r.text_bytes / 2 + 1, 7};
        if (fw_chat_label(&r, chat, &c, 0, &end, r.text_bytes > 2, 7) != FW_OK) abort();
        check_cover(&r);
    } else if (fw_trail_message()[0] == 0) {
        abort();
    }
    fw_chat_rendering_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t jinja_bytes = zero ? (size_t)(zero - data) : size;
    char *jinja = malloc(jinja_bytes + 1);
    json_t *json = NULL;
    if (jinja == NULL) abort();
    if (jinja_bytes) memcpy(jinja, data, jinja_bytes);
    jinja[jinja_bytes] = 0;
    const char *talk = zero ? (const char *)zero + 1 : usual;
    size_t talk_bytes = zero ? size - jinja_bytes - 1 : sizeof usual - 1;
    fw_chat_template chat;
    if (fw_json_parse(&json, talk, talk_bytes, "fuzz", 1) == FW_OK) {
        if (fw_chat_template_parse(&chat, jinja, "fuzz") == FW_OK)
            run(&chat, json);
        else if (fw_trail_message()[0] == 0)
            abort();
        fw_chat_template_fini(&chat);
    }
    json_decref(json);
    free(jinja);
    return 0;
}
