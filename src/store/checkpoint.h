/* Training checkpoints: everything that a resumed run needs to go on bit by bit as if it had not stopped, at any number
 * of ranks. docs/checkpoint-format.md says it for those who write another reader.
 *
 *   OUTPUT_DIR/step-00000050/
 *     shard-00001-model-00001-of-00003.safetensors   what one rank owned: fp32 master weights under their Hugging Face
 *     ...                                            names and the optimizer's arrays (shard/optimizer_state.h), in
 *                                                    PyTorch's distributed-checkpoint form
 *     config.json, tokenizer.json, ...               the small files of the model folder
 *     adapter_config.json                            where only an adapter is trained: the weights are its own, the base's
 *                                                    are in the base, which the state below names with its hash
 *     manifest.json                                  format version, every piece with its place and XXH64, the state below
 *
 * Every rank writes its own part into ".tmp-step-00000050-PID"; all files are synced; one rank adds the manifest, renames
 * the folder and syncs the parent: a checkpoint that is there under its name is complete, and the manifest shows if it
 * was damaged later. */
#ifndef FW_STORE_CHECKPOINT_H
#define FW_STORE_CHECKPOINT_H

#include "base/json.h"
#include "base/threads.h"
#include "shard/optimizer_state.h"
#include "store/safetensors.h"
#include "store/staged_folder.h"

/* Where the run stands. Strings and JSON are borrowed when saving, owned by the struct after loading. */
typedef struct fw_checkpoint_state {
    int64_t step;              /* optimizer steps done */
    double epoch;              /* for people */
    int64_t epoch_i, position; /* whole epochs done; examples of the running epoch done (global order) */
    uint64_t seed, data_seed;
    int64_t world_size;
    char strategy[16]; /* "zero3"; what wrote it: any other can load it */
    uint64_t data_hash;
    fw_optimizer optimizer; /* whose arrays are there */
    int64_t optimizer_step; /* t of the Adam bias correction */
    json_t *options;        /* resolved options, an object or NULL, as all below */
    json_t *run;            /* identity of the run: model, tokenizer, data (run_folder.h) */
    json_t *schedule;       /* of the learning rate, as it was resolved */
    json_t *metrics;        /* "loss", "eval_loss", ... at this step */
    json_t *adapter;        /* of a run that trains one: what adapter_config.json says; NULL: all weights are trained.
                               Only for saving: a reader finds the file beside config.json */
} fw_checkpoint_state;
void fw_checkpoint_state_fini(fw_checkpoint_state *state); /* after loading only */

/* The arrays of a checkpoint: the weights, and those of the optimizer, of which array 1 + k of a parameter is the k-th of
 * fw_state_arrays. The names are AdamW's. */
typedef enum fw_checkpoint_array {
    FW_CHECKPOINT_WEIGHT,
    FW_CHECKPOINT_EXP_AVG,
    FW_CHECKPOINT_EXP_AVG_SQ,
    FW_CHECKPOINT_ARRAY_N, /* AdamW's number of them */
    FW_CHECKPOINT_ARRAYS_MAX = 1 + FW_STATE_ARRAYS_MAX
} fw_checkpoint_array;

/* Gives out[0, n) = values [first_n, first_n + n) of an array of a parameter, raw, in the array's type, at most
 * FW_CHECKPOINT_BLOCK_BYTES at a time, of what the caller's share has. */
typedef fw_status (*fw_checkpoint_source)(void *context, fw_checkpoint_array array, const fw_param *param,
                                          int64_t first_n, int64_t n, void *out);
enum { FW_CHECKPOINT_CHUNK_N = 1 << 18 };
/* So many bytes of a piece have a checksum: what is read can be checked in parallel, and a range without the rest. */
enum { FW_CHECKPOINT_BLOCK_BYTES = FW_CHECKPOINT_CHUNK_N * (int)sizeof(float) };

/* Elements [first_n, first_n + n) of something flat. */
typedef struct fw_checkpoint_range {
    int64_t first_n, n;
} fw_checkpoint_range;

