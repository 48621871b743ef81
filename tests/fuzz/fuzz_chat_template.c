/* The bytes are a chat template: recognised or refused with a message, never run. */
#include "text/chat.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *jinja = malloc(size + 1);
    if (jinja == NULL) abort();
    memcpy(jinja, data, size);
    jinja[size] = 0;
    fw_chat_template chat;
    if (fw_chat_template_parse(&chat, jinja, "fuzz") == FW_OK) {
        static const fw_chat_message messages[] = {{"user", "hi", 2}, {"assistant", "<think>a</think>b", 17}};
        fw_chat_rendering rendering = {0};
        if (fw_chat_render(&rendering, &chat, messages, 2, 1) != FW_OK) abort();
        fw_chat_rendering_fini(&rendering);
    } else if (fw_trail_message()[0] == 0) {
        abort();
    }
    fw_chat_template_fini(&chat);
    free(jinja);
    return 0;
}
