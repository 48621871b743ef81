/* The plan for people: what is asked, one table of memory and time, what to do and why, and the questions the other way
 * round. */
#include "base/plural.h"
#include "cli/help_text.h"
#include "cli/plan_output.h"
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 24, CELL_COLUMNS = 10, LEFT_COLUMNS = 13, TEXT_COLUMNS = 100 };
static const double gib = 1073741824.0, mib = 1048576.0;

static const char *method_words(fw_method method) {
    static const char *const words[] = {[FW_METHOD_AUTO] = "auto",
                                        [FW_METHOD_FULL] = "all weights trained",
                                        [FW_METHOD_LORA] = "LoRA",
                                        [FW_METHOD_QLORA] = "QLoRA"};
    return words[method];
}

static fw_status paragraph(fw_strbuf *out, const char *label, const char *text) {
    FW_TRY(fw_strbuf_printf(out, "%-*s", LEFT_COLUMNS, label));
    return fw_help_wrap(out, text, LEFT_COLUMNS, TEXT_COLUMNS);
}

static fw_status say(fw_strbuf *out, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
static fw_status say(fw_strbuf *out, const char *label, const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return paragraph(out, label, text);
}

/* ---- what is asked */

static fw_status write_model(fw_strbuf *out, const fw_plan_report *r) {
    const fw_model *m = &r->model;
    const fw_model_config *g = &m->config;
    char count[FW_HUMAN_BYTES], twice[FW_HUMAN_BYTES];
    char tied[160] = "";
    if (g->tied) /* a checkpoint may hold the shared matrix under both names */
        snprintf(tied, sizeof tied,
                 "; embedding and head are one matrix, counted once (a file that stores both holds %s)",
                 fw_human_count(twice, (double)(m->table.parameter_n + g->V * g->C)));
    return say(out, "model", "%s: %s, %s parameters (%lld)%s", r->name, fw_architecture_class(g->architecture),
               fw_human_count(count, (double)m->table.parameter_n), (long long)m->table.parameter_n, tied);
}

static fw_status write_site(fw_strbuf *out, const fw_plan_report *r) {
    const fw_plan_site *s = &r->asked.site;
    char size[FW_HUMAN_BYTES];
    if (s->card == NULL) {
        FW_TRY(say(out, "machine", "this one's CPUs: %d rank%s of %d thread%s, %s free", s->world, fw_plural(s->world),
                   s->thread_n, fw_plural(s->thread_n), fw_human_size(size, s->memory_bytes)));
    } else {
        FW_TRY(say(out, "machine", "%d x %s, %s each%s%s%s%s", s->world, s->card->title,
                   fw_human_size(size, s->memory_bytes), s->world > 1 ? "; " : "", s->world > 1 ? s->inside.name : "",
                   s->world > s->node_n ? "; " : "", s->world > s->node_n ? s->between.name : ""));
    }
    FW_TRY(say(out, "computing", "%s", s->compute_source));
    return s->world > 1 ? say(out, "links", "%s: %.1f GB/s in one direction, %.1f reached", s->link_source,
                              s->inside.headline_rate * 1e-9, s->inside.real_rate * 1e-9)
                        : FW_OK;
}

/* "blocks are recomputed in backward" */
static const char *kept_words(const fw_plan_scenario *s, char out[64]) {
    static const char *const words[] = {[FW_RECOMPUTE_OFF] = "kept for backward",
                                        [FW_RECOMPUTE_ON] = "recomputed in backward",
                                        [FW_RECOMPUTE_SELECTIVE] = "kept but for norms and activations"};
    snprintf(out, 64, "%s", words[s->recompute]);
    const size_t used = strlen(out);
    if (s->recompute != FW_RECOMPUTE_OFF && s->recompute_every > 1)
        snprintf(out + used, 64 - used, ", every %lld", (long long)s->recompute_every);
    return out;
}

static fw_status write_run(fw_strbuf *out, const fw_plan_scenario *s) {
    char kept[64];
    const long long batch = s->batch * s->micro_n * s->site.world;
    return say(out, "run",
               "%s, %s; batch %lld x %lld x %d = %lld sequence%s of %lld tokens a step (a device's, micro-batches, "
               "devices); blocks %s",
               method_words(s->method == FW_METHOD_AUTO ? FW_METHOD_FULL : s->method), fw_optim_words[s->optim],
               (long long)s->batch, (long long)s->micro_n, s->site.world, batch, fw_plural(batch), (long long)s->length,
               kept_words(s, kept));
}

/* ---- the table */

typedef enum line {
    LINE_TOTAL = FW_PLAN_PART_N,
    LINE_LEFT,
    LINE_SENT,
    LINE_HEADLINE,
    LINE_WIRE,
    LINE_COMPUTE,
    LINE_WAITED,
    LINE_STEP,
    LINE_TOKENS,
    LINE_N
} line;

static const char *line_name(int l, bool in_gib, char out[64]) {
    const char *unit = in_gib ? "GiB" : "MiB";
    static const char *const names[] = {
        [LINE_HEADLINE] = "wire, data sheet, ms", [LINE_WIRE] = "wire, reached, ms", [LINE_COMPUTE] = "computing, ms",
        [LINE_WAITED] = "waited for, ms",         [LINE_STEP] = "step, ms",          [LINE_TOKENS] = "tokens/s, all"};
    if (l < FW_PLAN_PART_N)
        snprintf(out, 64, "  %s", fw_plan_part_name((fw_plan_part)l));
    else if (l == LINE_TOTAL)
        snprintf(out, 64, "total, %s", unit);
    else if (l == LINE_LEFT)
        snprintf(out, 64, "left (-: does not fit)");
    else if (l == LINE_SENT)
        snprintf(out, 64, "sent a step, %s", unit);
    else
        snprintf(out, 64, "%s", names[l]);
    return out;
}

static fw_status write_cell(fw_strbuf *out, const fw_plan_case *c, int l, double unit) {
    if (!c->possible) return fw_strbuf_printf(out, "%*s", CELL_COLUMNS, "-");
    const double left = (double)c->limit_bytes - (double)c->total_bytes;
    switch (l) {
    case LINE_TOTAL: return fw_strbuf_printf(out, "%*.2f", CELL_COLUMNS, (double)c->total_bytes / unit);
    case LINE_LEFT: return fw_strbuf_printf(out, "%*.2f", CELL_COLUMNS, left / unit);
    case LINE_SENT: return fw_strbuf_printf(out, "%*.2f", CELL_COLUMNS, (double)c->wire.bytes / unit);
    case LINE_HEADLINE: return fw_strbuf_printf(out, "%*.1f", CELL_COLUMNS, c->times.wire_headline_ms);
    case LINE_WIRE: return fw_strbuf_printf(out, "%*.1f", CELL_COLUMNS, c->times.wire_ms);
    case LINE_COMPUTE: return fw_strbuf_printf(out, "%*.1f", CELL_COLUMNS, c->times.compute_ms);
    case LINE_WAITED: return fw_strbuf_printf(out, "%*.1f", CELL_COLUMNS, c->times.exposed_ms);
    case LINE_STEP: return fw_strbuf_printf(out, "%*.1f", CELL_COLUMNS, c->times.step_ms);
    case LINE_TOKENS: return fw_strbuf_printf(out, "%*.0f", CELL_COLUMNS, c->times.tokens_per_s);
    default: return fw_strbuf_printf(out, "%*.2f", CELL_COLUMNS, (double)c->part[l] / unit);
    }
}

/* On one device all strategies are one. */
static fw_status write_table(fw_strbuf *out, const fw_plan_table *t, int column_n, bool short_form) {
    uint64_t most = 0;
    bool any_held = false;
    for (int i = 0; i < column_n; i++) {
        const fw_plan_case *c = &t->row[i];
        if (c->total_bytes > most) most = c->total_bytes;
        any_held = any_held || c->held;
    }
    const bool in_gib = most >= (uint64_t)1 << 30;
    const double unit = in_gib ? gib : mib;
    char name[64];
    FW_TRY(fw_strbuf_printf(out, "\n%s, memory of a device in %s\n", method_words(t->method), in_gib ? "GiB" : "MiB"));
    FW_TRY(fw_strbuf_printf(out, "%-*s", LABEL_COLUMNS, ""));
    for (int i = 0; i < column_n; i++)
        FW_TRY(fw_strbuf_printf(out, "%*s", CELL_COLUMNS,
                                column_n == 1 ? "one" : fw_shard_strategy_name(t->row[i].strategy)));
    FW_TRY(fw_strbuf_putc(out, '\n'));
    for (int l = 0; l < LINE_N; l++) {
        if (column_n == 1 && l >= LINE_SENT && l <= LINE_WAITED && l != LINE_COMPUTE) continue;
        if (short_form && l != LINE_TOTAL && l != LINE_LEFT && l != LINE_SENT && l != LINE_STEP) continue;
        FW_TRY(fw_strbuf_printf(out, "%-*s", LABEL_COLUMNS, line_name(l, in_gib, name)));
        for (int i = 0; i < column_n; i++) FW_TRY(write_cell(out, &t->row[i], l, unit));
        FW_TRY(fw_strbuf_putc(out, '\n'));
    }
    if (!any_held || short_form) return FW_OK;
    FW_TRY(fw_strbuf_printf(out, "%-*s", LABEL_COLUMNS, "gradients summed"));
    for (int i = 0; i < column_n; i++)
        FW_TRY(fw_strbuf_printf(out, "%*s", CELL_COLUMNS,
                                !t->row[i].possible ? "-"
                                : t->row[i].held    ? "once"
                                                    : "each time"));
    return fw_strbuf_putc(out, '\n');
}

/* ---- what to do */

static const char *method_option(fw_method method) { return fw_method_words[method]; }

static fw_status write_advice(fw_strbuf *out, const fw_plan_report *r) {
    const fw_plan_advice *a = &r->advice;
    const fw_plan_scenario *s = &a->scenario;
    char every[64] = "";
    if (s->recompute != FW_RECOMPUTE_OFF && s->recompute_every > 1)
        snprintf(every, sizeof every, ", gradient_checkpointing_every %lld", (long long)s->recompute_every);
    if (a->fits)
        FW_TRY(say(out, "recommended", "%s, strategy %s, gradient_accumulation_steps %lld, gradient_checkpointing %s%s",
                   method_option(a->method), fw_shard_strategy_name(a->strategy), (long long)s->micro_n,
                   fw_recompute_words[s->recompute], every));
    else
        FW_TRY(say(out, "recommended", "nothing fits here"));
    FW_TRY(paragraph(out, "because", a->reason));
    FW_TRY(say(out, "tensor", "%s: %s", r->tensor.ruled_in ? "in" : "out", r->tensor.reason));
    return say(out, "pipeline", "%s: %s", r->pipeline.ruled_in ? "in" : "out", r->pipeline.reason);
}

/* What each way to recompute takes, all else as recommended. */
static fw_status write_recompute(fw_strbuf *out, const fw_plan_report *r) {
    FW_TRY(fw_strbuf_printf(out, "\n%-40s %14s %10s %16s %14s %10s\n", "gradient_checkpointing", "activations", "total",
                            "operations more", "memory moved", "step, ms"));
    for (int i = 0; i < r->recompute_n; i++) {
        const fw_plan_recompute *way = &r->recompute[i];
        const fw_plan_case *c = &way->one;
        char name[64], kept[FW_PLAN_SIZE_BYTES], total[FW_PLAN_SIZE_BYTES], moved[FW_PLAN_SIZE_BYTES], more[32];
        snprintf(name, sizeof name, "  %s", fw_recompute_words[way->recompute]);
        const size_t used = strlen(name);
        if (way->every > 1) snprintf(name + used, sizeof name - used, ", every %lld", (long long)way->every);
        snprintf(more, sizeof more, "%.3g T (%.0f %%)", c->again_n * 1e-12,
                 100 * c->again_n / (c->work_n - c->again_n));
        FW_TRY(fw_strbuf_printf(out, "%-40s %14s %10s %16s %14s %10.1f%s\n", name,
                                fw_plan_size(kept, c->part[FW_PLAN_ACTIVATIONS]), fw_plan_size(total, c->total_bytes),
                                more, fw_plan_size(moved, (uint64_t)c->again_bytes), c->times.step_ms,
                                c->fits ? "" : "  does not fit"));
    }
    return FW_OK;
}

static fw_status write_fewest(fw_strbuf *out, fw_method method, const int *fewest) {
    char text[256] = "";
    int used = 0;
    for (int i = 0; i < FW_PLAN_STRATEGY_N && used < (int)sizeof text - 40; i++) {
        const char *between = i > 0 ? ", " : "";
        const char *name = fw_shard_strategy_name(fw_plan_strategies[i]);
        used += fewest[i] > 0 ? snprintf(text + used, sizeof text - (size_t)used, "%s%s %d", between, name, fewest[i])
                              : snprintf(text + used, sizeof text - (size_t)used, "%s%s none", between, name);
    }
    return say(out, "devices", "fewest that do for %s, blocks recomputed: %s", method_words(method), text);
}

static fw_status write_answers(fw_strbuf *out, const fw_plan_report *r) {
    FW_TRY(write_fewest(out, r->table.method, r->fewest_devices));
    for (int k = 0; k < r->other_n; k++) FW_TRY(write_fewest(out, r->other[k].method, r->fewest_other[k]));
    if (!r->advice.fits) return FW_OK;
    return say(out, "room",
               "as recommended, the longest sequence at this batch is %lld tokens%s, the largest batch at this "
               "length %lld",
               (long long)r->longest_length,
               r->longest_length == r->model.config.max_position ? " (the most the model was made for)" : "",
               (long long)r->largest_batch);
}

/* What a run writes: training state in fp32, and the model as it is published. */
static fw_status write_disk(fw_strbuf *out, const fw_plan_report *r) {
    char state[FW_HUMAN_BYTES], model[FW_HUMAN_BYTES], copy[FW_HUMAN_BYTES];
    FW_TRY(
        say(out, "disk",
            "a checkpoint takes %s (weights in fp32 and the optimizer's state, %.3g bytes for each that is trained), "
            "the final model %s",
            fw_human_size(state, r->checkpoint_bytes), (double)r->checkpoint_bytes / (double)r->advice.best.trained_n,
            fw_human_size(model, r->final_bytes)));
    return say(
        out, "saving",
        "takes 2 to 3 MB of memory a rank; --save_async takes a copy of its part too, %s a rank in memory of the "
        "host, beside the figures above",
        fw_human_size(copy, r->copy_bytes));
}

static fw_status write_changes(fw_strbuf *out, const fw_plan_report *r) {
    if (r->change_n == 0) return FW_OK;
    FW_TRY(fw_strbuf_printf(out, "\n%-40s %-7s %-7s %10s %12s %10s %10s\n", "what if", "method", "strategy",
                            "total, GiB", "sent, GiB", "step, ms", "tokens/s"));
    for (int i = -1; i < r->change_n; i++) {
        const fw_plan_advice *a = i < 0 ? &r->unchanged : &r->change[i].advice;
        const fw_plan_case *c = &a->best;
        FW_TRY(fw_strbuf_printf(
            out, "%-40.40s %-7s %-7s %10.2f %12.3f %10.1f %10.0f%s\n", i < 0 ? "as asked" : r->change[i].text,
            method_option(a->method), fw_shard_strategy_name(a->strategy), (double)c->total_bytes / gib,
            (double)c->wire.bytes / gib, c->times.step_ms, c->times.tokens_per_s, a->fits ? "" : "  does not fit"));
    }
    return FW_OK;
}

fw_status fw_plan_write_text(fw_strbuf *out, const fw_plan_report *r) {
    FW_TRY(write_model(out, r));
    FW_TRY(write_site(out, r));
    FW_TRY(write_run(out, &r->asked));
    const int column_n = r->asked.site.world > 1 ? FW_PLAN_STRATEGY_N : 1;
    FW_TRY(write_table(out, &r->table, column_n, false));
    for (int i = 0; i < r->other_n; i++) FW_TRY(write_table(out, &r->other[i], column_n, true));
    FW_TRY(fw_strbuf_putc(out, '\n'));
    FW_TRY(write_advice(out, r));
    FW_TRY(write_answers(out, r));
    FW_TRY(write_disk(out, r));
    FW_TRY(write_recompute(out, r));
    return write_changes(out, r);
}
