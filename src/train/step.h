/* One optimizer step, and the forward pass that evaluation shares with it. step.c is the place to read first. */
#ifndef FW_TRAIN_STEP_H
#define FW_TRAIN_STEP_H

#include "comm/comm.h"
#include "config/options_optim.h"
#include "shard/units.h"
#include "train/token_buffers.h"

/* Everything a step works with; all borrowed. */
typedef struct fw_step {
    const fw_model *model;
    fw_device *device;
    fw_comm *comm;
    fw_units units;
    fw_activations *activations;
    fw_token_buffers *tokens;
    fw_batcher *batcher;
    double max_grad_norm;   /* 0: no clipping */
    fw_adamw_options adamw; /* learning_rate, grad_scale and step are set by each step */
    fw_optim_settings optim;
} fw_step;

typedef struct fw_step_result {
    double loss;               /* weighted mean over the targets of all ranks and micro-batches */
    double grad_norm;          /* before clipping */
    int64_t token_n, target_n; /* of all ranks */
} fw_step_result;

/* A step that has changed nothing yet. */
typedef struct fw_step_work {
    int64_t step, epoch, step_in_epoch;
    fw_loss_sum sum; /* of this rank */
    uint64_t start_ns;
} fw_step_work;

/* Step `step` (from 1) on window (epoch, step_in_epoch). Collective. Errors: FW_ERR_RANK (also when this rank runs out
 * of memory); FW_ERR_INPUT when the loss or the gradient is not finite: then no weight has changed. */
fw_status fw_step_run(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, double learning_rate,
                      fw_step_result *result);

/* The same in two halves. Between them the optimizer's arrays need not be there, weights may not be touched, and the gradients
 * may be given up with fw_shard_forget_gradients. */
fw_status fw_step_find_gradients(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, fw_step_work *work);
fw_status fw_step_update(fw_step *s, fw_step_work *work, double learning_rate, fw_step_result *result);

/* Forward only: adds the losses of every target of the batcher's data, in its order, over all ranks. Collective. */
fw_status fw_step_evaluate(fw_step *s, fw_batcher *batcher, fw_loss_sum *sum);

#endif
