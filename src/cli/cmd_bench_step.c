/* finewire bench step: a few steps of a recipe under each strategy, side by side. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/bench_step.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "cli/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One strategy: its ranks, from the first to the last. */
static fw_status try_strategy(fw_bench_step_row *row, const fw_options *o, const char *folder) {
    const char *name = fw_strategy_words[row->strategy];
    char *own = NULL, value[4200];
    int exit_code = 0;
    fw_status status;
    snprintf(value, sizeof value, "%s:%s", name, folder);
    if (setenv(FW_BENCH_STEP_VARIABLE, value, 1) != 0) return fw_fail(FW_ERR_NOMEM, "out of memory");
    FW_TRY_OR(fw_path_join(&own, folder, name), done);
    FW_TRY_OR(fw_dir_make(own), done);
    FW_TRY_OR(fw_cli_launch_ranks((int)o->num_processes, true, &exit_code), done);
    status = fw_cli_status_of_exit_code(exit_code);
    if (status == FW_OK || status == FW_ERR_FIT) {
        FW_TRY_OR(fw_bench_step_read(row, own), done);
    } else {
        fw_terminal_error_was_shown();
        FW_TRY_OR(fw_fail(status, "a rank under %s ended with exit code %d", name, exit_code), done);
    }
done:
    if (own != NULL && fw_dir_remove(own) != FW_OK && status == FW_OK) status = FW_ERR_IO;
    fw_free(own);
    return status;
}

/* ---- what is shown ---- */

static fw_status show_row(const fw_bench_step_row *r, const fw_bench_step_row *first) {
    char sent[FW_HUMAN_BYTES], planned[FW_HUMAN_BYTES], peak[FW_HUMAN_BYTES], against[16] = "-";
    if (!r->fits) return fw_terminal_printf("  %-10s  does not fit: %s\n", fw_strategy_words[r->strategy], r->message);
    if (first->fits) snprintf(against, sizeof against, "%.2f x", r->tokens_per_s / first->tokens_per_s);
    return fw_terminal_printf(
        "  %-10s  %9.1f  %8s  %9.1f  %8.1f  %10s  %10s  %10s  %8.4f\n", fw_strategy_words[r->strategy], r->tokens_per_s,
        against, r->step_s * 1e3, 100 * r->waited_s / r->step_s, fw_human_size(sent, (uint64_t)r->sent_bytes),
        fw_human_size(planned, (uint64_t)r->planned_bytes), fw_human_size(peak, (uint64_t)r->peak_bytes), r->loss);
}

static fw_status show_table(const fw_options *o, const fw_bench_step_row *rows, int n, int best, const char *reason) {
    FW_TRY(fw_terminal_printf(
        "# bench step: %s, %lld rank%s, batch %lld x %lld x %lld, %lld steps of each, the first two not counted\n#\n"
        "# %-10s  %9s  %8s  %9s  %8s  %10s  %10s  %10s  %8s\n# %-10s  %9s  %8s  %9s  %8s  %10s  %10s  %10s  %8s\n",
        o->model_name_or_path, (long long)o->num_processes, o->num_processes == 1 ? "" : "s",
        (long long)o->per_device_train_batch_size, (long long)o->gradient_accumulation_steps, (long long)o->max_length,
        (long long)o->bench_steps, "strategy", "tokens/s", "against", "step", "waited", "sent", "planned", "peak",
        "loss", "", "", fw_strategy_words[rows[0].strategy], "(ms)", "(%)", "a rank", "a rank", "a rank", ""));
    for (int i = 0; i < n; i++) FW_TRY(show_row(&rows[i], &rows[0]));
    FW_TRY(fw_terminal_printf("# tokens/s and step: median of the steps that count; waited, for collectives: part of "
                              "all steps, of the slowest rank\n"));
    if (best < 0) return FW_OK;
    return fw_terminal_printf("recommendation = %s: %s\n", fw_strategy_words[rows[best].strategy], reason);
}

/* NULL when memory ran out. */
static json_t *row_to_json(const fw_bench_step_row *r) {
    if (!r->fits) return json_pack("{s:b, s:s}", "fits", 0, "message", r->message);
    return json_pack("{s:b, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "fits", 1, "tokens_per_s", r->tokens_per_s, "step_ms",
                     r->step_s * 1e3, "waited_ms", r->waited_s * 1e3, "sent_bytes", (json_int_t)r->sent_bytes,
                     "planned_bytes", (json_int_t)r->planned_bytes, "peak_bytes", (json_int_t)r->peak_bytes, "loss",
                     r->loss);
}

