#include "data/data_report.h"

#include "base/alloc.h"
#include "base/json.h"
#include "data/packing.h"
#include "text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int fw_dataset_lengths(fw_length_bin bin[FW_LENGTH_BINS_MAX], const fw_dataset *d) {
    int64_t count[FW_LENGTH_BINS_MAX] = {0};
    int first = FW_LENGTH_BINS_MAX, last = -1, n = 0;
    for (int64_t s = 0; s < d->sample_n; s++) {
        int k = 31 - __builtin_clz((unsigned)d->sample[s].n);
        count[k]++;
        if (k < first) first = k;
        if (k > last) last = k;
    }
    for (int k = first; k <= last; k++)
        bin[n++] = (fw_length_bin){(int64_t)1 << k, ((int64_t)1 << (k + 1)) - 1, count[k]};
    return n;
}

const fw_sample *fw_dataset_longest(const fw_dataset *d) {
    const fw_sample *longest = NULL;
    for (int64_t s = 0; s < d->sample_n; s++)
        if (longest == NULL || d->sample[s].n > longest->n) longest = &d->sample[s];
    return longest;
}

fw_status fw_dataset_packing(fw_packing_report *out, const fw_dataset *d, int64_t max_length,
                             fw_packing_strategy strategy) {
    *out = (fw_packing_report){0};
    if (d->sample_n == 0) return FW_OK;
    int64_t *bin;
    FW_TRY(FW_NEW_ARRAY(bin, (size_t)d->sample_n));
    fw_status status = fw_packing_assign(bin, &out->sequence_n, d, max_length, strategy);
    fw_free(bin);
    if (status == FW_OK) out->efficiency = (double)d->stats.token_n / ((double)out->sequence_n * (double)max_length);
    return status;
}

const fw_dataset *fw_dataset_of_rows(const fw_dataset *d) {
    while (d->base != NULL) d = d->base;
    return d;
}

/* ---- JSON ---- */

static fw_status made(json_t *value) {
    return value != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while reporting on a data set");
}

static fw_status set(json_t *object, const char *key, json_t *value) {
    FW_TRY(made(value));
    return json_object_set_new(object, key, value) == 0 ? FW_OK : made(NULL);
}

static fw_status append(json_t *array, json_t *value) {
    FW_TRY(made(value));
    return json_array_append_new(array, value) == 0 ? FW_OK : made(NULL);
}

/* Names of files and what is quoted from them may be no UTF-8: such bytes become question marks. */
static json_t *clean_string(const char *text) {
    char *copy;
    size_t n = strlen(text), at;
    if (fw_strndup(&copy, text, n) != FW_OK) return NULL;
    while ((at = fw_utf8_find_invalid(copy, n)) < n) copy[at] = '?';
    json_t *string = json_stringn_nocheck(copy, n);
    fw_free(copy);
    return string;
}

static fw_status add_files(json_t *report, const fw_dataset *d) {
    d = fw_dataset_of_rows(d);
    json_t *files = json_array();
    FW_TRY(set(report, "files", files));
    for (int32_t i = 0; i < d->source_n; i++) {
        const fw_dataset_source *s = &d->source[i];
        FW_TRY(append(files, json_pack("{s:o, s:s, s:s, s:I, s:I}", "file", clean_string(s->path), "format",
                                       fw_format_name(s->format), "shape", fw_shape_name(s->shape), "rows",
                                       (json_int_t)s->row_n, "used", (json_int_t)s->used_n)));
    }
    return FW_OK;
}

static fw_status add_dropped(json_t *report, const fw_dataset *d) {
    json_t *dropped = json_object();
    FW_TRY(set(report, "dropped", dropped));
    for (int i = 0; i < FW_DROP_REASON_N; i++)
        if (d->stats.drop_n[i] > 0)
            FW_TRY(set(dropped, fw_drop_reason_key((fw_drop_reason)i), json_integer(d->stats.drop_n[i])));
    return FW_OK;
}

static json_t *problem(const fw_dataset *d, int64_t i) {
    const fw_dropped *p = &d->dropped[i];
    return json_pack("{s:o, s:I, s:s, s:o}", "file", clean_string(p->source >= 0 ? d->source[p->source].path : d->name),
                     "line", (json_int_t)p->line, "reason", fw_drop_reason_key(p->reason), "message",
                     clean_string(p->message));
}

static fw_status add_problems(json_t *report, const fw_dataset *d) {
    json_t *problems = json_array();
    FW_TRY(set(report, "problems", problems));
    d = fw_dataset_of_rows(d);
    for (int64_t i = 0; i < d->dropped_n; i++) FW_TRY(append(problems, problem(d, i)));
    return FW_OK;
}

