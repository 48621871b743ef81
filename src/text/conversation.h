/* One conversation as every format of data gives it: what a chat template sees, and what is to be learnt of it.
 *
 * The readers of room data bring all shapes (messages, sharegpt, alpaca, prompt/completion, text) into this one form:
 *
 *   messages   a JSON array of objects, as a template's `messages`. Every message has
 *                role           "system", "developer", "user", "assistant" or "tool"
 *                content        a string: typed text parts are joined. null or missing where the file had it so
 *              and, where the file has them,
 *                reasoning_content  a string; the names reasoning and thinking give this one too
 *                tool_calls     [{"id"?, "type": "function", "function": {"name", "arguments": an object}}]: arguments
 *                               that stood there as a string have been parsed
 *                tool_call_id, name, and any other key of the file's, as it stood there
 *              but not the marks loss_weight, weight and train, which became `learn` and `weight`.
 *   tools      a JSON array of objects as they stood in the file; documents too.
 *
 * Strings are valid UTF-8 and may hold zero bytes. Keys keep the order of the file. */
#ifndef FW_TEXT_CONVERSATION_H
#define FW_TEXT_CONVERSATION_H

#include "base/loss_weight.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Is a message to be learnt? What its marks in the file say. */
typedef enum fw_learn {
    FW_LEARN_AS_ASKED, /* it has no mark: the options decide */
    FW_LEARN_NO,       /* loss_weight 0, train false */
    FW_LEARN_YES       /* loss_weight above 0, train true */
} fw_learn;

typedef struct fw_message {
    const json_t *json; /* the message as the template sees it */
    const char *role;
    const char *content; /* "" when it is null or missing */
    size_t content_bytes;
    fw_learn learn;
    fw_loss_weight weight; /* of its targets in the loss; 0: it says none, and they count as one each */
} fw_message;

/* Everything but `message` is borrowed from the JSON below. */
typedef struct fw_conversation {
    fw_message *message;
    size_t message_n;   /* at least 1 unless is_text */
    json_t *messages;   /* the same as JSON */
    json_t *tools;      /* NULL: none */
    json_t *documents;  /* NULL: none */
    json_t *kwargs;     /* an object of further variables of the template (chat_template_kwargs); NULL: none */
    size_t prompt_n;    /* the first messages that are a prompt: context, unless marked (prompt/completion) */
    bool has_assistant; /* some message is the assistant's */
    bool has_marks;     /* some message has a mark */

    bool is_text; /* no messages: a text to learn as it stands, without a template; the end of text comes after it */
    const char *text;
    size_t text_bytes;
    size_t prompt_bytes; /* the first bytes of it that are a prompt: context */

    const char *file; /* where it stands, for messages; borrowed from the reader */
    int64_t line;     /* of a text file, the row of a table; from 1 */
    json_t *json;     /* owns all of it */
} fw_conversation;

/* Is a message, as JSON, the model's? */
static inline bool fw_message_is_assistant(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL && (strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0);
}

void fw_conversation_fini(fw_conversation *c); /* takes a zeroed one */

#endif
