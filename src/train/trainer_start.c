/* From options to the first step: data, memory, and where the run goes on. */
#include "train/trainer_internal.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "config/options_saving.h"
#include "data/data_report.h"
#include "plan/job_input.h"
#include "train/run_trace.h"
#include "train/same_job.h"

/* Collective. */
static fw_status load_data(fw_trainer *t) {
    const fw_options *o = t->o;
    const bool all_tokens = !o->assistant_only_loss;
    FW_TRY(fw_job_load_dataset(&t->job, o, o->dataset_name, all_tokens, &t->dataset, &t->eval_dataset));
    if (o->eval_dataset != NULL)
        FW_TRY(fw_job_load_dataset(&t->job, o, o->eval_dataset, all_tokens, &t->eval_dataset, NULL));
    FW_TRY(fw_same_content(t->job.comm, t->dataset->hash, "conversations", o->dataset_name));
    if (t->eval_dataset == NULL) return FW_OK;
    return fw_same_content(t->job.comm, t->eval_dataset->hash, "conversations",
                           o->eval_dataset != NULL ? o->eval_dataset : o->dataset_name);
}

static fw_status make_batchers(fw_trainer *t) {
    const fw_options *o = t->o;
    fw_batcher_options train = {.micro = o->per_device_train_batch_size,
                                .accumulation = o->gradient_accumulation_steps,
                                .world = fw_comm_world(t->job.comm),
                                .max_length = o->max_length,
                                .packing = o->packing,
                                .packing_strategy = o->packing_strategy,
                                .group_by_length = o->group_by_length && !o->packing,
                                .shuffle = 1,
                                .data_seed = (uint64_t)o->data_seed};
    FW_TRY(fw_batcher_create(&t->batcher, t->dataset, &train));
    if (t->eval_dataset == NULL) return FW_OK;
    fw_batcher_options eval = {
        .micro = o->per_device_eval_batch_size, .accumulation = 1, .world = train.world, .max_length = o->max_length};
    return fw_batcher_create(&t->eval_batcher, t->eval_dataset, &eval);
}

