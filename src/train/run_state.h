/* What outlasts a run: checkpoints, the identity of the run, the final folder. */
#ifndef FW_TRAIN_RUN_STATE_H
#define FW_TRAIN_RUN_STATE_H

#include "base/behind.h"
#include "mirror/mirror.h"
#include "store/checkpoint_later.h"
#include "store/run_folder.h"
#include "train/job.h"
#include "train/resume_source.h"
#include "train/save_async.h"
#include "train/schedule.h"

/* Where the run stands when it is saved. */
typedef struct fw_run_progress {
    int64_t step;
    double epoch;
    int64_t epoch_i, position; /* whole epochs; samples (or bins) of the running one */
    double loss, eval_loss;    /* of this step; NAN: not measured */
    const fw_schedule *schedule;
} fw_run_progress;

/* Where a checkpoint stands: see fw_run_progress. All 0: from the start. */
typedef struct fw_run_place {
    int64_t step, epoch_i, position;
} fw_run_place;

/* What the run goes on from, until it is known to be sound. */
typedef struct fw_loading {
    fw_resume_source from;             /* rank 0 */
    char path[FW_COMM_EXCHANGE_BYTES]; /* of the checkpoint; "": none */
    fw_run_place place;
    fw_checkpoint_files files;
    fw_checkpoint_later later; /* the optimizer's state */
    json_t *was;               /* rank 0: the options of the run that wrote it */
    bool spoilt;               /* by a damaged one before */
} fw_loading;

typedef struct fw_run_state {
    const fw_options *options; /* borrowed, as all below */
    fw_job *job;
    const fw_dataset *dataset;
    const fw_batcher *batcher;
    fw_output_lock lock; /* rank 0 */
    json_t *identity;    /* rank 0: what run.json says */
    fw_loading loading;
    char *last_checkpoint; /* written by this run */
    int64_t last_saved_step;
    fw_mirror *mirror;               /* rank 0, with --mirror */
    fw_behind pruning;               /* rank 0: what the last save has made old is removed behind the training */
    fw_save_async *async;            /* --save_async */
    struct {                         /* the save that runs behind the training */
        fw_checkpoint_writer writer; /* rank 0 */
        fw_run_progress progress;
        char dir[FW_COMM_EXCHANGE_BYTES];
    } behind;
} fw_run_state;

/* Take the output folder. Collective. Errors: FW_ERR_OPTION (another run holds it, or another run's files are in it),
 * FW_ERR_IO (no room), FW_ERR_INPUT (a checkpoint was given that is none). */
fw_status fw_run_state_claim(fw_run_state *s);
/* Find where to go on, and load the weights. The optimizer's state may still be on its way behind what the caller does, and
 * then it is not known yet whether the checkpoint is sound: nothing is to be said of the place, written, or updated before
 * finish_load. Collective. Errors: FW_ERR_INPUT, FW_ERR_OPTION. */
fw_status fw_run_state_load(fw_run_state *s, fw_run_place *place); /* load_state.c, as the next four */
/* The same on all ranks. */
bool fw_run_state_is_loading(const fw_run_state *s);
/* Everything is loaded, and what was tried in vain is told. *elsewhere: the checkpoint was damaged after all, and the run goes
 * on from *place: weights and state are of there, and what was computed from the former weights is void. Collective. */
fw_status fw_run_state_finish_load(fw_run_state *s, fw_run_place *place, bool *elsewhere);
/* Waits for the thread. Takes any. */
void fw_run_state_end_load(fw_run_state *s);
/* Write a checkpoint, each rank its own part of it; prune. With --save_async it is begun, after the one before has been
 * finished. Collective. */
fw_status fw_run_state_save(fw_run_state *s, const fw_run_progress *progress); /* save_state.c, as the next three */
/* The same on all ranks: a save that was begun has not been finished. */
bool fw_run_state_is_saving(const fw_run_state *s);
/* This rank's part of it is on the disk, or has failed: finish does not wait for it. */
bool fw_run_state_has_written(const fw_run_state *s);
/* Wait for all parts and make them one; nothing when none is on its way. Collective. */
fw_status fw_run_state_finish_save(fw_run_state *s);
/* --load_best_model_at_end: the weights of the best checkpoint, when that is not the last step. *step: its step; 0: the
 * weights stay. Collective. */
fw_status fw_run_state_load_best(fw_run_state *s, int64_t *step, double *eval_loss);
/* Rank 0: the folder that is saved to is the one that was locked; the others do not know. Errors: FW_ERR_IO. */
fw_status fw_run_state_check_folder(const fw_run_state *s);
/* Every rank writes a small file into the real place, and rank 0 sees it: what makes saving fail is known before the first
 * step. Collective. */
fw_status fw_run_state_try_saving(fw_run_state *s); /* save_state.c */
/* Write the model to OUTPUT_DIR/final; *path is its name (fw_free). Collective. */
fw_status fw_run_state_export(fw_run_state *s, char **path);
/* --mirror: from now on what is saved is copied behind the training; the checkpoint that the run goes on from first. Rank 0 has
 * it, all agree. Errors: those of fw_mirror_create. */
fw_status fw_run_state_start_mirror(fw_run_state *s, int64_t from_step);
/* All but the lock and the mirror, which needs no other ranks. Takes a zeroed one with lock.fd = -1, as the next. */
void fw_run_state_end(fw_run_state *s);
void fw_run_state_leave_folder(fw_run_state *s);

#endif
