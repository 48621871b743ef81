/* The whole plan of a run on one rank: strategy, memory, traffic. Arithmetic only: a plan for 64 ranks of a model that
 * no machine here could hold is made in a moment. */
#ifndef FW_PLAN_JOB_PLAN_H
#define FW_PLAN_JOB_PLAN_H

#include "model/model.h"
#include "plan/memory_plan.h"
#include "shard/units.h"

typedef struct fw_plan_input {
    const fw_model *model; /* borrowed, also by the plan */
    fw_activation_options activations;
    const fw_packed_table
        *packed;            /* the frozen weights are in 4 bits; NULL: they are not. Borrowed, also by the plan */
    fw_shard_options shard; /* strategy and sync_each are proposals where the next two say so */
    bool choose_strategy;   /* the lowest of ddp, zero1, zero2, zero3 that fits */
    bool choose_sync;       /* full gradients until the last micro-batch if that fits, else reduce each */
    int world;
    int64_t micro_n;                               /* micro-batches of a step */
    size_t token_bytes, scratch_bytes, host_bytes; /* device memory for tokens; scratch; dataset */
    size_t copy_bytes;                             /* host memory of --save_async */
} fw_plan_input;

enum { FW_PLAN_REASON_BYTES = 256 };

typedef struct fw_job_plan {
    fw_arena arena;
    fw_shard_layout layout; /* of what is trained */
    fw_shard_layout frozen; /* of what is frozen beside it; empty without an adapter */
    fw_memory_plan memory;
    fw_shard_traffic traffic;                   /* of one rank in one step; 0 without training */
    uint64_t frozen_bytes;                      /* of it, gathers of frozen weights */
    int unpacked_block;                         /* in the arena: a block of packed weights at work; -1: none */
    int activation_block, token_block;          /* in the arena */
    char strategy_reason[FW_PLAN_REASON_BYTES]; /* "ddp needs 5.10 GiB a rank, zero1 4.20 GiB, 4.00 GiB allowed; zero2
                                                   fits with 3.20 GiB"; "" when it was not chosen here */
    char sync_reason[FW_PLAN_REASON_BYTES];
} fw_job_plan;

/* Chooses what is to be chosen and checks that it fits. Errors: FW_ERR_FIT (figures, and which strategy would fit),
 * FW_ERR_OPTION, FW_ERR_NOMEM. */
fw_status fw_job_plan_make(fw_job_plan *out, const fw_plan_input *input, const fw_memory_budget *budget);
/* What one strategy takes, whether it fits or not; with choose_sync, gradients are held when that fits. Errors:
 * FW_ERR_OPTION, FW_ERR_NOMEM. */
fw_status fw_job_plan_of(fw_job_plan *out, const fw_plan_input *input, const fw_memory_budget *budget,
                         fw_shard_strategy strategy);
void fw_job_plan_fini(fw_job_plan *plan);
/* What a rank keeps in files. */
static inline uint64_t fw_job_plan_file_bytes(const fw_job_plan *p) {
    return p->layout.bytes.file + p->frozen.bytes.file;
}

#endif
