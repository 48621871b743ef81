/* finewire train: start the ranks, show what is about to happen, what happens, and what came out. */
#include "base/log.h"
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "cli/show_adapter.h"
#include "cli/terminal.h"
#include "mirror/mirror.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* State of the display; rank 0 shows, the others keep silent. */
typedef struct display {
    const fw_options *options;
    fw_progress *progress;
    int rank, world;
    fw_status status; /* of what is shown: it must not stop the run */
} display;

static void on_place(void *context, int rank, int world) {
    display *d = context;
    d->rank = rank;
    d->world = world;
    fw_terminal_set_rank(rank, world);
    if (rank == 0) fw_options_warn(d->options);
}

static void show_data(const fw_train_summary *s, int rank) {
    const fw_dataset_stats *stats = &s->dataset->stats;
    char tokens[FW_HUMAN_BYTES], targets[FW_HUMAN_BYTES];
    fw_log_info("data      %s: %lld conversation%s, %s tokens, %s of them targets (%.0f %%), longest %lld",
                s->dataset->name, (long long)s->dataset->sample_n, fw_plural(s->dataset->sample_n),
                fw_human_count(tokens, (double)stats->token_n), fw_human_count(targets, (double)stats->target_n),
                100.0 * (double)stats->target_n / (double)stats->token_n, (long long)stats->longest_n);
    if (s->dataset->run_n > 0)
        fw_log_info("weights   the targets weigh %.6g in all (loss_weight)", fw_loss_weight_value(stats->weight));
    if (rank != 0) return; /* all ranks read the same file: one warns of it */
    for (int reason = 0; reason < FW_DROP_REASON_N; reason++)
        if (stats->drop_n[reason] > 0)
            fw_log_warning("%lld conversation%s left out: %s", (long long)stats->drop_n[reason],
                           fw_plural_are(stats->drop_n[reason]), fw_drop_reason_name((fw_drop_reason)reason));
    if (stats->truncated_n > 0)
        fw_log_warning("%lld conversation%s cut to --max_length %lld, %lld token%s in all",
                       (long long)stats->truncated_n, fw_plural_are(stats->truncated_n),
                       (long long)s->options->max_length, (long long)stats->truncated_token_n,
                       fw_plural(stats->truncated_token_n));
    for (int i = 0; i < FW_CHAT_LEFT_N; i++) {
        char words[FW_CHAT_LEFT_OUT_BYTES];
        if (stats->left_out_n[i] > 0)
            fw_log_warning("the chat template %s %s%s", fw_chat_left_out_verb((fw_chat_left_out)i),
                           fw_chat_left_out_words(words, (fw_chat_left_out)i, stats->left_out_n[i]),
                           fw_chat_left_out_hint((fw_chat_left_out)i));
    }
    if (stats->mark_ignored_n > 0)
        fw_log_warning(
            "%lld mark%s to learn a message do nothing: the chat template's {%% generation %%} blocks say what is "
            "learnt",
            (long long)stats->mark_ignored_n, fw_plural(stats->mark_ignored_n));
    if (stats->spelt_n > 0)
        fw_log_warning("%lld row%s the spelling of control tokens, which stays text; where a template rendered "
                       "them, set --allow_special_in_content true",
                       (long long)stats->spelt_n, stats->spelt_n == 1 ? " has" : "s have");
}

static void show_memory(const fw_train_summary *s) {
    const fw_memory_plan *plan = &s->job->plan.memory;
    char total[FW_HUMAN_BYTES], part[FW_HUMAN_BYTES];
    fw_log_info("memory    %s a rank, planned; place and offset of each part:",
                fw_human_size(total, plan->total_bytes));
    for (int i = 0; i < plan->row_n; i++)
        fw_log_info("          %10s  %-36s %s %zu", fw_human_size(part, plan->row[i].bytes), plan->row[i].what,
                    fw_plan_place_name(plan->row[i].place), plan->row[i].offset_bytes);
}

static fw_strategy as_option(fw_shard_strategy strategy) {
    static const fw_strategy words[] = {
        [FW_SHARD_DDP] = FW_STRATEGY_DDP,     [FW_SHARD_ZERO1] = FW_STRATEGY_ZERO1,
        [FW_SHARD_ZERO2] = FW_STRATEGY_ZERO2, [FW_SHARD_ZERO3] = FW_STRATEGY_ZERO3,
        [FW_SHARD_HSDP] = FW_STRATEGY_HSDP,   [FW_SHARD_HSDP_ZERO2] = FW_STRATEGY_HSDP_ZERO2};
    return words[strategy];
}

