/* What is done with checkpoints outside of a run: look, compare, cut anew, make a model folder. All streamed: a chunk is
 * held at a time, whatever the size. */
#ifndef FW_STORE_CHECKPOINT_TOOLS_H
#define FW_STORE_CHECKPOINT_TOOLS_H

#include "store/checkpoint.h"
#include "store/export.h"
#include "store/peft_folder.h"

/* *path = the folder itself when it is a checkpoint, else the newest complete one in it (fw_free). Errors: FW_ERR_INPUT
 * naming what the folder is instead, where it is a checkpoint of another program. */
fw_status fw_checkpoint_resolve(char **path, const char *given);
/* Recognises checkpoints of PyTorch (.distcp), DeepSpeed and transformers' Trainer, and a folder that holds Trainer's
 * checkpoint-N: FW_ERR_INPUT naming which, and what converts them. FW_OK when it is none of them. */
fw_status fw_checkpoint_refuse_foreign(const char *dir);

/* A checkpoint with the table of its own config.json, and of its adapter_config.json where it has one. */
typedef struct fw_checkpoint_whole {
    fw_model_config config;
    fw_param_table table; /* what is in the checkpoint: of an adapter run, what was trained */
    fw_peft_config peft;  /* object NULL: all weights are trained */
    fw_checkpoint_files files;
    fw_checkpoint_state state;
} fw_checkpoint_whole;
fw_status fw_checkpoint_whole_open(fw_checkpoint_whole *out, const char *path);
void fw_checkpoint_whole_close(fw_checkpoint_whole *w); /* takes a zeroed one */

/* A model folder from its weights; see fw_export_model. From an adapter's the folder that peft loads, in fp32 whatever the
 * options say; *adapter (may be NULL) tells. */
fw_status fw_checkpoint_export(const char *dir, const char *path, const fw_export_options *options, bool *adapter);
/* The same checkpoint as place_n ranks would have written it, in output_dir (which may also be named DIR/step-..., by its own
 * step) under its step. *out (fw_free): where. The folder is locked meanwhile. Errors: FW_ERR_OPTION: a run uses the folder; the
 * checkpoint is the one that is read; without overwrite, it is there already. */
fw_status fw_checkpoint_reshard(char **out, const char *output_dir, const char *path, int place_n, bool overwrite);

typedef struct fw_checkpoint_difference {
    const char *name; /* of the tensor, as in files */
    int64_t n, moved_n;
    double max, rms;   /* of b - a; NaN in either counts as moved, and makes them NaN */
    double rms_before; /* of a */
} fw_checkpoint_difference;
typedef fw_status (*fw_checkpoint_difference_fn)(void *context, const fw_checkpoint_difference *d);
/* Tensor by tensor, array by array; moments only when asked for. Errors: FW_ERR_INPUT (of different models). */
fw_status fw_checkpoint_diff(const char *a, const char *b, bool moments, fw_checkpoint_difference_fn tell,
                             void *context);

/* One line of a list, read without reading the weights. */
typedef struct fw_checkpoint_found {
    char *path;
    int64_t step;
    char *why;                 /* it does not count; NULL: complete */
    fw_status status;          /* of why: FW_ERR_INPUT: damaged; another: it cannot be read here */
    bool adapter;              /* only an adapter was trained */
    char *saved_at;            /* "2026-11-29T19:30:00Z" */
    uint64_t bytes;            /* of all files in the folder */
    fw_checkpoint_state state; /* zero when it does not count */
} fw_checkpoint_found;
typedef struct fw_checkpoint_found_list {
    fw_checkpoint_found *found; /* by step */
    size_t found_n;
} fw_checkpoint_found_list;
/* All folders with a checkpoint's name, complete or not; given may be one checkpoint. Errors: FW_ERR_INPUT (no such folder,
 * or a checkpoint of another program). */
fw_status fw_checkpoint_find_all(fw_checkpoint_found_list *out, const char *given);
void fw_checkpoint_found_list_fini(fw_checkpoint_found_list *list);

/* Remove one checkpoint. Refused (FW_ERR_OPTION) while a run holds the folder, and for the only complete one unless
 * `force`. It is renamed first, so that a half-removed one does not count. */
fw_status fw_checkpoint_remove(const char *path, bool force);

#endif