static fw_status count_steps(fw_trainer *t) {
    const fw_options *o = t->o;
    t->steps_per_epoch = fw_batcher_steps_per_epoch(t->batcher);
    double steps = fw_course_steps(&t->course, o->num_train_epochs);
    if (steps > 1e15)
        return fw_fail(FW_ERR_OPTION, "--num_train_epochs %g is %g steps: too many", o->num_train_epochs, steps);
    t->step_n = o->max_steps > 0 ? o->max_steps : (int64_t)steps;
    t->schedule = (fw_schedule){.kind = o->lr_scheduler_type,
                                .warmup = o->warmup_type,
                                .peak = fw_options_scaled_rate(o, t->course.batch_n),
                                .warmup_n = fw_options_warmup_steps(o, t->step_n),
                                .total_n = t->step_n};
    return FW_OK;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static fw_status allocate(fw_trainer *t) {
    const fw_options *o = t->o;
    int64_t longest = t->dataset->stats.longest_n, N = fw_batcher_max_tokens(t->batcher);
    int64_t document_n = fw_batcher_max_documents(t->batcher);
    if (t->eval_batcher != NULL) {
        longest = larger(longest, t->eval_dataset->stats.longest_n);
        N = larger(N, fw_batcher_max_tokens(t->eval_batcher));
        document_n = larger(document_n, fw_batcher_max_documents(t->eval_batcher));
    }
    fw_activation_options a = {.mode = fw_plan_activation_mode(o->gradient_checkpointing),
                               .recompute_every = o->gradient_checkpointing_every,
                               .N_max = N,
                               .n_max = N,
                               .chunk_n = fw_plan_chunk_rows(o->loss_chunk_size, &t->job.model, N),
                               .P = longest,
                               .document_n = document_n,
                               .longest_n = longest,
                               .attention = fw_job_attention(o)};
    size_t token_bytes = fw_job_dataset_bytes(t->dataset) + fw_job_dataset_bytes(t->eval_dataset);
    const bool copies = o->save_async && o->save_strategy != FW_WHEN_NO;
    const size_t copy_bytes =
        copies ? fw_save_async_bytes(fw_model_trained(&t->job.model), fw_plan_optimizer(o), fw_comm_world(t->job.comm))
               : 0;
    FW_TRY(fw_job_allocate(&t->job, o, &a, true, token_bytes, copy_bytes));
    t->step = fw_job_step(&t->job);
    t->step.batcher = t->batcher;
    FW_TRY(fw_options_optim_settings(&t->step.optim, o));
    t->step.max_grad_norm = o->max_grad_norm;
    t->step.adamw = (fw_adamw_options){.beta1 = (float)o->adam_beta1,
                                       .beta2 = (float)o->adam_beta2,
                                       .epsilon = (float)o->adam_epsilon,
                                       .weight_decay = (float)o->weight_decay};
    return FW_OK;
}

/* Rank 0 says what lr_scale_rule has made of the learning rate. */
static void tell_rate(const fw_trainer *t) {
    const fw_options *o = t->o;
    if (o->lr_scale_rule == FW_LR_SCALE_NONE || fw_comm_rank(t->job.comm) != 0) return;
    fw_log_info("learning rate %g x %s(%lld sequences a step / %lld) = %g", o->learning_rate,
                o->lr_scale_rule == FW_LR_SCALE_SQRT ? "sqrt" : "", (long long)t->course.batch_n,
                (long long)o->lr_scale_base_batch, t->schedule.peak);
}

static void tell_start(const fw_trainer *t) {
    if (t->hooks->start == NULL) return;
    const fw_options *o = t->o;
    int world = fw_comm_world(t->job.comm);
    fw_train_summary summary = {.job = &t->job,
                                .options = o,
                                .dataset = t->dataset,
                                .rank = fw_comm_rank(t->job.comm),
                                .world = world,
                                .effective_batch =
                                    o->per_device_train_batch_size * o->gradient_accumulation_steps * world,
                                .unit_n = fw_batcher_units(t->batcher),
                                .memory_available = t->memory_available};
    t->hooks->start(t->hooks->context, &summary);
}

static void tell_course(const fw_trainer *t) {
    if (t->hooks->course == NULL) return;
    const fw_train_course course = {.options = t->o,
                                    .steps_per_epoch = t->steps_per_epoch,
                                    .step_n = t->step_n,
                                    .warmup_n = t->schedule.warmup_n,
                                    .peak_rate = t->schedule.peak,
                                    .resumed_step = t->first_step};
    t->hooks->course(t->hooks->context, &course);
}

/* The rows that are not learnt, with their reasons. */
static fw_status write_dropped(const fw_trainer *t, const fw_dataset *d, const char *name) {
    char *path;
    FW_TRY(fw_path_join(&path, t->o->output_dir, name));
    fw_status status = fw_dataset_write_dropped(d, path);
    fw_free(path);
    return status;
}

/* Going on from there. Collective. */
static fw_status take_place(fw_trainer *t, const fw_run_place *place) {
    t->first_step = place->step;
    fw_course_resume(&t->course, place->step, place->epoch_i, place->position);
    return fw_comm_agree(t->job.comm, count_steps(t));
}

static fw_status open_metrics(fw_trainer *t) {
    fw_status status = FW_OK;
    if (fw_comm_rank(t->job.comm) == 0) {
        status = fw_metrics_open(&t->metrics, t->o->output_dir, t->first_step);
        if (status == FW_OK) status = write_dropped(t, t->dataset, "dropped.jsonl");
        if (status == FW_OK && t->o->eval_dataset != NULL)
            status = write_dropped(t, t->eval_dataset, "dropped_eval.jsonl");
    }
    t->num_tokens = fw_metrics_tokens(t->o->output_dir, t->first_step);
    return fw_comm_agree(t->job.comm, status);
}

fw_status fw_trainer_settle(fw_trainer *t, bool *elsewhere) {
    fw_run_place place;
    FW_TRY(fw_run_state_finish_load(&t->state, &place, elsewhere));
    if (*elsewhere) {
        FW_TRY(fw_shard_forget_gradients(t->job.shard));
        FW_TRY(take_place(t, &place));
    }
    if (!t->hooks->keeps_nothing) FW_TRY(fw_run_state_start_mirror(&t->state, t->first_step));
    FW_TRY(open_metrics(t));
    t->settled = true;
    tell_course(t);
    return FW_OK;
}

fw_status fw_trainer_prepare(fw_trainer *t) {
    FW_TRY(fw_job_open(&t->job, t->o, (fw_job_needs){.chat = true, .weights_hash = true}));
    FW_TRY(fw_comm_agree(t->job.comm, fw_options_resolve_batch(&t->resolved, fw_comm_world(t->job.comm))));
    if (t->hooks->place != NULL)
        t->hooks->place(t->hooks->context, fw_comm_rank(t->job.comm), fw_comm_world(t->job.comm));
    FW_TRY(fw_same_options(t->job.comm, t->o));
    FW_TRY(load_data(t));
    FW_TRY(fw_comm_agree(t->job.comm, make_batchers(t)));
    t->course = (fw_course){.unit_n = fw_batcher_units(t->batcher),
                            .batch_n = t->o->per_device_train_batch_size * t->o->gradient_accumulation_steps *
                                       fw_comm_world(t->job.comm)};
    if (t->o->max_time != NULL) FW_TRY(fw_options_read_time(&t->deadline.limit_s, t->o->max_time, "max_time"));
    t->deadline.save_s = /* until one was measured: a slow disk */
        (double)fw_checkpoint_bytes(fw_model_trained(&t->job.model), fw_plan_optimizer(t->o), 1) / 200e6;
    FW_TRY(fw_comm_agree(t->job.comm, count_steps(t)));
    t->memory_available = fw_host_memory_available();
    FW_TRY(allocate(t));
    fw_shard_expect_load(t->job.shard, t->job.threads);

    t->state.options = t->o;
    t->state.job = &t->job;
    t->state.dataset = t->dataset;
    t->state.batcher = t->batcher;
    fw_run_place place;
    FW_TRY(fw_run_state_claim(&t->state));
    t->tracing = true;
    FW_TRY(fw_run_trace_begin(t->job.comm, t->o->trace));
    if (!t->hooks->keeps_nothing) FW_TRY(fw_run_state_try_saving(&t->state));
    FW_TRY(fw_run_state_load(&t->state, &place));
    FW_TRY(take_place(t, &place));
    tell_rate(t);
    tell_start(t);
    const bool nothing_to_do = t->first_step >= t->step_n;
    bool elsewhere;
    return fw_run_state_is_loading(&t->state) && !nothing_to_do ? FW_OK : fw_trainer_settle(t, &elsewhere);
}
