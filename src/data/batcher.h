/* Which tokens each rank computes in each micro-step: order, packing and batches, without padding.
 *
 * A *unit* is what is never split: a conversation, or with packing a bin of conversations whose tokens fit
 * into max_length (best fit decreasing, the same bins for every world size). An epoch is one random order of
 * all units, a function of data_seed and the epoch alone. A step (window) takes the next
 * micro * accumulation * world units; micro-step a of rank r takes, for slot b in 0..micro-1,
 *
 *   unit  order[step * micro * accumulation * world + (a * world + r) * micro + b]
 *
 * so at one global batch the set and the order do not depend on the world size. Units left at the end of an
 * epoch make a last, shorter step with ceil(left / (micro * world)) micro-steps; a rank may get an empty batch
 * there, but every rank has the same number of steps and micro-steps. Any (epoch, step) may be asked for at
 * any time: a resumed run needs no replay.
 *
 * With group_by_length the order is then sorted by length inside stretches of up to 50 steps, and the steps of a stretch
 * are shuffled: conversations that meet in a step are about as long as each other, and steps come in random order. It
 * too depends on the global batch only. */
#ifndef FW_DATA_BATCHER_H
#define FW_DATA_BATCHER_H

#include "config/options.h"
#include "data/dataset.h"

typedef struct fw_batcher_options {
    int64_t micro;        /* units per micro-step and rank (per_device_train_batch_size), >= 1 */
    int64_t accumulation; /* micro-steps of a full step (gradient_accumulation_steps), >= 1 */
    int64_t world;        /* ranks, >= 1 */
    int64_t max_length;   /* tokens of a packed bin; needed with packing only */
    int packing;
    fw_packing_strategy packing_strategy;
    int group_by_length; /* see below; with shuffle only */
    int shuffle;         /* 0: file order, as for evaluation: each example once */
    uint64_t data_seed;
} fw_batcher_options;

typedef struct fw_batcher fw_batcher;

/* The dataset is borrowed until destroy. All memory is taken here. Errors: FW_ERR_OPTION, FW_ERR_NOMEM. */
fw_status fw_batcher_create(fw_batcher **out, const fw_dataset *dataset, const fw_batcher_options *options);
void fw_batcher_destroy(fw_batcher *b); /* takes NULL */

int64_t fw_batcher_units(const fw_batcher *b);
int64_t fw_batcher_steps_per_epoch(const fw_batcher *b);
/* From now on the first unit_n units of an epoch are left out, whichever is asked for, and its steps begin behind them: a
 * run that goes on with another batch inside of an epoch. 0 <= unit_n < units; 0 at first. */
void fw_batcher_skip(fw_batcher *b, int64_t unit_n);
/* Micro-steps of this step: accumulation, or fewer in the last step of an epoch. Equal on all ranks. */
int64_t fw_batcher_micro_steps(const fw_batcher *b, int64_t step_in_epoch);
/* Tokens and targets of a whole step, over all ranks and micro-steps. Computed locally, since every rank knows every length. */
int64_t fw_batcher_window_targets(fw_batcher *b, int64_t epoch, int64_t step_in_epoch);
int64_t fw_batcher_window_tokens(fw_batcher *b, int64_t epoch, int64_t step_in_epoch);
/* Sum of the targets' weights, in units of fw_loss_weight: the divisor of the loss. Equal to the targets where each counts
 * as one. */
int64_t fw_batcher_window_weight(fw_batcher *b, int64_t epoch, int64_t step_in_epoch);
/* The largest batch that any order can give: the sum of the `micro` longest units. What buffers are sized to. */
int64_t fw_batcher_max_tokens(const fw_batcher *b);
/* The most documents that a batch of any order has. */
int64_t fw_batcher_max_documents(const fw_batcher *b);

/* One micro-batch: documents back to back. Arrays have room for cap_n tokens. */
typedef struct fw_batch {
    int32_t *id_N;            /* token ids */
    int32_t *target_N;        /* the next token of the same document when it is a target, else -1 */
    int32_t *position_N;      /* place in the document, from 0 */
    int32_t *first_N;         /* index in this batch of the document's first token */
    int32_t *sample_N;        /* conversation, numbered in file order */
    fw_loss_weight *weight_N; /* of the targets, when is_weighted; else all of them count as one */
    int is_weighted;
    int64_t n;        /* tokens; 0: nothing to do for this rank */
    int64_t target_n; /* entries of target_N that are not -1 */
    int64_t document_n;
    int64_t cap_n;
} fw_batch;

/* cap_n: fw_batcher_max_tokens as a rule. */
fw_status fw_batch_init(fw_batch *batch, int64_t cap_n);
void fw_batch_fini(fw_batch *batch);

/* Fill *batch for (epoch, step_in_epoch, micro_step, rank). The epoch is any number >= 0; the rest must lie in
 * the ranges above. Errors: FW_ERR_INTERNAL when an argument is out of range or the batch too small. */
fw_status fw_batcher_fill(fw_batcher *b, int64_t epoch, int64_t step_in_epoch, int64_t micro_step, int64_t rank,
                          fw_batch *batch);
/* Samples (conversations, numbered in file order) of the same micro-batch, for reports and tests: at most cap
 * are written; *n is how many there are. */
fw_status fw_batcher_samples(fw_batcher *b, int64_t epoch, int64_t step_in_epoch, int64_t micro_step, int64_t rank,
                             int64_t *sample, int64_t cap, int64_t *n);

#endif
