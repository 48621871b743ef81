/* Conversations from a file: JSONL (one JSON object a line) or JSON (one array of such objects), told apart by
 * the first character. A conversation is {"messages": [{"role": ..., "content": ...}, ...]} with roles system,
 * user and assistant and text content. Other keys are ignored unless they would change what is trained on
 * (tools, tool_calls, weights, ...); those and other formats (alpaca, sharegpt, prompt/completion, plain text,
 * Parquet, CSV, compressed files) are refused by name.
 *
 * Lines end at \n only: U+2028 and friends are ordinary text. A byte order mark, \r\n and blank lines are fine.
 * Opening finds where the conversations stand; each is parsed when asked for, so threads share the work.
 * Errors (FW_ERR_INPUT) say file, line and, for bad JSON or bad UTF-8, the column. */
#ifndef FW_DATA_READER_H
#define FW_DATA_READER_H

#include "base/json.h"
#include "base/status.h"
#include "text/conversation.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fw_reader fw_reader;

/* Errors: FW_ERR_INPUT (missing, empty, another format, broken outer array), FW_ERR_NOMEM. */
fw_status fw_reader_open(fw_reader **out, const char *path);
/* The same from memory, which is borrowed until close; `name` is what messages call it. */
fw_status fw_reader_open_memory(fw_reader **out, const char *name, const void *bytes, size_t n_bytes);
void fw_reader_close(fw_reader *r); /* takes NULL */

int64_t fw_reader_n(const fw_reader *r); /* conversations, at least 1 */
/* Parse and check conversation `index`. Any number of threads may ask at once. */
fw_status fw_reader_get(const fw_reader *r, int64_t index, fw_conversation *out);

#endif