/* What one writer writes. The ranges of all places together have every element of every unit exactly once. */
typedef struct fw_checkpoint_share {
    int place, place_n;               /* 0 <= place < place_n; names the files */
    const fw_checkpoint_range *range; /* [unit_n], elements of each unit; n may be 0. No block of 256 is cut */
    fw_checkpoint_source read;
    void *context;
    /* Where value first_n of an array of a parameter lies with all that follow it in the share, for memory that can be
     * written from; NULL from it, or as it: read is asked. */
    const void *(*view)(void *context, fw_checkpoint_array array, const fw_param *param, int64_t first_n);
    fw_optimizer optimizer;
} fw_checkpoint_share;
/* An even part of every unit: what a place has when nobody owns anything yet. range: [unit_n]. */
void fw_checkpoint_even_ranges(fw_checkpoint_range *range, const fw_param_table *table, int place, int place_n);

/* Bytes on disk of one checkpoint of so many writers (an upper bound; the small files of the model folder come on top),
 * for a check before training starts. */
uint64_t fw_checkpoint_bytes(const fw_param_table *table, fw_optimizer optimizer, int place_n);

/* Saving: one process begins, every writer writes its part, the first one commits. */
typedef struct fw_checkpoint_writer {
    fw_staged_folder staged; /* staged.path_tmp: where parts are written */
    json_t *small_files;     /* of the manifest */
} fw_checkpoint_writer;
/* source_dir: model folder whose small files are wanted. An older checkpoint of the same step is replaced by commit.
 * output_dir has to be there: it is not made anew when it was moved away.
 * Errors: FW_ERR_IO (no space: bytes needed and free are named), FW_ERR_NOMEM; then nothing has changed. */
fw_status fw_checkpoint_begin(fw_checkpoint_writer *w, const char *output_dir, const char *source_dir,
                              const fw_param_table *table, fw_optimizer optimizer, int64_t step, int place_n);
/* Copies these; once, before commit, by any thread. Errors: FW_ERR_IO, FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_checkpoint_write_small_files(fw_checkpoint_writer *w, const char *source_dir);
/* Streamed: one chunk is held at a time. *part: what the manifest will say, an object owned by the caller. `dir` as
 * begin made it, in any process that sees it. Errors: FW_ERR_IO, FW_ERR_NOMEM, and what the source returns. */
fw_status fw_checkpoint_write_part(json_t **part, const char *dir, const fw_param_table *table,
                                   const fw_checkpoint_share *share);
/* Parts of all places in order. Every file they name must be seen from here with its size: FW_ERR_IO naming one that is
 * not (each writer has a folder of its own). The folder has its final name afterwards. */
fw_status fw_checkpoint_commit(fw_checkpoint_writer *w, const fw_param_table *table, json_t *const *part, int part_n,
                               const fw_checkpoint_state *state);
/* Without a commit nothing is left. Takes a zeroed or finished one. */
void fw_checkpoint_writer_close(fw_checkpoint_writer *w);

/* All of it in one process, cut for place_n ranks. *path (may be NULL): the folder written, to be released with fw_free. */
fw_status fw_checkpoint_save(char **path, const char *output_dir, const char *source_dir, const fw_param_table *table,
                             int place_n, fw_checkpoint_source source, void *context, const fw_checkpoint_state *state);

/* An open checkpoint: its headers are mapped, and what is wanted of the tensors is read. */
typedef struct fw_checkpoint_files {
    fw_threads *threads; /* borrowed, set by the caller after opening: they share the reading; NULL: one thread */
    const fw_param_table *table; /* borrowed */
    fw_optimizer optimizer;
    struct fw_manifest_index *index;
    fw_safetensors *file;                     /* [index->file_n]; small files stay closed */
    int *fd;                                  /* of the same: what is read once is not mapped */
    const struct fw_manifest_tensor **wanted; /* [param_n][FW_CHECKPOINT_ARRAYS_MAX]; NULL: the parameter has no such */
} fw_checkpoint_files;
/* state may be NULL. The manifest, sizes and headers of all files, names and shapes of all tensors are checked, and that
 * their pieces leave no gap and do not overlap; bytes of tensors are checked when they are read.
 * Errors: FW_ERR_INPUT naming file and reason (a tensor or file that is missing, another shape, ...). */
fw_status fw_checkpoint_open(fw_checkpoint_files *out, const char *path, const fw_param_table *table,
                             fw_checkpoint_state *state);
void fw_checkpoint_close(fw_checkpoint_files *files); /* takes a zeroed or closed one */
/* out[0, n) = values [first_n, first_n + n) of an array of the parameter with this index, raw, in the array's type; checked
 * as below. */
