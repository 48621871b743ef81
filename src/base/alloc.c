#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t alloc_counter;
static _Atomic uint64_t alloc_fail_at;

void fw_alloc_fail_at(uint64_t n) {
    atomic_store(&alloc_counter, 0);
    atomic_store(&alloc_fail_at, n);
}

uint64_t fw_alloc_count(void) { return atomic_load(&alloc_counter); }

static int must_fail(void) {
    uint64_t count = atomic_fetch_add(&alloc_counter, 1) + 1;
    return count == atomic_load(&alloc_fail_at);
}

fw_status fw_calloc(void **out, size_t n, size_t size) {
    *out = NULL;
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return fw_fail(FW_ERR_NOMEM, "asked for %zu objects of %zu bytes: more than can be addressed", n, size);
    void *block = must_fail() ? NULL : calloc(1, bytes ? bytes : 1);
    if (block == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory: could not get %zu bytes", bytes);
    *out = block;
    return FW_OK;
}

fw_status fw_realloc_array(void **block, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return fw_fail(FW_ERR_NOMEM, "asked for %zu objects of %zu bytes: more than can be addressed", n, size);
    void *grown = must_fail() ? NULL : realloc(*block, bytes ? bytes : 1);
    if (grown == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory: could not grow to %zu bytes", bytes);
    *block = grown;
    return FW_OK;
}

fw_status fw_strndup(char **out, const char *text, size_t text_bytes) {
    FW_TRY(fw_calloc((void **)out, text_bytes + 1, 1));
    memcpy(*out, text, text_bytes);
    return FW_OK;
}

fw_status fw_strdup(char **out, const char *text) { return fw_strndup(out, text, strlen(text)); }

void fw_free(void *block) { free(block); }

static _Thread_local int raw_failed;

void *fw_alloc_raw(size_t bytes) {
    void *block = must_fail() ? NULL : malloc(bytes ? bytes : 1);
    if (block == NULL) raw_failed = 1;
    return block;
}

int fw_alloc_raw_failed(void) {
    int failed = raw_failed;
    raw_failed = 0;
    return failed;
}
