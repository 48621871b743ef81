/* The files of a model folder that are not weights: carried from one folder to the next. Internal to the room. */
#ifndef FW_STORE_SMALL_FILES_H
#define FW_STORE_SMALL_FILES_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* generation_config.json, tokenizer.json, ...: the names that are copied; ends with NULL. Not config.json. */
extern const char *const fw_small_file_names[];

/* *bytes += those of config.json and of the others that source_dir has. */
fw_status fw_small_files_bytes(uint64_t *bytes, const char *source_dir);
/* Copy those that are there, and write config.json with torch_dtype or dtype, whichever the source has, set to the
 * dtype of the weights; untie: with tie_word_embeddings false. Errors: FW_ERR_INPUT (config.json is missing or not an object), FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_small_files_copy(const char *source_dir, const char *dir, fw_dtype dtype, bool untie);
/* Only those of the tokenizer and the chat template. */
fw_status fw_small_files_copy_tokenizer(const char *source_dir, const char *dir);
/* "float32", "bfloat16", "float16": as config.json says it. */
const char *fw_config_dtype_name(fw_dtype dtype);

#endif
