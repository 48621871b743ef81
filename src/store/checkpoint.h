/* Training checkpoints: everything that a resumed run needs to go on bit by bit as if it had not stopped.
 *
 *   OUTPUT_DIR/step-00000050/
 *     model.safetensors        fp32 master weights, Hugging Face names
 *     exp_avg.safetensors      first moments, the same names
 *     exp_avg_sq.safetensors   second moments
 *     config.json, tokenizer.json, ...   the small files of the model folder: the checkpoint loads as a model
 *     manifest.json            format version, every file with its size and XXH64, and the state below
 *
 * Written as ".tmp-step-00000050-PID", every file synced, the folder renamed, the parent synced: a checkpoint that is
 * there under its name is complete, and the manifest shows if it was damaged later. */
#ifndef FW_STORE_CHECKPOINT_H
#define FW_STORE_CHECKPOINT_H

#include "base/json.h"
#include "model/param_table.h"
#include "store/safetensors.h"

/* Where the run stands. Strings and JSON are borrowed when saving, owned by the struct after loading. */
typedef struct fw_checkpoint_state {
    int64_t step;              /* optimizer steps done */
    double epoch;              /* for people */
    int64_t epoch_i, position; /* whole epochs done; examples of the running epoch done (global order) */
    uint64_t seed, data_seed;
    int64_t world_size;
    uint64_t data_hash;
    int64_t optimizer_step; /* t of the Adam bias correction */
    json_t *options;        /* resolved options, an object or NULL */
    json_t *extra;          /* whatever else the trainer keeps, an object or NULL */
} fw_checkpoint_state;
void fw_checkpoint_state_fini(fw_checkpoint_state *state); /* after loading only */

/* The arrays of a checkpoint, a file each. */
typedef enum fw_checkpoint_array {
    FW_CHECKPOINT_WEIGHT,
    FW_CHECKPOINT_EXP_AVG,
    FW_CHECKPOINT_EXP_AVG_SQ,
    FW_CHECKPOINT_ARRAY_N
} fw_checkpoint_array;

/* Gives out[0, n) = elements [first_n, first_n + n) of a parameter in one of the arrays. Asked array by array, in order
 * of the table, at most FW_CHECKPOINT_CHUNK_N at a time. */
typedef fw_status (*fw_checkpoint_source)(void *context, fw_checkpoint_array array, const fw_param *param,
                                          int64_t first_n, int64_t n, float *out);
enum { FW_CHECKPOINT_CHUNK_N = 1 << 18 };

/* Bytes on disk of one checkpoint (an upper bound; the small files of the model folder come on top), for a check
 * before training starts. */
uint64_t fw_checkpoint_bytes(const fw_param_table *table);

/* One rank calls this. source_dir: model folder whose small files are copied. An older checkpoint of the same step is
 * replaced. Streamed: one chunk is held at a time. Errors: FW_ERR_IO (no space: bytes needed and free are named),
 * FW_ERR_NOMEM, and what the source returns; then nothing has changed.
 * *path (may be NULL): the folder written, to be released with fw_free. */
fw_status fw_checkpoint_save(char **path, const char *output_dir, const char *source_dir, const fw_param_table *table,
                             fw_checkpoint_source source, void *context, const fw_checkpoint_state *state);

/* An open checkpoint: its arrays are mapped, and read where they are wanted. */
typedef struct fw_checkpoint_files {
    const fw_param_table *table; /* borrowed */
    fw_safetensors file[FW_CHECKPOINT_ARRAY_N];
} fw_checkpoint_files;
/* state may be NULL. Sizes of all files, the manifest, and names and shapes of all tensors are checked; call
 * fw_checkpoint_verify first to check every byte.
 * Errors: FW_ERR_INPUT naming file and reason (a tensor or file that is missing, another shape, ...). */
fw_status fw_checkpoint_open(fw_checkpoint_files *out, const char *path, const fw_param_table *table,
                             fw_checkpoint_state *state);
void fw_checkpoint_close(fw_checkpoint_files *files); /* takes a zeroed or closed one */
/* out[0, n) = elements [first_n, first_n + n) of a unit of the table; padding is 0. Any thread. */
fw_status fw_checkpoint_read(const fw_checkpoint_files *files, fw_checkpoint_array array, int32_t unit, int64_t first_n,
                             int64_t n, float *out);
fw_status fw_checkpoint_load_state(fw_checkpoint_state *state, const char *path);
/* Reads every byte and compares with the manifest. Errors: FW_ERR_INPUT naming the file and what differs. */
fw_status fw_checkpoint_verify(const char *path);

/* A checkpoint of a folder, oldest first. */
typedef struct fw_checkpoint_entry {
    char *path;
    int64_t step;
} fw_checkpoint_entry;
typedef struct fw_checkpoint_list {
    fw_checkpoint_entry *entry;
    size_t entry_n;
} fw_checkpoint_list;
/* Those with a readable manifest and all files in their sizes; others are named in a warning. No folder: empty. */
fw_status fw_checkpoint_list_init(fw_checkpoint_list *out, const char *output_dir);
void fw_checkpoint_list_fini(fw_checkpoint_list *list);
/* *path = the newest that verifies byte for byte (fw_free it), NULL when there is none. Damaged ones are named in a
 * warning and the one before is tried. */
fw_status fw_checkpoint_newest(char **path, const char *output_dir);

/* The run goes on from `step`: checkpoints of later steps belong to a course that is given up. They are renamed to
 * "set-aside-step-..." (named in a warning), so that they never count as the newest again. */
fw_status fw_checkpoint_set_aside_after(const char *output_dir, int64_t step);

/* Remove the oldest beyond `keep_n` (0: keep all). Only complete ones count, and the newest complete one is never
 * removed. What killed saves left behind is stale.h's. */
fw_status fw_checkpoint_prune(const char *output_dir, int64_t keep_n);

#endif
