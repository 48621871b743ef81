/* finewire data stats, finewire data check: what becomes of every row. */
#include "base/json.h"
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/data_source.h"
#include "cli/terminal.h"
#include "data/data_report.h"
#include "train/interrupt.h"

#include <string.h>

enum { BAR_COLUMNS = 40 };

/* What is learnt, and what val_size holds out of it: NULL when nothing. */
typedef struct parts {
    fw_dataset *learnt, *held_out;
} parts;

static fw_status print_json(const parts *p, const fw_options *o, int problems) {
    json_t *report;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY(fw_dataset_report_json(&report, p->learnt, p->held_out, o->max_length, o->packing_strategy, problems));
    FW_TRY_OR(fw_json_dump(&text, report, JSON_INDENT(2)), done);
    FW_TRY_OR(fw_strbuf_putc(&text, '\n'), done);
    FW_TRY_OR(fw_terminal_write(text.data, text.len_bytes), done);
done:
    json_decref(report);
    fw_strbuf_fini(&text);
    return status;
}

static fw_status put_files(fw_strbuf *text, const fw_dataset *d) {
    d = fw_dataset_of_rows(d);
    for (int32_t i = 0; i < d->source_n; i++) {
        const fw_dataset_source *s = &d->source[i];
        FW_TRY(fw_strbuf_printf(text, "%-10s%s: %s, shape %s, %lld row%s, %lld used\n", i == 0 ? "files" : "", s->path,
                                fw_format_name(s->format), fw_shape_name(s->shape), (long long)s->row_n,
                                fw_plural(s->row_n), (long long)s->used_n));
    }
    return FW_OK;
}

/* Rows are those of the files; weights and what is held out come after. */
static fw_status put_parts(fw_strbuf *text, const parts *p, const fw_options *o) {
    const fw_dataset *held_out = p->held_out;
    const int64_t held_n = held_out != NULL ? held_out->sample_n : 0;
    if (held_out != NULL)
        FW_TRY(fw_strbuf_printf(
            text, "held out  %lld conversation%s, %lld tokens, %lld of them targets (val_size %g)\n", (long long)held_n,
            fw_plural(held_n), (long long)held_out->stats.token_n, (long long)held_out->stats.target_n, o->val_size));
    if (p->learnt->sample_n != fw_dataset_of_rows(p->learnt)->sample_n - held_n)
        FW_TRY(fw_strbuf_printf(text, "weights   make %lld conversation%s an epoch of these\n",
                                (long long)p->learnt->sample_n, fw_plural(p->learnt->sample_n)));
    return FW_OK;
}

static fw_status put_counts(fw_strbuf *text, const parts *p, const fw_options *o) {
    const fw_dataset *rows = fw_dataset_of_rows(p->learnt);
    const fw_dataset_stats *s = &rows->stats;
    FW_TRY(fw_strbuf_printf(text, "rows      %lld: %lld used, %lld left out\n", (long long)s->conversation_n,
                            (long long)rows->sample_n, (long long)fw_dataset_dropped_n(rows)));
    for (int i = 0; i < FW_DROP_REASON_N; i++)
        if (s->drop_n[i] > 0)
            FW_TRY(fw_strbuf_printf(text, "          %lld: %s\n", (long long)s->drop_n[i],
                                    fw_drop_reason_name((fw_drop_reason)i)));
    if (s->truncated_n > 0)
        FW_TRY(fw_strbuf_printf(text, "cut       %lld conversation%s to max_length %lld, %lld token%s in all\n",
                                (long long)s->truncated_n, fw_plural(s->truncated_n), (long long)o->max_length,
                                (long long)s->truncated_token_n, fw_plural(s->truncated_token_n)));
    for (int i = 0, first = 1; i < FW_CHAT_LEFT_N; i++) {
        char words[FW_CHAT_LEFT_OUT_BYTES];
        if (s->left_out_n[i] == 0) continue;
        FW_TRY(fw_strbuf_printf(text, "%-10s%s %s\n", first ? "template" : "",
                                fw_chat_left_out_verb((fw_chat_left_out)i),
                                fw_chat_left_out_words(words, (fw_chat_left_out)i, s->left_out_n[i])));
        first = 0;
    }
    if (s->mark_ignored_n > 0)
        FW_TRY(fw_strbuf_printf(text,
                                "marks     %lld to learn a message do nothing: no {%% generation %%} block holds it\n",
                                (long long)s->mark_ignored_n));
    if (s->spelt_n > 0)
        FW_TRY(fw_strbuf_printf(text,
                                "texts     %lld row%s the spelling of control tokens, which stays text; where a "
                                "template rendered them: --allow_special_in_content true\n",
                                (long long)s->spelt_n, s->spelt_n == 1 ? " has" : "s have"));
    return put_parts(text, p, o);
}