static fw_status show_json(const fw_options *o, const fw_bench_step_row *rows, int n, int best, const char *reason) {
    fw_strbuf text = {0};
    json_t *all = json_pack("{s:s, s:I, s:I}", "model", o->model_name_or_path, "world", (json_int_t)o->num_processes,
                            "steps", (json_int_t)o->bench_steps);
    json_t *strategies = json_object();
    bool good = json_object_set_new(all, "strategies", strategies) == 0;
    for (int i = 0; i < n && good; i++)
        good = json_object_set_new(strategies, fw_strategy_words[rows[i].strategy], row_to_json(&rows[i])) == 0;
    good = good && json_object_set_new(all, "recommendation",
                                       json_pack("{s:s?, s:s}", "strategy",
                                                 best >= 0 ? fw_strategy_words[rows[best].strategy] : NULL, "reason",
                                                 reason)) == 0;
    fw_status status =
        good ? fw_json_dump(&text, all, JSON_INDENT(2)) : fw_fail(FW_ERR_NOMEM, "out of memory while writing results");
    if (status == FW_OK) status = fw_terminal_printf("%s\n", fw_strbuf_text(&text));
    json_decref(all);
    fw_strbuf_fini(&text);
    return status;
}

/* All strategies compute the same; sums of halves and of groups round apart. */
static void warn_of_losses(const fw_bench_step_row *rows, int n) {
    for (int i = 1; i < n; i++)
        if (rows[0].fits && rows[i].fits && fabs(rows[i].loss - rows[0].loss) > 1e-3 * fabs(rows[0].loss))
            fw_log_warning("the last loss is %.6f under %s and %.6f under %s; they should be the same", rows[i].loss,
                           fw_strategy_words[rows[i].strategy], rows[0].loss, fw_strategy_words[rows[0].strategy]);
}

/* ---- */

static fw_status compare(const fw_options *o, const char *folder) {
    fw_strategy strategy[FW_BENCH_STRATEGY_N];
    fw_bench_step_row row[FW_BENCH_STRATEGY_N] = {0};
    char reason[FW_BENCH_MESSAGE_BYTES], *dataset;
    int n;
    FW_TRY(fw_bench_step_strategies(strategy, &n, o));
    if (o->dataset_name == NULL) {
        FW_TRY(fw_path_join(&dataset, folder, "data.jsonl"));
        fw_status made = fw_bench_step_make_dataset(o, dataset);
        fw_free(dataset);
        FW_TRY(made);
    }
    for (int i = 0; i < n; i++) {
        row[i].strategy = strategy[i];
        fw_log_info("trying %s, %d of %d", fw_strategy_words[strategy[i]], i + 1, n);
        FW_TRY(try_strategy(&row[i], o, folder));
    }
    warn_of_losses(row, n);
    const int best = fw_bench_step_choose(row, n, reason, sizeof reason);
    FW_TRY(o->json ? show_json(o, row, n, best, reason) : show_table(o, row, n, best, reason));
    return best >= 0 ? FW_OK
                     : fw_fail(FW_ERR_FIT, "no strategy fits; %s: %s", fw_strategy_words[row[n - 1].strategy],
                               row[n - 1].message);
}

fw_status fw_cli_bench_step(const fw_options *o) {
    const char *run = getenv(FW_BENCH_STEP_VARIABLE);
    if (run != NULL && getenv("RANK") != NULL) return fw_bench_step_rank(o, run);
    const char *mpi_rank = getenv("OMPI_COMM_WORLD_RANK");
    if (getenv("RANK") != NULL || getenv("WORLD_SIZE") != NULL || mpi_rank != NULL) {
        if (mpi_rank != NULL && strcmp(mpi_rank, "0") != 0) fw_terminal_error_was_shown(); /* one of them says so */
        return fw_fail(FW_ERR_OPTION, "finewire bench step starts its own ranks, one strategy after the other: run it "
                                      "without another launcher, with --num_processes");
    }
    const char *temporary = getenv("TMPDIR");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/finewire-bench-XXXXXX",
             temporary != NULL && temporary[0] != 0 ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL)
        return fw_fail(FW_ERR_IO, "could not make a folder for the runs, %s: %s", folder, strerror(errno));
    fw_status status = compare(o, folder);
    fw_trail trail;
    fw_trail_copy(&trail);
    const fw_status removed = fw_dir_remove(folder);
    if (status == FW_OK) return removed;
    fw_trail_restore(&trail);
    return status;
}
