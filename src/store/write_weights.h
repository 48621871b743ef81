/* The weights of a model as one or many safetensors files. Internal to the room. */
#ifndef FW_STORE_WRITE_WEIGHTS_H
#define FW_STORE_WRITE_WEIGHTS_H

#include "store/export.h"

/* Into the existing folder dir: model.safetensors, or model-0000i-of-0000n.safetensors with their index when the
 * tensors take more than max_shard_bytes (0: FW_EXPORT_SHARD_BYTES). A tensor is never split. */
fw_status fw_weights_write(const char *dir, const fw_param_table *table, const fw_export_options *options,
                           fw_param_reader reader, void *context);
/* All of them into one file of another name. more: for "__metadata__", an object of strings; NULL: nothing. */
fw_status fw_weights_write_file(const char *path, const fw_param_table *table, fw_dtype dtype, const json_t *more,
                                fw_param_reader reader, void *context);
/* Bytes that fw_weights_write will need, headers included (an upper bound). */
uint64_t fw_weights_bytes(const fw_param_table *table, fw_dtype dtype);
/* Reopen dir and find every tensor of the table with its shape and dtype, nothing else, and config.json in
 * agreement. Errors: FW_ERR_IO: the folder is not what was written. */
fw_status fw_weights_verify(const char *dir, const fw_param_table *table, fw_dtype dtype);

/* What marks our files in "__metadata__". *out is owned by the caller. */
fw_status fw_weights_metadata(json_t **out);
bool fw_weights_are_ours(const fw_safetensors *file);

#endif
