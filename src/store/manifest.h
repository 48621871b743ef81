/* The manifest of a checkpoint. Internal to the room.
 *
 *   {"format": "finewire-checkpoint", "format_version": 3, "finewire_version": "...",
 *    "step": ..., "epoch": ..., ..., "options": {...}, "run": {...}, "schedule": {...}, "metrics": {...},
 *    "files": {"config.json": {"bytes": ..., "xxh64": "16 hexadecimal digits"},
 *              "shard-00001-...": {"bytes": ..., "header_bytes": ..., "header_xxh64": ...}, ...},
 *    "tensors": {NAME: {"dtype": "F32", "shape": [rows, cols], "pieces": [
 *        {"file": ..., "offsets": [row, col], "shape": [...], "start": byte in the file, "bytes": ..., "xxh64": ...}]}},
 *    "block_bytes": ...: a piece's "xxh64" has 16 digits for each block of so many bytes of it, the last may be shorter,
 *    "manifest_xxh64": XXH64 of the bytes of the file before this key}
 *
 * Every byte of every file is under one checksum: a header's, or a block's. */
#ifndef FW_STORE_MANIFEST_H
#define FW_STORE_MANIFEST_H

#include "store/checkpoint.h"

/* A new manifest with all tensors of the table, without files and pieces. *out is owned by the caller. */
fw_status fw_manifest_make(json_t **out, const fw_checkpoint_state *state, const fw_param_table *table);

/* What one writer adds: {"files": {...}, "pieces": {NAME: [...]}}. *out is owned by the caller. */
fw_status fw_manifest_make_part(json_t **out);
fw_status fw_manifest_add_file(json_t *part, const char *name, uint64_t bytes, uint64_t hash);
fw_status fw_manifest_add_shard(json_t *part, const char *name, uint64_t bytes, uint64_t header_bytes,
                                uint64_t header_hash);
struct fw_piece;
fw_status fw_manifest_add_piece(json_t *part, const char *tensor, const char *file, const struct fw_piece *piece,
                                uint64_t start_bytes, uint64_t bytes, const char *hashes);
/* The part's values move into the manifest. Errors: FW_ERR_INTERNAL (a tensor that the table does not have). */
fw_status fw_manifest_merge(json_t *manifest, const json_t *part);
/* Each file of a part is in the folder with its size. FW_ERR_IO naming the first that is not; `who` wrote it. */
fw_status fw_manifest_see_files(const json_t *part, const char *dir, const char *who);

/* 16 hexadecimal digits under a key. Errors: FW_ERR_INPUT. */
fw_status fw_manifest_hex(uint64_t *out, const json_t *object, const char *key, const char *where);
/* Writes DIR/manifest.json, with the checksum of the manifest itself. */
fw_status fw_manifest_save(const json_t *manifest, const char *dir);
/* Appends the last line: the checksum of the text so far, which ends with a comma. */
fw_status fw_manifest_seal(fw_strbuf *text);

/* Reads DIR/manifest.json; checks its own checksum, format, version, the file list, and that each file is there
 * with its size. Errors: FW_ERR_INPUT. */
fw_status fw_manifest_load(json_t **out, const char *dir);
/* The same from a text, without looking at files: for tests. */
fw_status fw_manifest_parse(json_t **out, const char *text, size_t text_bytes, const char *where);
/* Strings and objects of *out are references owned by it. */
fw_status fw_manifest_state(fw_checkpoint_state *out, const json_t *manifest, const char *where);

#endif
