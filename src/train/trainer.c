#include "train/trainer_internal.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "base/trace.h"
#include "config/options_saving.h"
#include "train/interrupt.h"
#include "train/run_trace.h"

#include <math.h>
#include <string.h>

static double epoch_of(const fw_trainer *t, int64_t step) { return fw_course_epochs(&t->course, step); }

static fw_status evaluate(fw_trainer *t, int64_t step) {
    fw_loss_sum sum;
    uint64_t start_ns = fw_trace_now();
    FW_TRY(fw_step_evaluate(&t->step, t->eval_batcher, &sum));
    fw_trace_since(FW_TRACE_HOST, "evaluate", start_ns);
    double loss = fw_loss_mean(&sum);
    t->eval_loss = loss;
    FW_TRY(fw_metrics_write_eval(&t->metrics, step, epoch_of(t, step), loss, sum.target_n));
    if (t->hooks->evaluated != NULL) t->hooks->evaluated(t->hooks->context, step, loss, sum.target_n);
    return FW_OK;
}

static void tell_saved(fw_trainer *t) {
    fw_deadline_note(&t->deadline.save_s, fw_host_now_ns() - t->save_begin_ns);
    if (t->hooks->saved != NULL) t->hooks->saved(t->hooks->context, t->state.last_saved_step, t->state.last_checkpoint);
}

/* The save behind the training, if there is one. */
static fw_status finish_save(fw_trainer *t) {
    if (!fw_run_state_is_saving(&t->state)) return FW_OK;
    uint64_t start_ns = fw_trace_now();
    FW_TRY(fw_run_state_finish_save(&t->state));
    fw_trace_since(FW_TRACE_HOST, "end of a save", start_ns);
    tell_saved(t);
    return FW_OK;
}

static fw_status save(fw_trainer *t, int64_t step) {
    uint64_t start_ns = fw_trace_now();
    fw_run_progress progress = {.step = step,
                                .epoch = epoch_of(t, step),
                                .loss = t->step_loss,
                                .eval_loss = t->eval_loss,
                                .schedule = &t->schedule};
    fw_course_done(&t->course, step, &progress.epoch_i, &progress.position);
    FW_TRY(finish_save(t)); /* of the one before */
    t->save_begin_ns = fw_host_now_ns();
    FW_TRY(fw_run_state_save(&t->state, &progress));
    fw_trace_since(FW_TRACE_HOST, "save", start_ns);
    if (!fw_run_state_is_saving(&t->state)) tell_saved(t);
    return FW_OK;
}

/* Ranks compare notes after each step: did anybody get a signal or is time short, and who has the largest resident size. */
static fw_status agree_after_step(fw_trainer *t, bool *stop) {
    enum { GO_ON, TIME_IS_SHORT, SIGNALLED };
    const bool short_of_time = fw_deadline_is_near(&t->deadline, fw_host_now_ns());
    int64_t values[3] = {fw_interrupt_requested() ? SIGNALLED
                         : short_of_time          ? TIME_IS_SHORT
                                                  : GO_ON,
                         (int64_t)fw_job_peak_bytes(&t->job), !fw_run_state_has_written(&t->state)};
    FW_TRY(fw_comm_max_i64(t->job.comm, values, 3));
    if (values[2] == 0) FW_TRY(finish_save(t)); /* all parts are on the disk: nobody waits */
    *stop = values[0] != GO_ON;
    if (values[0] == TIME_IS_SHORT && fw_comm_rank(t->job.comm) == 0)
        fw_log_info("--max_time %s is near: saving what has been trained", t->o->max_time);
    t->peak_bytes = (uint64_t)values[1];
    return FW_OK;
}

/* What has crossed since the last reading is the steps'. A gather that follows an update may still run when a step has
 * been reported, and is counted with the next; nothing falls between two readings. */
static void count_traffic(fw_trainer *t) {
    fw_shard_counters now, *sum = &t->traffic;
    const fw_shard_counters *before = &t->read;
    fw_units_get_counters(&t->step.units, &now);
    sum->all_reduce_bytes += now.all_reduce_bytes - before->all_reduce_bytes;
    sum->reduce_scatter_bytes += now.reduce_scatter_bytes - before->reduce_scatter_bytes;
    sum->all_gather_bytes += now.all_gather_bytes - before->all_gather_bytes;
    sum->wait_ns += now.wait_ns - before->wait_ns;
    sum->busy_ns += now.busy_ns - before->busy_ns;
    t->read = now;
}

