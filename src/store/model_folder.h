/* The weights of a Hugging Face model folder, found by name, read where needed.
 *
 *   DIR/model.safetensors, or DIR/model.safetensors.index.json with its shards
 *
 * Files are mapped: opening and checking touch headers only, reading touches the pages of the range asked for and
 * gives them back, so that a rank's resident memory grows by what it keeps and nothing else. */
#ifndef FW_STORE_MODEL_FOLDER_H
#define FW_STORE_MODEL_FOLDER_H

#include "base/threads.h"
#include "model/param_table.h"
#include "store/safetensors.h"

typedef struct fw_model_folder {
    char *dir;
    fw_safetensors *shard;
    size_t shard_n;
    fw_threads *threads; /* borrowed, set by the caller after opening: they share the reading; NULL: one thread */
} fw_model_folder;

/* Errors (FW_ERR_INPUT): no weights; only pytorch_model.bin or other pickles (named, with what converts them);
 * a shard of the index is missing; a tensor is not in the shard that the index names; anything wrong with a file. */
fw_status fw_model_folder_open(fw_model_folder *out, const char *dir);
/* One file of weights under another name, which must be there. */
fw_status fw_model_folder_open_file(fw_model_folder *out, const char *dir, const char *name);
void fw_model_folder_close(fw_model_folder *folder);

/* The tensor and the file it is in; NULL when there is none of that name. */
const fw_stored_tensor *fw_model_folder_find(const fw_model_folder *folder, const char *name,
                                             const fw_safetensors **file);

/* Compare names and shapes with the table, before data is read. Errors (FW_ERR_INPUT): a parameter is missing or
 * has another shape (names tensor, shape found, shape asked for and the config keys that give it) or a dtype that
 * is not F32, BF16 or F16 (matrices may be in 4 bits: store/stored_quant.h); a tensor that the model does not have. Accepted extras: rotary tables ("*.inv_freq")
 * and the head of a tied model, when it has the embedding's shape. */
fw_status fw_model_folder_check(const fw_model_folder *folder, const fw_param_table *table,
                                const fw_model_config *config);

/* out[0, count_n) = elements [first_n, first_n + count_n) of a unit's flat range, as fp32; padding is 0. Every element
 * is written once and not read: new memory gets its pages here. The folder must have passed fw_model_folder_check. */
fw_status fw_model_folder_read(const fw_model_folder *folder, const fw_param_table *table, int32_t unit,
                               int64_t first_n, int64_t count_n, float *out);

/* Which weights these are: the sum, modulo 2^64, over all blocks of all parameters, of the XXH64 of
 *
 *   XXH64 of the name | dtype | bytes of the tensor | number of the block in it | the bytes of the block, as stored
 *
 * (the first four as 64-bit little-endian numbers). A sum, so blocks can be dealt out over ranks and threads in any way;
 * every stored byte counts and so does its place; how tensors are spread over files, and what else the files hold, does
 * not. The dtype is part of it: the same numbers stored otherwise are other weights. */
enum { FW_HASH_BLOCK_BYTES = 1 << 20 };
int64_t fw_model_folder_blocks(const fw_model_folder *folder, const fw_param_table *table);
/* Of blocks [first, last). The folder must have passed fw_model_folder_check; pages are given back. */
uint64_t fw_model_folder_hash(const fw_model_folder *folder, const fw_param_table *table, int64_t first, int64_t last);

#endif