/* The strategy, why, and what it sends. */
static void show_strategy(const fw_train_summary *s) {
    const fw_job_plan *plan = &s->job->plan;
    const fw_shard_layout *l = &plan->layout;
    const fw_shard_options *o = &l->options;
    fw_log_info("strategy  %s%s%s", fw_shard_strategy_name(o->strategy), plan->strategy_reason[0] ? ": " : "",
                plan->strategy_reason);
    if (l->bucket_n == 1)
        fw_log_info("units     1: the whole model");
    else
        fw_log_info("units     %d of transformer blocks and the edge (embedding, final norm, head)",
                    (int)l->bucket_n - 1);
    if (l->S > 1 && l->R > 1)
        fw_log_info("groups    %d ranks share out the model, %d groups hold the same", l->S, l->R);
    if (plan->sync_reason[0]) fw_log_info("gradients %s", plan->sync_reason);
    if (s->world == 1) return;
    const fw_shard_traffic *t = &plan->traffic;
    char all[FW_HUMAN_BYTES], reduce[FW_HUMAN_BYTES], scatter[FW_HUMAN_BYTES], gather[FW_HUMAN_BYTES];
    fw_log_info("wire      %s a step and rank: all_reduce %s, reduce_scatter %s, all_gather %s",
                fw_human_size(all, t->all_reduce_bytes + t->reduce_scatter_bytes + t->all_gather_bytes),
                fw_human_size(reduce, t->all_reduce_bytes), fw_human_size(scatter, t->reduce_scatter_bytes),
                fw_human_size(gather, t->all_gather_bytes));
}

static void on_start(void *context, const fw_train_summary *s) {
    display *d = context;
    const fw_options *o = s->options;
    const fw_job *job = s->job;
    char parameters[FW_HUMAN_BYTES];
    fw_log_info("model     %s: %s, %s parameters%s, computing in %s, weights and moments in fp32", job->model_dir,
                fw_architecture_class(job->model.config.architecture),
                fw_human_count(parameters, (double)job->model.table.parameter_n),
                job->model.config.tied ? " (tied head counted once)" : "", fw_dtype_name(job->model.t));
    d->status = fw_cli_show_adapter(job);
    show_data(s, d->rank);
    bool own_cores = job->thread_n <= job->cpu_n;
    fw_log_info("ranks     %d (%s), %d thread%s each%s", s->world, fw_comm_transport(job->comm), job->thread_n,
                fw_plural(job->thread_n),
                own_cores ? ", the cores shared evenly" : ", more than its share of the cores");
    fw_log_info("device    %s", job->device->description);
    if (job->device->attention[0] != 0) fw_log_info("attention %s", job->device->attention);
    fw_log_info("batch     %lld x %lld x %d = %lld %s%s a step (per_device_train_batch_size x "
                "gradient_accumulation_steps x ranks)",
                (long long)o->per_device_train_batch_size, (long long)o->gradient_accumulation_steps, s->world,
                (long long)s->effective_batch, o->packing ? "packed sequence" : "conversation",
                fw_plural(s->effective_batch));
    show_strategy(s);
    if (d->rank == 0) fw_options_warn_of_choice(o, as_option(job->plan.layout.options.strategy));
    show_memory(s);
}

static void on_course(void *context, const fw_train_course *c) {
    display *d = context;
    fw_log_info("steps     %lld an epoch, %lld in all, %lld of warm-up; learning rate %g, %s",
                (long long)c->steps_per_epoch, (long long)c->step_n, (long long)c->warmup_n, c->peak_rate,
                fw_lr_schedule_words[c->options->lr_scheduler_type]);
    if (c->resumed_step > c->step_n)
        fw_log_info(
            "resume    step %lld is done, and this run ends at step %lld: nothing is left to train, and the model "
            "is that of step %lld (an earlier one: --resume_from_checkpoint FOLDER)",
            (long long)c->resumed_step, (long long)c->step_n, (long long)c->resumed_step);
    else if (c->resumed_step == c->step_n)
        fw_log_info("resume    %lld of %lld step%s done already", (long long)c->step_n, (long long)c->step_n,
                    fw_plural_are(c->step_n));
    else if (c->resumed_step > 0)
        fw_log_info("resume    after step %lld", (long long)c->resumed_step);
    if (d->status == FW_OK) d->status = fw_progress_create(&d->progress, c->resumed_step, c->options->disable_tqdm);
}

