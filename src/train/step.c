#include "train/step.h"

#include "base/plural.h"
#include "base/trace.h"

#include "train/optimizer.h"

#include <math.h>
#include <stdio.h>

/* x[0] .. x[L], unit by unit. */
static fw_status forward(fw_step *s, const fw_micro_batch *b) {
    fw_unit_weights w;
    FW_TRY(fw_units_acquire(&s->units, 0, FW_SHARD_FORWARD, false, &w));
    FW_TRY(fw_edge_embed(s->model, s->device, &w, s->activations, b));
    FW_TRY(fw_units_release(&s->units, 0, FW_SHARD_FORWARD));
    for (int32_t l = 0; l < s->model->config.L; l++) {
        FW_TRY(fw_units_acquire(&s->units, 1 + l, FW_SHARD_FORWARD, false, &w));
        FW_TRY(fw_block_forward(s->model, s->device, l, &w, s->activations, b, NULL));
        FW_TRY(fw_units_release(&s->units, 1 + l, FW_SHARD_FORWARD));
    }
    return FW_OK;
}

/* Losses of the targets; with grad_scale > 0 also the gradients of head and final norm, and of x[L]. */
static fw_status loss(fw_step *s, const fw_micro_batch *b, float grad_scale, fw_loss_sum *sum) {
    fw_unit_weights w;
    FW_TRY(fw_units_acquire(&s->units, 0, FW_SHARD_LOSS, grad_scale > 0, &w));
    FW_TRY(fw_edge_loss(s->model, s->device, &w, s->activations, b, grad_scale));
    FW_TRY(fw_units_release(&s->units, 0, FW_SHARD_LOSS));
    return fw_token_buffers_add_losses(s->tokens, sum, s->activations->loss_n, b->weight_n, b->n);
}

/* Each unit's gradients are handed over as soon as they are complete, and travel while earlier units compute. The edge
 * comes last: its embedding is used at the very beginning of forward. */
static fw_status backward(fw_step *s, const fw_micro_batch *b, bool last_micro_batch) {
    fw_unit_weights w;
    for (int32_t l = (int32_t)s->model->config.L - 1; l >= 0; l--) {
        FW_TRY(fw_units_acquire(&s->units, 1 + l, FW_SHARD_BACKWARD, true, &w));
        FW_TRY(fw_block_backward(s->model, s->device, l, &w, s->activations, b));
        FW_TRY(fw_shard_reduce(s->units.trained, 1 + l, last_micro_batch));
        FW_TRY(fw_units_release(&s->units, 1 + l, FW_SHARD_BACKWARD));
    }
    FW_TRY(fw_units_acquire(&s->units, 0, FW_SHARD_GRADIENT, true, &w));
    FW_TRY(fw_edge_embed_backward(s->model, s->device, &w, s->activations, b));
    FW_TRY(fw_shard_reduce(s->units.trained, 0, last_micro_batch));
    return fw_units_release(&s->units, 0, FW_SHARD_GRADIENT);
}

/* The sums of all ranks. */
static fw_status sum_over_ranks(fw_comm *comm, fw_loss_sum *sum) {
    int64_t values[4] = {sum->fixed, sum->target_n, sum->not_finite, sum->weight};
    FW_TRY(fw_comm_sum_i64(comm, values, 4));
    *sum = (fw_loss_sum){values[0], values[1], values[2], values[3]};
    return FW_OK;
}

static fw_status check_finite(int64_t step, const fw_loss_sum *sum, double grad_norm) {
    if (sum->not_finite == 0 && isfinite(grad_norm)) return FW_OK;
    if (sum->not_finite > 0)
        return fw_fail(FW_ERR_INPUT,
                       "step %lld: the loss of %lld of %lld target%s is not a finite number; the weights were not "
                       "changed. Lower --learning_rate or check the model (finewire eval)",
                       (long long)step, (long long)sum->not_finite, (long long)sum->target_n, fw_plural(sum->target_n));
    return fw_fail(FW_ERR_INPUT,
                   "step %lld: the gradient norm is %g; the weights were not changed. Lower --learning_rate",
                   (long long)step, grad_norm);
}

/* One micro-batch of this rank: losses into *sum, gradients to the shard. */
static fw_status run_micro_batch(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, int64_t micro,
                                 bool last, float grad_scale, fw_loss_sum *sum) {
    fw_micro_batch b;
    uint64_t at_ns = fw_trace_now();
    FW_TRY(fw_batcher_fill(s->batcher, epoch, step_in_epoch, micro, fw_comm_rank(s->comm), &s->tokens->host));
    FW_TRY(fw_token_buffers_upload(s->tokens, step, &b));
    at_ns = fw_trace_since(FW_TRACE_STEP, "batch", at_ns);
    FW_TRY(fw_units_begin(&s->units, FW_SHARD_PASS_TRAIN, !last));
    FW_TRY(forward(s, &b));
    at_ns = fw_trace_since(FW_TRACE_STEP, "forward", at_ns);
    FW_TRY(loss(s, &b, grad_scale, sum));
    at_ns = fw_trace_since(FW_TRACE_STEP, "loss", at_ns);
    FW_TRY(backward(s, &b, last));
    fw_trace_since(FW_TRACE_STEP, "backward", at_ns);
    return FW_OK;
}

