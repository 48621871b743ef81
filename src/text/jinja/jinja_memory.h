/* Memory of one template or one rendering: handed out piece by piece, given back all at once, and bounded.
 *
 * A template is a program from outside: whatever it builds lives here, so its appetite ends at limit_bytes. */
#ifndef FW_TEXT_JINJA_MEMORY_H
#define FW_TEXT_JINJA_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise and set limit_bytes; release with fw_jinja_memory_fini. */
typedef struct fw_jinja_memory {
    struct fw_jinja_chunk *chunk; /* the one in use; older ones hang behind it */
    size_t taken_bytes, limit_bytes;
    bool is_spent; /* since it was cleared, something was refused for the limit of memory or steps */
} fw_jinja_memory;

/* *out = `bytes` uninitialised bytes, aligned for any object. Errors: FW_ERR_INPUT beyond limit_bytes (the message has
 * no context: callers add the template's line), FW_ERR_NOMEM. */
fw_status fw_jinja_take(fw_jinja_memory *memory, void **out, size_t bytes);
/* The same for n objects, zeroed. */
fw_status fw_jinja_take_array(fw_jinja_memory *memory, void **out, size_t n, size_t size);
#define FW_JINJA_NEW(memory, pointer) fw_jinja_take_array((memory), (void **)&(pointer), 1, sizeof *(pointer))
#define FW_JINJA_NEW_ARRAY(memory, pointer, n)                                                                         \
    fw_jinja_take_array((memory), (void **)&(pointer), (n), sizeof *(pointer))

/* Everything handed out is void; one chunk is kept for the next use. */
void fw_jinja_memory_clear(fw_jinja_memory *memory);
void fw_jinja_memory_fini(fw_jinja_memory *memory);

#endif