fw_status fw_checkpoint_read_values(const fw_checkpoint_files *files, fw_checkpoint_array array, int32_t param,
                                    int64_t first_n, int64_t n, void *out);
/* out[0, n) = elements [first_n, first_n + n) of a unit of the table; padding is 0. For arrays of one fp32 value an element
 * that all parameters have. Every block that has one of them is
 * checked: FW_ERR_INPUT naming file and tensor, and *out is not to be used. Any thread, when there are no `threads`. */
fw_status fw_checkpoint_read(const fw_checkpoint_files *files, fw_checkpoint_array array, int32_t unit, int64_t first_n,
                             int64_t n, float *out);
fw_status fw_checkpoint_load_state(fw_checkpoint_state *state, const char *path);
/* Compares with the manifest: sizes of all files and headers of the weights, which must say the same of every piece; with
 * `full` every byte. Errors: FW_ERR_INPUT naming the file, the tensor and what differs. */
fw_status fw_checkpoint_verify(const char *path, bool full);
/* The same by several threads (NULL: one), and a depth between: who loads the tensors checks their bytes in doing so. */
typedef enum fw_checkpoint_depth {
    FW_CHECKPOINT_HEADERS,     /* sizes, headers, what they say of every piece */
    FW_CHECKPOINT_SMALL_FILES, /* and every byte that is not of a tensor */
    FW_CHECKPOINT_ALL_BYTES
} fw_checkpoint_depth;
fw_status fw_checkpoint_verify_with(fw_threads *threads, const char *path, fw_checkpoint_depth depth);

/* A checkpoint of a folder, oldest first. */
typedef struct fw_checkpoint_entry {
    char *path;
    int64_t step;
    double eval_loss; /* measured at this step; NAN: not */
} fw_checkpoint_entry;
typedef struct fw_checkpoint_list {
    fw_checkpoint_entry *entry;
    size_t entry_n;
} fw_checkpoint_list;
/* Those with a readable manifest and all files in their sizes; others are named in a warning. No folder: empty. */
fw_status fw_checkpoint_list_init(fw_checkpoint_list *out, const char *output_dir);
void fw_checkpoint_list_fini(fw_checkpoint_list *list);
/* *path = the newest of a step before `before_step` in which everything but the tensors' bytes verifies (fw_free it); NULL
 * when there is none. Damaged ones are named in a warning and the one before is tried; when strict, the first is
 * FW_ERR_INPUT. One that is not damaged but cannot be read here is an error: FW_ERR_IO (no permission, too many open files, a
 * disk that fails), FW_ERR_OPTION (of a newer format). Tensors are checked by who reads them, and then this is asked again for the one before. */
fw_status fw_checkpoint_newest(char **path, const char *output_dir, int64_t before_step, bool strict);

/* "step-00000050" gives 50; -1 for any other name of a folder. */
int64_t fw_checkpoint_step_of(const char *name);
/* What strict says of a checkpoint whose damage is found later, while it is loaded: FW_ERR_INPUT, this thread's last message and
 * whether there is one of an earlier step. */
fw_status fw_checkpoint_refuse_damaged(const char *output_dir, int64_t step);

/* The run goes on from `step`: checkpoints of later steps belong to a course that is given up. They are renamed to
 * "set-aside-step-..." (named in a warning), so that they never count as the newest again. Step 0: the run starts anew in a
 * folder none of whose checkpoints is sound, and a warning says so. */
fw_status fw_checkpoint_set_aside_after(const char *output_dir, int64_t step);

/* What is kept besides the newest. */
typedef struct fw_checkpoint_rules {
    int64_t keep_n;     /* so many of the newest; 0: all */
    int64_t keep_every; /* and steps that this divides; 0: none */
    bool keep_best;     /* and the one with the least eval_loss */
} fw_checkpoint_rules;
/* Remove the oldest beyond what is kept. Only complete ones count, and the newest complete one is never removed; call it
 * when a later one is complete. A half-removed one has no checkpoint's name. What killed saves left behind is stale.h's. */
fw_status fw_checkpoint_prune(const char *output_dir, const fw_checkpoint_rules *rules);
/* The first with the least eval_loss of all complete ones. *path is NULL when none has one (fw_free it). */
fw_status fw_checkpoint_best(char **path, double *eval_loss, const char *output_dir);

#endif
