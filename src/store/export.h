/* Write a model folder that Hugging Face transformers loads.
 *
 *   config.json             the source's, with torch_dtype or dtype (whichever it has) set to what is written
 *   model.safetensors       or model-0000i-of-0000n.safetensors and model.safetensors.index.json
 *   generation_config.json, tokenizer.json, tokenizer_config.json, special_tokens_map.json, vocab.json, merges.txt,
 *   added_tokens.json, chat_template.jinja: copied when the source has them
 *
 * Streamed: no more than a small buffer is held at a time. The folder is written as DIR.tmp-PID and renamed when it is
 * complete, reopened, and every name, shape and dtype found. A tied head is not written twice. The files depend on the
 * values alone, not on ranks or strategy. */
#ifndef FW_STORE_EXPORT_H
#define FW_STORE_EXPORT_H

#include "model/param_table.h"
#include "store/safetensors.h"

/* Gives out[0, n) = elements [first_n, first_n + n) of a parameter as fp32. Called in order of the table. */
typedef fw_status (*fw_param_reader)(void *context, const fw_param *param, int64_t first_n, int64_t n, float *out);

/* A ready-made reader: context points to this. flat holds all units: table->total_n values. */
typedef struct fw_flat_params {
    const fw_param_table *table;
    const float *flat;
} fw_flat_params;
fw_status fw_param_read_flat(void *context, const fw_param *param, int64_t first_n, int64_t n, float *out);

enum { FW_EXPORT_CHUNK_N = 1 << 18 }; /* values asked of the reader at a time, at most */

typedef struct fw_export_options {
    fw_dtype dtype;           /* FW_BF16, FW_F32 or FW_F16 */
    uint64_t max_shard_bytes; /* 0: 5 GB (5e9) */
    bool untie;               /* config.json says that the head is not the embedding */
} fw_export_options;

/* source_dir: the folder whose config and tokenizer are carried over. An existing DIR is replaced when it is empty
 * or was written by finewire, otherwise refused (FW_ERR_OPTION), as is DIR = source_dir.
 * Errors: FW_ERR_IO (also: not enough space, with the bytes needed and free), FW_ERR_INPUT, FW_ERR_NOMEM, and what
 * the reader returns. On failure DIR is as it was. */
fw_status fw_export_model(const char *dir, const char *source_dir, const fw_param_table *table,
                          const fw_export_options *options, fw_param_reader reader, void *context);
/* *only: every entry of the folder is a plain file under a name that an export writes, finished or not (NAME.tmp-PID).
 * Errors: FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_export_holds_only_known(bool *only, const char *dir);
/* Called before training: would fw_export_model accept this DIR? */
fw_status fw_export_check_target(const char *dir, const char *source_dir);

#endif