static fw_status put_lengths(fw_strbuf *text, const fw_dataset *d) {
    static const char bar[BAR_COLUMNS + 1] = "########################################";
    const fw_dataset_stats *s = &d->stats;
    const fw_sample *longest = fw_dataset_longest(d);
    fw_length_bin bin[FW_LENGTH_BINS_MAX];
    const int n = fw_dataset_lengths(bin, d);
    int64_t most = 1;
    if (longest == NULL) return FW_OK;
    FW_TRY(fw_strbuf_printf(text, "tokens    %lld, %lld of them targets (%.1f %%), %.1f a conversation\n",
                            (long long)s->token_n, (long long)s->target_n,
                            100.0 * (double)s->target_n / (double)s->token_n,
                            (double)s->token_n / (double)d->sample_n));
    if (d->run_n > 0)
        FW_TRY(fw_strbuf_printf(text, "weights   the targets weigh %.6g in all (loss_weight)\n",
                                fw_loss_weight_value(s->weight)));
    FW_TRY(fw_strbuf_printf(text, "longest   %d tokens: %s:%lld\n", longest->n,
                            longest->source >= 0 ? d->source[longest->source].path : d->name,
                            (long long)longest->line));
    for (int i = 0; i < n; i++)
        if (bin[i].n > most) most = bin[i].n;
    for (int i = 0; i < n; i++) {
        int columns = (int)((bin[i].n * BAR_COLUMNS + most - 1) / most);
        FW_TRY(fw_strbuf_printf(text, "%-10s%7lld to %7lld  %8lld %.*s\n", i == 0 ? "lengths" : "",
                                (long long)bin[i].from, (long long)bin[i].to, (long long)bin[i].n, columns, bar));
    }
    return FW_OK;
}

static fw_status put_packing(fw_strbuf *text, const fw_dataset *d, const fw_options *o) {
    fw_packing_report packing;
    if (d->sample_n == 0) return FW_OK;
    FW_TRY(fw_dataset_packing(&packing, d, o->max_length, o->packing_strategy));
    return fw_strbuf_printf(text, "packing   %s: %lld sequence%s of %lld tokens, %.1f %% full\n",
                            fw_packing_strategy_words[o->packing_strategy], (long long)packing.sequence_n,
                            fw_plural(packing.sequence_n), (long long)o->max_length, 100 * packing.efficiency);
}

static fw_status print_stats(const parts *p, const fw_options *o) {
    const fw_dataset *d = p->learnt;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(put_files(&text, d), done);
    FW_TRY_OR(put_counts(&text, p, o), done);
    FW_TRY_OR(put_lengths(&text, d), done);
    FW_TRY_OR(put_packing(&text, d, o), done);
    FW_TRY_OR(fw_terminal_write(text.data, text.len_bytes), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

/* A set that nothing can be learnt from is an error, but its figures are shown first. */
static fw_status run_stats(const parts *p, const fw_options *o) {
    FW_TRY(o->json ? print_json(p, o, 0) : print_stats(p, o));
    return fw_dataset_check_targets(p->learnt);
}

static fw_status print_problems(const fw_dataset *d) {
    const fw_dataset *rows = fw_dataset_of_rows(d);
    for (int64_t i = 0; i < rows->dropped_n; i++)
        FW_TRY(fw_terminal_printf("%s [%s]\n", rows->dropped[i].message, fw_drop_reason_key(rows->dropped[i].reason)));
    int64_t unlisted = fw_dataset_dropped_n(d) - rows->dropped_n;
    if (unlisted > 0) FW_TRY(fw_terminal_printf("and %lld more\n", (long long)unlisted));
    return FW_OK;
}

static fw_status run_check(const parts *p, const fw_options *o) {
    const fw_dataset *d = fw_dataset_of_rows(p->learnt);
    const int64_t dropped_n = fw_dataset_dropped_n(d);
    fw_strbuf text = {0};
    if (o->json) {
        FW_TRY(print_json(p, o, 1));
    } else {
        FW_TRY(print_problems(d));
        fw_status status = put_files(&text, d);
        if (status == FW_OK) status = put_counts(&text, p, o);
        if (status == FW_OK) status = fw_terminal_write(text.data, text.len_bytes);
        fw_strbuf_fini(&text);
        FW_TRY(status);
    }
    FW_TRY(fw_dataset_check_targets(p->learnt));
    if (dropped_n == 0 || o->allow_dropped) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%lld of %lld row%s would be left out; mend them, or allow it with --allow_dropped",
                   (long long)dropped_n, (long long)d->stats.conversation_n, fw_plural(d->stats.conversation_n));
}

static fw_status with_dataset(const fw_options *o, fw_status (*run)(const parts *p, const fw_options *o)) {
    fw_data_source s;
    parts p = {0};
    fw_status status;
    fw_interrupt_install(); /* what is half in the cache is removed */
    FW_TRY_OR(fw_cli_data_open(&s, o), done);
    s.prepare.stop = fw_interrupt_requested;
    FW_TRY_OR(fw_data_prepare(&p.learnt, &p.held_out, &s.prepare), done);
    FW_TRY_OR(run(&p, o), done);
done:
    fw_dataset_destroy(p.held_out);
    fw_dataset_destroy(p.learnt);
    fw_cli_data_close(&s);
    return status;
}

fw_status fw_cli_data_stats(const fw_options *options) { return with_dataset(options, run_stats); }
fw_status fw_cli_data_check(const fw_options *options) { return with_dataset(options, run_check); }
