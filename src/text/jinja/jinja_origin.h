/* Where a character of a rendered conversation came from: which message, and which part of it or the template.
 *
 * An origin is a number: (message + 1) * FW_JINJA_FIELD_MAX + field, message -1 for what belongs to none. Text of the
 * template belongs to the message that the template was going through when it wrote it (the item of the innermost
 * `for` that is a message). FW_JINJA_GENERATION is added inside {% generation %} blocks. */
#ifndef FW_TEXT_JINJA_ORIGIN_H
#define FW_TEXT_JINJA_ORIGIN_H

#include <stdint.h>

typedef uint32_t fw_jinja_origin;

typedef enum fw_chat_field {
    FW_CHAT_TEMPLATE,       /* the template's own text, or computed from it */
    FW_CHAT_ROLE,           /* a message's "role" */
    FW_CHAT_CONTENT,        /* "content" */
    FW_CHAT_THOUGHT,        /* the part of an assistant's "content" up to its last </think> */
    FW_CHAT_REASONING,      /* "reasoning_content" */
    FW_CHAT_TOOL_NAME,      /* the name in "tool_calls" */
    FW_CHAT_TOOL_ARGUMENTS, /* the arguments in "tool_calls" */
    FW_CHAT_TOOL_CALL,      /* what else is in "tool_calls" */
    FW_CHAT_OTHER,          /* any other key of a message */
    FW_CHAT_TOOLS,          /* of no message: "tools" */
    FW_CHAT_DOCUMENTS,      /* "documents" */
    FW_CHAT_VARIABLE,       /* a variable of the conversation's own ("chat_template_kwargs") */
    FW_CHAT_FIELD_N
} fw_chat_field;

enum { FW_JINJA_FIELD_MAX = 16, FW_JINJA_MESSAGE_MAX = 1 << 26 };
#define FW_JINJA_GENERATION ((fw_jinja_origin)1 << 31)

static inline fw_jinja_origin fw_jinja_origin_of(int64_t message, fw_chat_field field) {
    return (fw_jinja_origin)(message + 1) * FW_JINJA_FIELD_MAX + (fw_jinja_origin)field;
}
static inline fw_chat_field fw_jinja_origin_field(fw_jinja_origin origin) {
    return (fw_chat_field)(origin % FW_JINJA_FIELD_MAX);
}
static inline int64_t fw_jinja_origin_message(fw_jinja_origin origin) {
    return (int64_t)((origin & ~FW_JINJA_GENERATION) / FW_JINJA_FIELD_MAX) - 1;
}

#endif
