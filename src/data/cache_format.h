/* How a file of the cache is laid out. Private to data/cache*.c. */
#ifndef FW_DATA_CACHE_FORMAT_H
#define FW_DATA_CACHE_FORMAT_H

#include "data/cache.h"

enum { FW_CACHE_BLOCK_BYTES = 16 << 20 };
#define FW_CACHE_MAGIC "FWDATA2\n"

/* The last bytes of the file. Offsets are from its start. */
typedef struct fw_cache_footer {
    char magic[8];
    fw_cache_key key;
    uint64_t token_n, sample_n;
    uint64_t trained_at, sample_at, run_at, run_n, report_at, report_bytes;
    uint64_t table_at, block_n; /* checksums of the blocks of 0..table_at */
    uint64_t dataset_hash;
    uint64_t footer_hash; /* of all above */
} fw_cache_footer;

/* Counts, sources and dropped rows as bytes, and back into an empty dataset. */
fw_status fw_cache_report_write(fw_strbuf *out, const fw_dataset *d);
fw_status fw_cache_report_read(fw_dataset *d, const uint8_t *bytes, size_t n_bytes);

#endif
