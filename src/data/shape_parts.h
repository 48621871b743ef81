/* What the shapes have in common. Used by data/shape*.c. */
#ifndef FW_DATA_SHAPE_PARTS_H
#define FW_DATA_SHAPE_PARTS_H

#include "data/shape.h"

/* A conversation being made: `messages` are collected here, then checked and listed by fw_shape_finish. */
typedef struct fw_shape_work {
    fw_conversation *out;
    json_t *row; /* borrowed: owned by out->json */
    fw_row_place *place;
} fw_shape_work;

/* null, or of no length: the key is there but says nothing. Also for NULL. */
int fw_json_says_nothing(const json_t *value);
/* The value of a key; NULL when it is not there or says nothing. */
json_t *fw_shape_value(const fw_shape_work *w, const char *key);
/* Keep a new reference as long as the conversation lives. NULL: out of memory. */
fw_status fw_shape_keep(fw_shape_work *w, json_t *value);
/* The list under a key, which may stand there as a string of JSON; NULL when there is none. Borrowed. */
fw_status fw_shape_list(fw_shape_work *w, const char *key, json_t **list);

fw_status fw_shape_start(fw_shape_work *w);
/* Append {"role": role, "content": content}; content is a JSON value. */
fw_status fw_shape_add(fw_shape_work *w, const char *role, json_t *content);
fw_status fw_shape_add_text(fw_shape_work *w, const char *role, const char *text, size_t text_bytes);
/* Append every message of a list as it stands. name: what the list is called, for messages. */
fw_status fw_shape_add_list(fw_shape_work *w, json_t *list, const char *name);
/* tools, documents, chat_template_kwargs; then every message into its one form. */
fw_status fw_shape_finish(fw_shape_work *w, const char *list_name);

/* One message into its form, in place: role, content, reasoning, tool calls, marks (data/message.c).
 * where: "messages[3]". */
fw_status fw_message_read(fw_message *out, json_t *message, const char *where, fw_row_place *place);
/* "human" -> "user"; NULL: unknown. */
const char *fw_message_role(const char *word);
/* content (a string or a list of parts) into a string; *out is a new reference, NULL for null. Other parts than text
 * go to reasoning and calls of the message. */
fw_status fw_message_content(json_t **out, json_t *message, const json_t *content, const char *where,
                             fw_row_place *place);
/* tool_calls and function_call of the message into their form. */
fw_status fw_message_tool_calls(json_t *message, const char *where, fw_row_place *place);
/* A string of JSON that holds one call or a list of calls -> the message's tool_calls. */
fw_status fw_message_calls_from_text(json_t *message, const char *text, size_t text_bytes, const char *where,
                                     fw_row_place *place);

/* jansson's answers: 0 and not NULL are good. */
fw_status fw_shape_json_ok(int result);
fw_status fw_shape_json_made(const void *value);

#endif
