/* XXH64: a 64-bit checksum for files and data, fast, not for cryptography. Streaming: feed pieces of any size, the
 * value depends on the bytes alone. Source: Yann Collet, xxHash fast digest algorithm (specification). Seed 0. */
#ifndef FW_BASE_HASH_H
#define FW_BASE_HASH_H

#include "base/status.h"

#include <stdint.h>

typedef struct fw_hash {
    uint64_t lane[4];
    uint64_t total_bytes;
    uint8_t held[32]; /* bytes that do not fill a stripe yet */
    size_t held_bytes;
} fw_hash;

void fw_hash_init(fw_hash *hash);
void fw_hash_update(fw_hash *hash, const void *bytes, size_t n_bytes);
/* The value of what was fed so far; more may follow. */
uint64_t fw_hash_value(const fw_hash *hash);
uint64_t fw_hash_bytes(const void *bytes, size_t n_bytes);
/* The whole file, in pieces; also its size. */
fw_status fw_hash_file(uint64_t *value, uint64_t *file_bytes, const char *path);

#endif