static fw_status report(fw_trainer *t, int64_t step, const fw_step_result *r, uint64_t ns) {
    double seconds = (double)ns * 1e-9;
    t->num_tokens += r->token_n;
    t->train_tokens += r->token_n;
    t->train_steps++;
    t->train_ns += ns;
    t->window.step_n++;
    t->window.token_n += r->token_n;
    t->window.ns += ns;
    t->window.loss += r->loss;
    t->step_loss = r->loss;
    char mirror[FW_MIRROR_TEXT_BYTES];
    fw_train_report told = {.step = step,
                            .step_n = t->step_n,
                            .epoch = epoch_of(t, step),
                            .loss = r->loss,
                            .learning_rate = fw_schedule_rate(&t->schedule, step),
                            .grad_norm = r->grad_norm,
                            .tokens_per_s = (double)r->token_n / seconds,
                            .step_s = seconds,
                            .mirror = fw_mirror_tell(t->state.mirror, mirror),
                            .logged = step % t->o->logging_steps == 0 || step == t->step_n};
    if (told.logged) {
        double window_s = (double)t->window.ns * 1e-9;
        told.mean_loss = t->window.loss / (double)t->window.step_n;
        told.mean_tokens_per_s = (double)t->window.token_n / window_s;
        t->last_logged_loss = told.mean_loss;
        fw_metrics_row row = {.step = step,
                              .epoch = told.epoch,
                              .loss = told.mean_loss,
                              .learning_rate = told.learning_rate,
                              .grad_norm = told.grad_norm,
                              .num_tokens = t->num_tokens,
                              .tokens_per_s = told.mean_tokens_per_s,
                              .step_ms = window_s * 1e3 / (double)t->window.step_n,
                              .peak_bytes = t->peak_bytes};
        FW_TRY(fw_metrics_write(&t->metrics, &row));
        memset(&t->window, 0, sizeof t->window);
    }
    if (t->hooks->step != NULL) t->hooks->step(t->hooks->context, &told);
    return FW_OK;
}

static bool is_due(fw_when when, int64_t every, int64_t step, const fw_course *course) {
    if (when == FW_WHEN_STEPS) return step % every == 0;
    return when == FW_WHEN_EPOCH && fw_course_ends_epoch(course, step);
}

/* Gradients are found, and nothing has changed: the last moment to know what the run goes on from. The wait is not of a step. */
static fw_status settle(fw_trainer *t, bool *elsewhere, uint64_t *start_ns) {
    const uint64_t began_ns = fw_host_now_ns();
    *elsewhere = false;
    if (t->settled) return FW_OK;
    FW_TRY(fw_trainer_settle(t, elsewhere));
    if (*elsewhere) fw_units_get_counters(&t->step.units, &t->read); /* of a step that is none */
    *start_ns += fw_host_now_ns() - began_ns;
    return FW_OK;
}

static fw_status loop(fw_trainer *t) {
    const fw_options *o = t->o;
    fw_units_get_counters(&t->step.units, &t->read);
    for (int64_t step = t->first_step + 1; step <= t->step_n; step++) {
        fw_step_work work;
        fw_step_result result;
        bool elsewhere;
        uint64_t start_ns = fw_host_now_ns();
        const fw_course_place place = fw_course_at(&t->course, step);
        fw_batcher_skip(t->batcher, place.skip_n);
        FW_TRY(fw_step_find_gradients(&t->step, step, place.epoch, place.step_in_epoch, &work));
        FW_TRY(settle(t, &elsewhere, &start_ns));
        if (elsewhere) {
            step = t->first_step;
            continue;
        }
        FW_TRY(fw_step_update(&t->step, &work, fw_schedule_rate(&t->schedule, step), &result));
        fw_deadline_note(&t->deadline.step_s, fw_host_now_ns() - start_ns);
        t->eval_loss = NAN;
        bool stop = false;
        FW_TRY(agree_after_step(t, &stop));

        const bool last = step == t->step_n;
        const bool must_evaluate = t->eval_batcher != NULL && is_due(o->eval_strategy, o->eval_steps, step, &t->course);
        const bool must_save =
            !t->hooks->keeps_nothing && (is_due(o->save_strategy, o->save_steps, step, &t->course) ||
                                         (last && o->save_strategy != FW_WHEN_NO) || (stop && !last));
        if (last || must_evaluate || must_save) FW_TRY(fw_shard_settle(t->job.shard));
        count_traffic(t);
        FW_TRY(report(t, step, &result, fw_host_now_ns() - start_ns));
        if (must_evaluate) FW_TRY(evaluate(t, step));
        if (must_save) FW_TRY(save(t, step));
        if (must_evaluate || must_save)
            fw_units_get_counters(&t->step.units, &t->read); /* what they sent is not a step's */
        if (stop && !last)
            return fw_fail(FW_ERR_INTERRUPTED, "stopped after step %lld of %lld", (long long)step,
                           (long long)t->step_n);
    }
    return FW_OK;
}

/* Ranks wait for each other, so the one that waits longest says what communication costs. */
static fw_status agree_on_waits(fw_trainer *t) {
    int64_t values[2] = {(int64_t)t->traffic.wait_ns, (int64_t)t->traffic.busy_ns};
    FW_TRY(fw_comm_max_i64(t->job.comm, values, 2));
    t->traffic.wait_ns = (uint64_t)values[0];
    t->traffic.busy_ns = (uint64_t)values[1];
    return FW_OK;
}

static fw_status load_best(fw_trainer *t) {
    int64_t step;
    double eval_loss = NAN;
    FW_TRY(fw_run_state_load_best(&t->state, &step, &eval_loss));
    if (fw_comm_rank(t->job.comm) == 0 && step > 0)
        fw_log_info("the final model is that of step %lld, eval_loss %.4f", (long long)step, eval_loss);
    return FW_OK;
}

