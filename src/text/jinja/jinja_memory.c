#include "text/jinja/jinja_memory.h"

#include "base/alloc.h"

#include <stdalign.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 15, CHUNK_MAX_BYTES = 1 << 20, ALIGN = alignof(max_align_t) };

typedef struct fw_jinja_chunk {
    struct fw_jinja_chunk *older;
    size_t used, size; /* of data */
    alignas(max_align_t) char data[];
} chunk;

static fw_status add_chunk(fw_jinja_memory *m, size_t bytes) {
    size_t size = m->chunk ? 2 * m->chunk->size : CHUNK_BYTES;
    if (size > CHUNK_MAX_BYTES) size = CHUNK_MAX_BYTES;
    if (size < bytes) size = bytes;
    void *block = NULL;
    FW_TRY(fw_realloc_array(&block, sizeof(chunk) + size, 1));
    chunk *fresh = block;
    fresh->older = m->chunk;
    fresh->used = 0;
    fresh->size = size;
    m->chunk = fresh;
    return FW_OK;
}

fw_status fw_jinja_take(fw_jinja_memory *m, void **out, size_t bytes) {
    if (bytes > m->limit_bytes || m->taken_bytes > m->limit_bytes - bytes) {
        m->is_spent = true;
        return fw_fail(FW_ERR_INPUT, "the template needs more than %zu MiB of memory; is it a loop without end?",
                       m->limit_bytes >> 20);
    }
    size_t padded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (m->chunk == NULL || padded > m->chunk->size - m->chunk->used) FW_TRY(add_chunk(m, padded));
    *out = m->chunk->data + m->chunk->used;
    m->chunk->used += padded;
    m->taken_bytes += padded;
    return FW_OK;
}

fw_status fw_jinja_take_array(fw_jinja_memory *m, void **out, size_t n, size_t size) {
    if (size != 0 && n > SIZE_MAX / 2 / size) n = SIZE_MAX / 2 / size; /* refused by the limit */
    FW_TRY(fw_jinja_take(m, out, n * size));
    memset(*out, 0, n * size);
    return FW_OK;
}

static void free_chunks(chunk *c) {
    while (c != NULL) {
        chunk *older = c->older;
        fw_free(c);
        c = older;
    }
}

void fw_jinja_memory_clear(fw_jinja_memory *m) {
    chunk *newest = m->chunk; /* the largest as a rule: the next use may fit into it */
    m->taken_bytes = 0;
    m->is_spent = false;
    if (newest == NULL) return;
    free_chunks(newest->older);
    newest->older = NULL;
    newest->used = 0;
    if (newest->size <= CHUNK_MAX_BYTES) return;
    fw_free(newest);
    m->chunk = NULL;
}

void fw_jinja_memory_fini(fw_jinja_memory *m) {
    free_chunks(m->chunk);
    m->chunk = NULL;
    m->taken_bytes = 0;
}