static void on_step(void *context, const fw_train_report *r) {
    display *d = context;
    fw_progress_values values = {.step = r->step,
                                 .step_n = r->step_n,
                                 .epoch = r->epoch,
                                 .loss = r->logged ? r->mean_loss : r->loss,
                                 .learning_rate = r->learning_rate,
                                 .grad_norm = r->grad_norm,
                                 .tokens_per_s = r->logged ? r->mean_tokens_per_s : r->tokens_per_s};
    snprintf(values.mirror, sizeof values.mirror, "%s", r->mirror);
    if (d->progress != NULL) fw_progress_update(d->progress, &values, r->logged);
}

static void on_evaluated(void *context, int64_t step, double loss, int64_t target_n) {
    (void)context;
    fw_log_info("evaluated after step %lld: loss %.4f, perplexity %.2f over %lld target%s", (long long)step, loss,
                exp(loss), (long long)target_n, fw_plural(target_n));
}

static void on_saved(void *context, int64_t step, const char *path) {
    (void)step;
    (void)context;
    if (path != NULL) fw_log_info("saved %s", path);
}

/* Per step: what a rank sent, how long collectives took, and how long the step waited for them, on the rank where that is
 * longest. */
static void show_traffic(const fw_train_result *r) {
    const fw_shard_counters *t = &r->traffic;
    const uint64_t steps = (uint64_t)r->traffic_steps;
    char reduce[FW_HUMAN_BYTES], scatter[FW_HUMAN_BYTES], gather[FW_HUMAN_BYTES];
    fw_terminal_printf(
        "sent_per_step = all_reduce %s, reduce_scatter %s, all_gather %s (%llu bytes)\n",
        fw_human_size(reduce, t->all_reduce_bytes / steps), fw_human_size(scatter, t->reduce_scatter_bytes / steps),
        fw_human_size(gather, t->all_gather_bytes / steps),
        (unsigned long long)((t->all_reduce_bytes + t->reduce_scatter_bytes + t->all_gather_bytes) / steps));
    double step_ms = r->train_s * 1e3 / (double)steps, waited_ms = (double)t->wait_ns * 1e-6 / (double)steps;
    fw_terminal_printf(
        "communication = %.1f ms a step at work, %.1f ms waited for, on the slowest rank (%.1f %% of the "
        "step)\n",
        (double)t->busy_ns * 1e-6 / (double)steps, waited_ms, 100 * waited_ms / step_ms);
}

static void on_done(void *context, const fw_train_result *r) {
    display *d = context;
    fw_progress_destroy(d->progress);
    d->progress = NULL;
    if (d->rank != 0) return;
    char peak[FW_HUMAN_BYTES], time[FW_HUMAN_BYTES];
    if (r->tokens_per_s > 0) {
        fw_terminal_printf("tokens_per_s = %.0f\n", r->tokens_per_s);
        fw_terminal_printf("train_time = %s\n", fw_human_duration(time, r->train_s));
        fw_terminal_printf("final_loss = %.4f\n", r->final_loss);
    }
    fw_terminal_printf("peak_memory = %s a rank (%llu bytes)\n", fw_human_size(peak, r->peak_bytes),
                       (unsigned long long)r->peak_bytes);
    if (r->taken_bytes == r->planned_bytes)
        fw_terminal_printf("planned_memory = %llu bytes, all taken and no more\n",
                           (unsigned long long)r->planned_bytes);
    else
        fw_log_warning("the plan was %llu bytes and %llu were taken; please report it",
                       (unsigned long long)r->planned_bytes, (unsigned long long)r->taken_bytes);
    if (d->world > 1 && r->traffic_steps > 0) show_traffic(r);
    if (r->trace != NULL) fw_terminal_printf("trace = %s\n", r->trace);
    if (r->model_dir != NULL)
        fw_terminal_printf("%s = %s\n", r->adapter ? "adapter" : "model", r->model_dir);
    else
        fw_terminal_printf("interrupted after step %lld of %lld; the same command goes on from there\n",
                           (long long)r->step, (long long)r->step_n);
}

fw_status fw_cli_train(const fw_options *options) {
    bool must_launch;
    if (options->mirror != NULL)
        FW_TRY(fw_mirror_check_options(options->mirror, options->mirror_check, options->mirror_total_limit));
    FW_TRY(fw_cli_must_launch(&must_launch, (int)options->num_processes));
    if (must_launch) return fw_cli_launch((int)options->num_processes, false);
    display d = {.options = options, .world = 1};
    fw_train_hooks hooks = {.context = &d,
                            .place = on_place,
                            .start = on_start,
                            .course = on_course,
                            .step = on_step,
                            .evaluated = on_evaluated,
                            .saved = on_saved,
                            .done = on_done};
    bool reports;
    fw_status status = fw_train_run(options, &hooks, &reports);
    fw_progress_destroy(d.progress);
    if (status != FW_OK && !reports) fw_terminal_error_was_shown();
    return status;
}
