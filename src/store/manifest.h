/* The manifest of a checkpoint. Internal to the room.
 *
 *   {"format": "finewire-checkpoint", "format_version": 1, "finewire_version": "...",
 *    "step": ..., "epoch": ..., ..., "options": {...}, "extra": {...},
 *    "files": {"model.safetensors": {"bytes": ..., "xxh64": "16 hexadecimal digits"}, ...},
 *    "manifest_xxh64": checksum of the compact text of all of the above} */
#ifndef FW_STORE_MANIFEST_H
#define FW_STORE_MANIFEST_H

#include "store/checkpoint.h"

/* A new manifest without files. *out is owned by the caller. */
fw_status fw_manifest_make(json_t **out, const fw_checkpoint_state *state, const fw_param_table *table);
fw_status fw_manifest_add_file(json_t *manifest, const char *name, uint64_t bytes, uint64_t hash);
/* Adds the checksum of the manifest itself and writes DIR/manifest.json. */
fw_status fw_manifest_save(json_t *manifest, const char *dir);

/* Reads DIR/manifest.json; checks its own checksum, format, version, the file list, and that each file is there
 * with its size. Errors: FW_ERR_INPUT. */
fw_status fw_manifest_load(json_t **out, const char *dir);
/* The same from a text, without looking at files: for tests. */
fw_status fw_manifest_parse(json_t **out, const char *text, size_t text_bytes, const char *where);
/* Strings and objects of *out are references owned by it. */
fw_status fw_manifest_state(fw_checkpoint_state *out, const json_t *manifest, const char *where);

#endif
