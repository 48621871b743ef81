/* The host allocator: malloc with three additions. Sizes are checked for overflow; a failure is an
 * error with a message, never an exit; and tests can make the n-th allocation fail, which is how
 * every clean-up path is exercised (tests/fault). jansson is routed through it too.
 *
 * Big planned buffers (weights, activations, gradients) do not come from here but from the device. */
#ifndef FW_BASE_ALLOC_H
#define FW_BASE_ALLOC_H

#include "base/status.h"

#include <stdint.h>

/* *out = zeroed memory for n objects of `size` bytes; released with fw_free.
 * n * size == 0 gives a valid one-byte object. Errors: FW_ERR_NOMEM. */
fw_status fw_calloc(void **out, size_t n, size_t size);
#define FW_NEW(pointer) fw_calloc((void **)&(pointer), 1, sizeof *(pointer))
#define FW_NEW_ARRAY(pointer, n) fw_calloc((void **)&(pointer), (n), sizeof *(pointer))

/* Grow or shrink: on failure *block stays as it was. New bytes are not cleared. Errors: FW_ERR_NOMEM. */
fw_status fw_realloc_array(void **block, size_t n, size_t size);
#define FW_GROW_ARRAY(pointer, n) fw_realloc_array((void **)&(pointer), (n), sizeof *(pointer))

/* Copies with a terminating zero. Errors: FW_ERR_NOMEM. */
fw_status fw_strdup(char **out, const char *text);
fw_status fw_strndup(char **out, const char *text, size_t text_bytes);

/* Takes NULL. */
void fw_free(void *block);

/* Plain form for libraries that want a malloc-like hook: NULL on failure, no trail.
 * Some libraries report a failed allocation as something else (jansson: a syntax error), so the failure is
 * remembered per thread: fw_alloc_raw_failed says whether one happened since it was last asked. */
void *fw_alloc_raw(size_t bytes);
int fw_alloc_raw_failed(void);

/* Tests: the n-th allocation from now (1 = the next) fails, once; 0 switches it off.
 * fw_alloc_count: allocations since the last call of fw_alloc_fail_at. Process-wide. */
void fw_alloc_fail_at(uint64_t n);
uint64_t fw_alloc_count(void);

#endif