static void trace_step(int64_t step, uint64_t start_ns) {
    char name[FW_TRACE_NAME_BYTES];
    if (start_ns == 0) return;
    snprintf(name, sizeof name, "step %lld", (long long)step);
    fw_trace_since(FW_TRACE_STEP, name, start_ns);
}

/* What was planned has been taken: memory that runs out now is a failure of this rank, not a job that does not fit. */
static fw_status of_step(fw_status status, int64_t step) {
    if (status == FW_ERR_NOMEM) return fw_fail(FW_ERR_RANK, "step %lld: %s", (long long)step, fw_trail_message());
    return status;
}

static fw_status find_gradients(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, fw_step_work *work) {
    int64_t micro_n = fw_batcher_micro_steps(s->batcher, step_in_epoch);
    int64_t weight = fw_batcher_window_weight(s->batcher, epoch, step_in_epoch); /* of all ranks and micro-batches */
    float grad_scale = 1.0f / (float)fw_loss_weight_value(weight);
    *work = (fw_step_work){.step = step, .epoch = epoch, .step_in_epoch = step_in_epoch, .start_ns = fw_trace_now()};

    for (int64_t micro = 0; micro < micro_n; micro++)
        FW_TRY(run_micro_batch(s, step, epoch, step_in_epoch, micro, micro == micro_n - 1, grad_scale, &work->sum));
    uint64_t at_ns = fw_trace_now();
    FW_TRY(fw_shard_finish(s->units.trained));
    fw_trace_since(FW_TRACE_STEP, "last gradients", at_ns);
    return FW_OK;
}

static fw_status update(fw_step *s, fw_step_work *work, double learning_rate, fw_step_result *result) {
    uint64_t at_ns = fw_trace_now();
    FW_TRY(sum_over_ranks(s->comm, &work->sum));
    double squares;
    FW_TRY(fw_shard_gradient_squares(s->units.trained, &squares));
    double norm = sqrt(squares);
    FW_TRY(fw_comm_agree(s->comm, check_finite(work->step, &work->sum, norm))); /* all fail alike; one says so */
    at_ns = fw_trace_since(FW_TRACE_STEP, "norm", at_ns);

    fw_adamw_options o = s->adamw;
    o.step = work->step;
    o.learning_rate = (float)learning_rate;
    o.grad_scale = fw_optimizer_clip_factor(norm, s->max_grad_norm);
    FW_TRY(fw_optimizer_update(s->units.trained, fw_model_trained(s->model), fw_shard_update_device(s->units.trained),
                               &o, &s->optim));
    fw_trace_since(FW_TRACE_STEP, "update", at_ns);
    trace_step(work->step, work->start_ns);

    *result = (fw_step_result){.loss = fw_loss_mean(&work->sum),
                               .grad_norm = norm,
                               .token_n = fw_batcher_window_tokens(s->batcher, work->epoch, work->step_in_epoch),
                               .target_n = fw_batcher_window_targets(s->batcher, work->epoch, work->step_in_epoch)};
    return FW_OK;
}

fw_status fw_step_find_gradients(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, fw_step_work *work) {
    return of_step(find_gradients(s, step, epoch, step_in_epoch, work), step);
}

fw_status fw_step_update(fw_step *s, fw_step_work *work, double learning_rate, fw_step_result *result) {
    return of_step(update(s, work, learning_rate, result), work->step);
}

fw_status fw_step_run(fw_step *s, int64_t step, int64_t epoch, int64_t step_in_epoch, double learning_rate,
                      fw_step_result *result) {
    fw_step_work work;
    FW_TRY(fw_step_find_gradients(s, step, epoch, step_in_epoch, &work));
    return fw_step_update(s, &work, learning_rate, result);
}

fw_status fw_step_evaluate(fw_step *s, fw_batcher *batcher, fw_loss_sum *sum) {
    *sum = (fw_loss_sum){0};
    int64_t step_n = fw_batcher_steps_per_epoch(batcher);
    for (int64_t step = 0; step < step_n; step++) {
        int64_t micro_n = fw_batcher_micro_steps(batcher, step);
        for (int64_t micro = 0; micro < micro_n; micro++) {
            fw_micro_batch b;
            FW_TRY(fw_batcher_fill(batcher, 0, step, micro, fw_comm_rank(s->comm), &s->tokens->host));
            FW_TRY(fw_token_buffers_upload(s->tokens, 0, &b));
            FW_TRY(fw_units_begin(&s->units, FW_SHARD_PASS_FORWARD, step < step_n - 1 || micro < micro_n - 1));
            FW_TRY(forward(s, &b));
            FW_TRY(loss(s, &b, 0, sum));
        }
    }
    return sum_over_ranks(s->comm, sum);
}
