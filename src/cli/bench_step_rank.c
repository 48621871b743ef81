/* One rank of one run of finewire bench step. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/bench_step.h"
#include "cli/terminal.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNCOUNTED_STEPS = 2 };

typedef struct run {
    const char *result_path;
    double *tokens_per_s, *step_s; /* of each step that counts */
    int64_t counted_n;
    double loss;
    int64_t planned_bytes;
    int rank, world;
    fw_status status; /* of writing the result */
} run;

static void on_place(void *context, int rank, int world) {
    run *r = context;
    r->rank = rank;
    r->world = world;
    fw_terminal_set_rank(rank, world);
}

static void on_start(void *context, const fw_train_summary *s) {
    run *r = context;
    r->planned_bytes = (int64_t)s->job->plan.memory.total_bytes;
}

static void on_step(void *context, const fw_train_report *report) {
    run *r = context;
    r->loss = report->loss;
    if (report->step <= UNCOUNTED_STEPS) return;
    r->step_s[r->counted_n] = report->step_s;
    r->tokens_per_s[r->counted_n++] = report->tokens_per_s;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static fw_status save(json_t *result, const char *path) {
    const fw_status status =
        result != NULL ? fw_json_save(result, path) : fw_fail(FW_ERR_NOMEM, "out of memory while writing a result");
    json_decref(result);
    return status;
}

static void on_done(void *context, const fw_train_result *result) {
    run *r = context;
    if (r->rank != 0 || r->counted_n == 0 || result->step < result->step_n) return;
    const fw_shard_counters *t = &result->traffic;
    const int64_t steps = result->traffic_steps > 0 ? result->traffic_steps : 1;
    const double step_s = median(r->step_s, r->counted_n), all_s = result->train_s;
    const double waited_part = all_s > 0 ? (double)t->wait_ns * 1e-9 / all_s : 0;
    r->status = save(
        json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "tokens_per_s", median(r->tokens_per_s, r->counted_n),
                  "step_s", step_s, "waited_s", waited_part * step_s, "sent_bytes",
                  (json_int_t)((t->all_reduce_bytes + t->reduce_scatter_bytes + t->all_gather_bytes) / (uint64_t)steps),
                  "planned_bytes", (json_int_t)r->planned_bytes, "peak_bytes", (json_int_t)result->peak_bytes, "loss",
                  isfinite(r->loss) ? r->loss : 0.0),
        r->result_path);
}

/* A copy of the options, changed; texts are borrowed. */
static fw_options few_steps(const fw_options *given, fw_strategy strategy, char *folder, char *dataset, char *never) {
    fw_options o = *given;
    o.strategy = strategy;
    o.output_dir = folder;
    if (o.dataset_name == NULL) o.dataset_name = dataset;
    o.eval_dataset = NULL;
    o.eval_strategy = FW_WHEN_NO;
    o.save_strategy = FW_WHEN_NO;
    o.resume_from_checkpoint = never;
    o.overwrite_output_dir = true;
    o.max_steps = o.bench_steps;
    o.logging_steps = 1;
    o.disable_tqdm = true;
    o.trace = NULL;
    return o;
}

static fw_status train(const fw_options *given, fw_strategy strategy, char *folder, char *result_path, char *dataset) {
    char never[] = "never";
    const fw_options o = few_steps(given, strategy, folder, dataset, never);
    run r = {.result_path = result_path};
    fw_train_hooks hooks = {
        .context = &r, .keeps_nothing = true, .place = on_place, .start = on_start, .step = on_step, .done = on_done};
    bool reports = false;
    FW_TRY(FW_NEW_ARRAY(r.tokens_per_s, 2 * (size_t)o.bench_steps));
    r.step_s = r.tokens_per_s + o.bench_steps;
    fw_status status = fw_train_run(&o, &hooks, &reports);
    fw_free(r.tokens_per_s);
    if (status == FW_OK) return r.status;
    const bool is_memory = status == FW_ERR_FIT || status == FW_ERR_NOMEM;
    if (is_memory && reports) { /* a result like another, not an error */
        fw_trail trail;
        fw_trail_copy(&trail);
        FW_TRY(save(json_pack("{s:s}", "does_not_fit", trail.message), result_path));
        fw_trail_restore(&trail);
    }
    if (is_memory || !reports) fw_terminal_error_was_shown();
    return status;
}

fw_status fw_bench_step_rank(const fw_options *options, const char *value) {
    const char *colon = strchr(value, ':');
    int strategy = -1;
    char name[32], *folder = NULL, *result = NULL, *dataset = NULL;
    fw_status status;
    if (colon != NULL && (size_t)(colon - value) < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)(colon - value), value);
        for (int i = 0; fw_strategy_words[i] != NULL; i++)
            if (strcmp(fw_strategy_words[i], name) == 0) strategy = i;
    }
    if (strategy < 0)
        return fw_fail(
            FW_ERR_OPTION,
            "environment: " FW_BENCH_STEP_VARIABLE "=%.60s is set, which is for finewire's own use; unset it", value);
    FW_TRY_OR(fw_path_join(&folder, colon + 1, name), done);
    FW_TRY_OR(fw_path_join(&result, folder, "result.json"), done);
    FW_TRY_OR(fw_path_join(&dataset, colon + 1, "data.jsonl"), done);
    FW_TRY_OR(train(options, (fw_strategy)strategy, folder, result, dataset), done);
done:
    fw_free(folder);
    fw_free(result);
    fw_free(dataset);
    return status;
}