static fw_status finish(fw_trainer *t, fw_status loop_status) {
    char *model_dir = NULL;
    FW_TRY(finish_save(t));
    FW_TRY(agree_on_waits(t));
    if (loop_status == FW_OK && !t->hooks->keeps_nothing) {
        uint64_t start_ns = fw_trace_now();
        if (t->o->load_best_model_at_end) FW_TRY(load_best(t));
        FW_TRY(fw_run_state_export(&t->state, &model_dir));
        fw_trace_since(FW_TRACE_HOST, "write the model", start_ns);
    }
    fw_status traced = fw_run_trace_end(t->job.comm, t->o->trace);
    if (t->peak_bytes == 0) t->peak_bytes = fw_job_peak_bytes(&t->job); /* no step was left to do */
    if (t->hooks->done != NULL) {
        double seconds = (double)t->train_ns * 1e-9;
        fw_train_result result = {.step = loop_status == FW_OK ? t->step_n : t->state.last_saved_step,
                                  .step_n = t->step_n,
                                  .tokens_per_s = seconds > 0 ? (double)t->train_tokens / seconds : 0,
                                  .train_s = seconds,
                                  .final_loss = t->last_logged_loss,
                                  .peak_bytes = t->peak_bytes,
                                  .planned_bytes = fw_job_planned_bytes(&t->job),
                                  .taken_bytes = fw_job_taken_bytes(&t->job),
                                  .traffic = t->traffic,
                                  .traffic_steps = t->train_steps,
                                  .model_dir = model_dir,
                                  .adapter = t->job.model.adapted,
                                  .trace = traced == FW_OK ? t->o->trace : NULL,
                                  .checkpoint = t->state.last_checkpoint};
        t->hooks->done(t->hooks->context, &result);
    }
    fw_free(model_dir);
    return loop_status != FW_OK ? loop_status : traced; /* an interrupt stays one */
}

/* The other ranks have left, or are about to: what is left to copy is rank 0's alone. A mirror that fails makes the run fail
 * where nothing else did, since otherwise nobody would look. */
static fw_status finish_mirror(fw_trainer *t, fw_status status, bool *reports) {
    if (t->state.mirror == NULL || (status != FW_OK && status != FW_ERR_INTERRUPTED)) return status;
    double wait_s;
    FW_TRY(fw_options_read_time(&wait_s, t->o->mirror_timeout, "mirror_timeout"));
    if (t->deadline.limit_s > 0) { /* in time, whatever has been copied */
        const double left_s = t->deadline.limit_s - (double)(fw_host_now_ns() - t->deadline.begin_ns) * 1e-9;
        wait_s = fmin(wait_s, fmax(left_s, 1));
    }
    fw_trail trail;
    fw_trail_copy(&trail);
    /* After an interrupt a second signal ends the process; where the run has ended by itself, the first is enough to leave. */
    fw_status mirrored =
        fw_mirror_finish(t->state.mirror, wait_s,
                         status == FW_ERR_INTERRUPTED && fw_interrupt_requested() ? NULL : fw_interrupt_requested);
    if (mirrored == FW_OK) return status;
    if (status == FW_OK) {
        if (reports != NULL) *reports = true;
        return mirrored;
    }
    fw_log_error("%s", fw_trail_message());
    fw_trail_restore(&trail);
    return status;
}

fw_status fw_train_run(const fw_options *options, const fw_train_hooks *hooks, bool *reports) {
    fw_trainer *t;
    FW_TRY(FW_NEW(t));
    t->resolved = *options;
    t->o = &t->resolved;
    t->hooks = hooks;
    t->state.lock.fd = -1;
    t->last_logged_loss = t->step_loss = t->eval_loss = NAN;
    t->deadline.begin_ns = fw_host_now_ns();
    fw_interrupt_install();

    fw_status status = fw_trainer_prepare(t);
    if (status == FW_OK) {
        status = loop(t);
        if (status == FW_OK || status == FW_ERR_INTERRUPTED) status = finish(t, status);
    } else if (status == FW_ERR_INTERRUPTED && fw_comm_rank(t->job.comm) == 0)
        fw_log_info("%s", fw_trail_message());
    if (status != FW_OK && status != FW_ERR_INTERRUPTED) fw_comm_abort(t->job.comm, status);
    if (t->tracing) fw_run_trace_abandon(t->job.comm, t->o->trace); /* a finished trace stays */
    if (reports != NULL) *reports = fw_comm_reports_failure(t->job.comm);

    fw_metrics_close(&t->metrics);
    fw_run_state_end(&t->state);
    fw_batcher_destroy(t->batcher);
    fw_batcher_destroy(t->eval_batcher);
    fw_dataset_destroy(t->dataset);
    fw_dataset_destroy(t->eval_dataset);
    fw_job_close(&t->job);
    status = finish_mirror(t, status, reports);
    fw_run_state_leave_folder(&t->state);
    fw_free(t);
    return status;
}
