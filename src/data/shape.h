/* From a row of any known shape to one conversation (text/conversation.h).
 *
 *   messages    {"messages": [{"role", "content", ...}], "tools"?, "documents"?, "chat_template_kwargs"?}
 *   sharegpt    {"conversations": [{"from", "value"}], "system"?, "tools"?}
 *   prompt      {"prompt", "completion"}: both strings, or both lists of messages
 *   alpaca      {"instruction", "input"?, "output", "system"?, "history"?: [[question, answer], ...]}
 *   text        {"text"}
 *
 * Lists may also stand there as a string of JSON, as tables have them. */
#ifndef FW_DATA_SHAPE_H
#define FW_DATA_SHAPE_H

#include "data/row_place.h"
#include "text/conversation.h"

/* In the order in which they are tried on a row. */
typedef enum fw_shape {
    FW_SHAPE_AUTO, /* found by looking at the rows */
    FW_SHAPE_MESSAGES,
    FW_SHAPE_SHAREGPT,
    FW_SHAPE_PROMPT,
    FW_SHAPE_ALPACA,
    FW_SHAPE_TEXT,
    FW_SHAPE_N
} fw_shape;
/* "messages", "sharegpt", "prompt_completion", "alpaca", "text"; "unknown" for FW_SHAPE_AUTO. */
const char *fw_shape_name(fw_shape shape);

/* The shape that the keys of a row show; FW_SHAPE_AUTO: none. text_field: the key of plain text. */
fw_shape fw_shape_find(const json_t *row, const char *text_field);
/* Is this a key that some shape reads? Columns of tables with other names need not be read. */
int fw_shape_uses_key(const char *key, const char *text_field);

/* Takes over the row, whatever comes of it. place: its file and line; gets the reason of a refusal.
 * Errors: FW_ERR_INPUT naming file, line, message and key; FW_ERR_NOMEM. */
fw_status fw_shape_read(fw_conversation *out, fw_shape shape, const char *text_field, json_t *row, fw_row_place *place);

#endif
