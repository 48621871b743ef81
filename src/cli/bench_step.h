/* finewire bench step: one run of a few steps under each strategy, in processes of their own, compared.
 *
 * The process that the user started launches the ranks of one strategy after the other, with its own arguments; FINEWIRE_BENCH_STEP in
 * their environment, "STRATEGY:FOLDER", says which run they are. Rank 0, or the rank that failed, writes FOLDER/result.json. */
#ifndef FW_CLI_BENCH_STEP_H
#define FW_CLI_BENCH_STEP_H

#include "config/options.h"

#define FW_BENCH_STEP_VARIABLE "FINEWIRE_BENCH_STEP"

enum { FW_BENCH_STRATEGY_N = 6, FW_BENCH_MESSAGE_BYTES = 512 };

/* What one strategy gave. */
typedef struct fw_bench_step_row {
    fw_strategy strategy;
    bool fits;
    char message[FW_BENCH_MESSAGE_BYTES]; /* why it does not */
    double tokens_per_s;                  /* of all ranks, median of the steps that count */
    double step_s, waited_s;           /* of a step, mean: all of it, and waiting for collectives on the slowest rank */
    int64_t sent_bytes;                /* by one rank in a step */
    int64_t planned_bytes, peak_bytes; /* of one rank */
    double loss;                       /* of the last step */
} fw_bench_step_row;

/* The run of one rank: options changed to a few steps that leave nothing but the result. value: of the variable. */
fw_status fw_bench_step_rank(const fw_options *options, const char *value);
/* Read what the ranks have left. Errors: FW_ERR_RANK (nothing is there), FW_ERR_INPUT. */
fw_status fw_bench_step_read(fw_bench_step_row *out, const char *folder);

/* Which to take: the fastest; of those within 3 % of it the one that plans the least memory. -1: none fits. reason: a
 * sentence with the figures. */
int fw_bench_step_choose(const fw_bench_step_row *rows, int row_n, char *reason, size_t reason_bytes);

/* The strategies of "ddp,zero3", or where that is NULL those that differ for this many ranks. Errors: FW_ERR_OPTION. */
fw_status fw_bench_step_strategies(fw_strategy out[FW_BENCH_STRATEGY_N], int *n, const fw_options *options);

/* A file of conversations as long as the recipe's sequences, enough for all steps: for a recipe without a dataset. */
fw_status fw_bench_step_make_dataset(const fw_options *options, const char *path);

#endif
