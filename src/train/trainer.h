/* A whole fine-tuning run of one rank, from options to the model folder.
 *
 * Nothing is printed here: what happens is told through hooks, on every rank (the command line prints on rank 0). All
 * hooks may be NULL. */
#ifndef FW_TRAIN_TRAINER_H
#define FW_TRAIN_TRAINER_H

#include "config/options.h"
#include "train/job.h"

/* What is known before the first step. Borrowed for the call, as all that follows. */
typedef struct fw_train_summary {
    const fw_job *job;
    const fw_options *options;
    const fw_dataset *dataset;
    int rank, world;
    int64_t effective_batch; /* micro * accumulation * ranks, in conversations (or bins when packing) */
    int64_t unit_n;          /* conversations, or bins when packing */
    uint64_t memory_available;
} fw_train_summary;

/* Where the run begins and how far it goes: known when the checkpoint that it goes on from is, before the first update. */
typedef struct fw_train_course {
    const fw_options *options;
    int64_t steps_per_epoch, step_n, warmup_n;
    double peak_rate;     /* the learning rate after warm-up, as lr_scale_rule has it */
    int64_t resumed_step; /* 0: from the start */
} fw_train_course;

typedef struct fw_train_report {
    int64_t step, step_n;
    double epoch;
    double loss, learning_rate, grad_norm; /* of this step */
    double tokens_per_s;                   /* of this step, all ranks */
    double step_s;                         /* the time that it took */
    const char *mirror;                    /* how the mirror is, for the progress line; "": nothing to say */
    bool logged;                           /* a line of metrics.jsonl was written */
    double mean_loss, mean_tokens_per_s;   /* over the steps since the last line, when logged */
} fw_train_report;

typedef struct fw_train_result {
    int64_t step; /* steps done, in all runs */
    int64_t step_n;
    double tokens_per_s;       /* of this run: all tokens of all ranks / time in steps */
    double train_s;            /* time in steps */
    double final_loss;         /* of the last line */
    uint64_t peak_bytes;       /* largest resident size of any rank */
    fw_shard_counters traffic; /* in this run's steps: bytes of this rank, times of the rank that took longest */
    int64_t traffic_steps;     /* how many they were */
    uint64_t planned_bytes;    /* of the arena and scratch of this rank, and what was taken at most: equal */
    uint64_t taken_bytes;
    const char *model_dir; /* where the model is, or the adapter; NULL when interrupted */
    bool adapter;
    const char *trace;      /* the trace file that was written; NULL: none */
    const char *checkpoint; /* the last checkpoint written by this run; NULL: none */
} fw_train_result;

typedef struct fw_train_hooks {
    void *context;
    bool keeps_nothing;                                /* the steps only: no checkpoint and no model are written */
    void (*place)(void *context, int rank, int world); /* first of all */
    void (*start)(void *context, const fw_train_summary *summary);
    void (*course)(void *context, const fw_train_course *course);
    void (*step)(void *context, const fw_train_report *report);
    void (*evaluated)(void *context, int64_t step, double loss, int64_t target_n);
    void (*saved)(void *context, int64_t step, const char *path);
    void (*done)(void *context, const fw_train_result *result);
} fw_train_hooks;

/* Returns FW_ERR_INTERRUPTED after a signal, when all ranks have saved the same step. *reports (may be NULL): whether
 * this rank is the one to print the error. */
fw_status fw_train_run(const fw_options *options, const fw_train_hooks *hooks, bool *reports);

#endif