static fw_status add_lengths(json_t *report, const fw_dataset *d) {
    fw_length_bin bin[FW_LENGTH_BINS_MAX];
    const int n = fw_dataset_lengths(bin, d);
    const fw_sample *longest = fw_dataset_longest(d);
    json_t *lengths = json_array();
    FW_TRY(set(report, "lengths", lengths));
    for (int i = 0; i < n; i++)
        FW_TRY(append(lengths, json_pack("{s:I, s:I, s:I}", "from", (json_int_t)bin[i].from, "to",
                                         (json_int_t)bin[i].to, "rows", (json_int_t)bin[i].n)));
    if (longest == NULL) return FW_OK;
    return set(report, "longest",
               json_pack("{s:I, s:o, s:I}", "tokens", (json_int_t)longest->n, "file",
                         clean_string(longest->source >= 0 ? d->source[longest->source].path : d->name), "line",
                         (json_int_t)longest->line));
}

static fw_status fill(json_t *report, const fw_dataset *d, const fw_dataset *held_out, int64_t max_length,
                      fw_packing_strategy strategy, int problems) {
    const fw_dataset_stats *stats = &d->stats;
    const fw_dataset *rows = fw_dataset_of_rows(d);
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"rows", rows->stats.conversation_n},
                  {"used", rows->sample_n},
                  {"left_out", fw_dataset_dropped_n(rows)},
                  {"held_out", held_out != NULL ? held_out->sample_n : 0},
                  {"conversations_an_epoch", d->sample_n},
                  {"tokens", stats->token_n},
                  {"targets", stats->target_n},
                  {"truncated", stats->truncated_n},
                  {"truncated_tokens", stats->truncated_token_n},
                  {"texts_with_control_tokens_as_text", stats->spelt_n}};
    fw_packing_report packing;
    char hash[32];
    FW_TRY(add_files(report, d));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        FW_TRY(set(report, counts[i].key, json_integer(counts[i].value)));
    FW_TRY(set(report, "target_weight", json_real(fw_loss_weight_value(stats->weight))));
    for (int i = 0; i < FW_CHAT_LEFT_N; i++)
        FW_TRY(set(report, fw_chat_left_out_key((fw_chat_left_out)i), json_integer(stats->left_out_n[i])));
    FW_TRY(add_dropped(report, d));
    FW_TRY(add_lengths(report, d));
    FW_TRY(fw_dataset_packing(&packing, d, max_length, strategy));
    FW_TRY(set(report, "packing",
               json_pack("{s:s, s:I, s:I, s:f}", "strategy", fw_packing_strategy_words[strategy], "max_length",
                         (json_int_t)max_length, "sequences", (json_int_t)packing.sequence_n, "efficiency",
                         packing.efficiency)));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)d->hash);
    FW_TRY(set(report, "hash", json_string(hash)));
    return problems ? add_problems(report, d) : FW_OK;
}

fw_status fw_dataset_report_json(json_t **out, const fw_dataset *d, const fw_dataset *held_out, int64_t max_length,
                                 fw_packing_strategy strategy, int problems) {
    *out = json_object();
    FW_TRY(made(*out));
    fw_status status = fill(*out, d, held_out, max_length, strategy, problems);
    if (status != FW_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

static fw_status write_line(fw_file_writer *w, const fw_dataset *d, int64_t i) {
    fw_strbuf line = {0};
    fw_status status;
    json_t *object = problem(d, i);
    FW_TRY_OR(made(object), done);
    FW_TRY_OR(fw_json_dump(&line, object, JSON_COMPACT), done);
    FW_TRY_OR(fw_strbuf_putc(&line, '\n'), done);
    FW_TRY_OR(fw_file_writer_write(w, line.data, line.len_bytes), done);
done:
    json_decref(object);
    fw_strbuf_fini(&line);
    return status;
}

fw_status fw_dataset_write_dropped(const fw_dataset *d, const char *path) {
    d = fw_dataset_of_rows(d);
    if (d->dropped_n == 0) {
        if (unlink(path) != 0 && errno != ENOENT)
            return fw_fail(FW_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
        return FW_OK;
    }
    fw_file_writer w = {0};
    fw_status status;
    FW_TRY_OR(fw_file_writer_open(&w, path), done);
    for (int64_t i = 0; i < d->dropped_n; i++) FW_TRY_OR(write_line(&w, d, i), done);
    FW_TRY_OR(fw_file_writer_commit(&w), done);
done:
    fw_file_writer_close(&w);
    return status;
}
