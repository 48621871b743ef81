/* gzip and zstd: whole files into a file without a name, and single blocks into memory. */
#ifndef FW_DATA_DECOMPRESS_H
#define FW_DATA_DECOMPRESS_H

#include "base/file.h"

typedef enum fw_compression { FW_COMPRESSION_NONE, FW_COMPRESSION_GZIP, FW_COMPRESSION_ZSTD } fw_compression;

/* By the first bytes. */
fw_compression fw_compression_find(const char *bytes, size_t n_bytes);

/* Unpack a file into an unlinked file in TMPDIR (/tmp) and map that: memory is bounded by a few MiB and the window of
 * the stream, at most 128 MiB. Several streams one after another are one file. name is for messages.
 * Errors: FW_ERR_INPUT (damaged, cut off, or more than 2,000 times as large unpacked: no text is), FW_ERR_IO (no room),
 * FW_ERR_INTERRUPTED when stop, asked now and then, says so (NULL: nobody does). */
fw_status fw_decompress(fw_mapping *out, fw_compression compression, const char *name, const char *bytes,
                        size_t n_bytes, int (*stop)(void));

/* One block whose size is known; into out[out_bytes], all of which it must fill. Errors: FW_ERR_INPUT. */
fw_status fw_inflate_block(void *out, size_t out_bytes, const void *bytes, size_t n_bytes);

#endif
