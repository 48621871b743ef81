/* What trainer.c, the loop, and trainer_start.c, all that comes before it, have in common. */
#ifndef FW_TRAIN_TRAINER_INTERNAL_H
#define FW_TRAIN_TRAINER_INTERNAL_H

#include "train/course.h"
#include "train/deadline.h"
#include "train/metrics.h"
#include "train/run_state.h"
#include "train/trainer.h"

/* One run: what is set up before the first step and used until the end. */
typedef struct fw_trainer {
    const fw_options *o;
    fw_options resolved; /* *o, once the number of ranks is known; its texts are the caller's */
    const fw_train_hooks *hooks;
    fw_job job;
    fw_dataset *dataset, *eval_dataset;
    fw_batcher *batcher, *eval_batcher;
    fw_step step;
    fw_course course;
    fw_schedule schedule;
    fw_run_state state;
    fw_metrics metrics;
    int64_t steps_per_epoch, step_n;
    int64_t first_step; /* done before this process */
    bool settled;       /* it is known where the run begins, and was told */
    uint64_t memory_available;
    int64_t num_tokens;   /* since the first step of the run */
    uint64_t train_ns;    /* time in steps, this process */
    int64_t train_tokens; /* in that time */
    int64_t train_steps;
    struct { /* since the last line of metrics */
        int64_t step_n, token_n;
        uint64_t ns;
        double loss;
    } window;
    double last_logged_loss;
    double step_loss, eval_loss; /* of the step at hand; NAN: not measured */
    fw_deadline deadline;
    uint64_t save_begin_ns;
    uint64_t peak_bytes;
    fw_shard_counters traffic; /* of all steps of this process */
    fw_shard_counters read;    /* the last reading: what comes after it belongs to the next step */
    bool tracing;              /* the trace file may be there, unfinished */
} fw_trainer;

/* Everything up to the first step, of which the checkpoint may still be read: t->settled says. Collective. */
fw_status fw_trainer_prepare(fw_trainer *t);
/* Wait for the checkpoint. *elsewhere: it is damaged, t->first_step is another, and gradients that were found are given up.
 * Then what rests on the place is begun: mirror, metrics, what the user is told. Collective; once. */
fw_status fw_trainer_settle(fw_trainer *t, bool *elsewhere);

#endif
