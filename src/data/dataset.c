#include "data/dataset.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/plural.h"
#include "base/strbuf.h"
#include "data/cache.h"
#include "data/weight_runs.h"

#include <stdio.h>
#include <string.h>

enum { ROOM_CHECKED_BYTES = 256 << 20 };

fw_status fw_dataset_create(fw_dataset **out, const char *name, const fw_dataset_options *options) {
    *out = NULL;
    if (options->max_length < 0)
        return fw_fail(FW_ERR_OPTION, "max_length is %lld; it must be 0 (no limit) or more",
                       (long long)options->max_length);
    fw_dataset *d;
    fw_status status;
    FW_TRY(FW_NEW(d));
    FW_TRY_OR(fw_strdup(&d->name, name), failed);
    d->options = *options;
    *out = d;
    return FW_OK;
failed:
    fw_dataset_destroy(d);
    return status;
}

static void destroy_one(fw_dataset *d) {
    if (d->mapping.data != NULL) {
        fw_file_unmap(&d->mapping);
    } else {
        if (d->base == NULL) {
            fw_free(d->id);
            fw_free(d->trained);
            fw_free(d->run);
        }
        fw_free(d->sample);
    }
    for (int32_t i = 0; i < d->source_n; i++) fw_free(d->source[i].path);
    for (int64_t i = 0; i < d->dropped_n; i++) fw_free(d->dropped[i].message);
    fw_free(d->source);
    fw_free(d->dropped);
    fw_free(d->name);
    fw_free(d);
}

/* A dataset that selections use goes with the last of them. */
void fw_dataset_destroy(fw_dataset *d) {
    while (d != NULL) {
        if (d->user_n > 0) {
            d->user_n--;
            return;
        }
        fw_dataset *base = d->base;
        destroy_one(d);
        d = base;
    }
}

/* Said before the system ends a process that takes more than there is. */
static fw_status check_room(const fw_dataset *d, int64_t token_cap) {
    const int64_t bytes = (token_cap - d->token_cap) * (int64_t)(sizeof *d->id + sizeof *d->trained);
    if (bytes < ROOM_CHECKED_BYTES || (uint64_t)bytes <= fw_host_memory_available()) return FW_OK;
    return fw_fail(FW_ERR_NOMEM,
                   "%s: after %lld tokens there is no memory left for more; with a cache on a disk with room "
                   "(--dataset_cache_dir) a data set may be larger than memory",
                   d->name, (long long)d->stats.token_n);
}

static fw_status reserve(fw_dataset *d, int64_t token_n, int64_t sample_n) {
    if (token_n > d->token_cap && d->spill == NULL) {
        int64_t cap = d->token_cap + d->token_cap / 2 + 4096;
        if (cap < token_n) cap = token_n;
        FW_TRY(check_room(d, cap));
        FW_TRY(FW_GROW_ARRAY(d->id, (size_t)cap));
        FW_TRY(FW_GROW_ARRAY(d->trained, (size_t)cap));
        d->token_cap = cap;
    }
    if (sample_n > d->sample_cap) {
        int64_t cap = d->sample_cap + d->sample_cap / 2 + 64;
        if (cap < sample_n) cap = sample_n;
        FW_TRY(FW_GROW_ARRAY(d->sample, (size_t)cap));
        d->sample_cap = cap;
    }
    return FW_OK;
}

fw_status fw_dataset_add_source(fw_dataset *d, const char *path, fw_format format, fw_shape shape, int32_t set) {
    FW_TRY(FW_GROW_ARRAY(d->source, (size_t)d->source_n + 1));
    fw_dataset_source *source = &d->source[d->source_n];
    *source = (fw_dataset_source){.format = format, .shape = shape, .set = set};
    FW_TRY(fw_strdup(&source->path, path));
    d->source_n++;
    return FW_OK;
}

static fw_status list_dropped(fw_dataset *d, fw_drop_reason reason, int64_t line, const char *message) {
    if (d->dropped_n == FW_DROPPED_LISTED_MAX) return FW_OK;
    if (d->dropped_n == d->dropped_cap) {
        int64_t cap = d->dropped_cap ? 2 * d->dropped_cap : 16;
        FW_TRY(FW_GROW_ARRAY(d->dropped, (size_t)cap));
        d->dropped_cap = cap;
    }
    fw_dropped *dropped = &d->dropped[d->dropped_n];
    *dropped = (fw_dropped){.reason = reason, .source = d->source_n - 1, .line = line};
    FW_TRY(fw_strdup(&dropped->message, message));
    d->dropped_n++;
    return FW_OK;
}

fw_status fw_dataset_drop(fw_dataset *d, fw_drop_reason reason, int64_t line) {
    d->stats.conversation_n++;
    d->stats.drop_n[reason]++;
    return list_dropped(d, reason, line, fw_trail_message());
}

/* A row without fault that the options leave out. */
static fw_status leave_out(fw_dataset *d, fw_drop_reason reason, int64_t line, int64_t n) {
    const char *path = d->source_n > 0 ? d->source[d->source_n - 1].path : d->name;
    char message[FW_TRAIL_MESSAGE_BYTES];
    if (reason == FW_DROP_TRUNCATED || reason == FW_DROP_TOO_LONG)
        snprintf(message, sizeof message, "%.700s:%lld: %s (%lld tokens, max_length is %lld)", path, (long long)line,
                 fw_drop_reason_name(reason), (long long)n, (long long)d->options.max_length);
    else
        snprintf(message, sizeof message, "%.700s:%lld: %s", path, (long long)line, fw_drop_reason_name(reason));
    d->stats.drop_n[reason]++;
    return list_dropped(d, reason, line, message);
}

static uint64_t hash_of(const fw_dataset *d, const fw_sample *sample) {
    fw_hash hash;
    int64_t first, last;
    fw_hash_init(&hash);
    fw_hash_update(&hash, d->id + sample->first, (size_t)sample->n * sizeof *d->id);
    fw_hash_update(&hash, d->trained + sample->first, (size_t)sample->n);
    fw_weight_runs_of(d, sample, &first, &last);
    for (int64_t k = first; k < last; k++) {
        const int64_t words[] = {d->run[k].first - sample->first, d->run[k].n, d->run[k].weight};
        fw_hash_update(&hash, words, sizeof words);
    }
    return fw_hash_value(&hash);
}

fw_status fw_dataset_add(fw_dataset *d, const int32_t *id, const uint8_t *trained, int64_t n, int has_assistant,
                         int64_t line) {
    return fw_dataset_add_weighted(d, id, trained, NULL, n, has_assistant, line);
}

fw_status fw_dataset_add_weighted(fw_dataset *d, const int32_t *id, const uint8_t *trained,
                                  const fw_loss_weight *weight, int64_t n, int has_assistant, int64_t line) {
    const int64_t max_length = d->options.max_length, vocab_size = d->options.vocab_size;
    const int64_t kept_n = max_length > 0 && n > max_length ? max_length : n;
    for (int64_t i = 0; i < n; i++)
        if (id[i] < 0 || (vocab_size > 0 && id[i] >= vocab_size))
            return fw_fail(FW_ERR_INPUT,
                           "%s:%lld: token %lld of the conversation has id %d, but the model's vocabulary has %lld "
                           "entries; do tokenizer and model belong together?",
                           d->source_n > 0 ? d->source[d->source_n - 1].path : d->name, (long long)line, (long long)i,
                           id[i], (long long)vocab_size);
    d->stats.conversation_n++;
    if (kept_n < n && d->options.truncation == FW_TRUNCATE_DROP) return leave_out(d, FW_DROP_TOO_LONG, line, n);
    const int64_t from = d->options.truncation == FW_TRUNCATE_KEEP_END ? n - kept_n : 0;
    int64_t target_n = 0;
    for (int64_t i = 1; i < kept_n; i++) target_n += trained[from + i] != 0;
    if (target_n == 0)
        return leave_out(d,
                         !has_assistant ? FW_DROP_NO_ASSISTANT
                         : kept_n < n   ? FW_DROP_TRUNCATED
                                        : FW_DROP_NO_TARGET,
                         line, n);
    if (kept_n > INT32_MAX)
        return fw_fail(FW_ERR_INPUT, "%s:%lld: a conversation of %lld tokens; set max_length", d->name, (long long)line,
                       (long long)kept_n);
    FW_TRY(reserve(d, d->stats.token_n + kept_n, d->sample_n + 1));
    int32_t *id_to = d->id + d->stats.token_n;
    uint8_t *trained_to = d->trained + d->stats.token_n;
    memcpy(id_to, id + from, (size_t)kept_n * sizeof *id);
    for (int64_t i = 0; i < kept_n; i++) trained_to[i] = trained[from + i] != 0;
    fw_sample *sample = &d->sample[d->sample_n];
    *sample = (fw_sample){.first = d->stats.token_n,
                          .n = (int32_t)kept_n,
                          .target_n = (int32_t)target_n,
                          .line = line,
                          .source = d->source_n - 1};
    if (weight != NULL) FW_TRY(fw_weight_runs_add(d, sample, trained_to, weight + from));
    sample->hash = hash_of(d, sample);
    d->sample_n++;
    d->stats.token_n += kept_n;
    d->stats.target_n += target_n;
    d->stats.weight += fw_weight_runs_sum(d, sample);
    if (kept_n < n) {
        d->stats.truncated_n++;
        d->stats.truncated_token_n += n - kept_n;
    }
    if (kept_n > d->stats.longest_n) d->stats.longest_n = kept_n;
    return FW_OK;
}

static fw_status join_tokens(fw_dataset *d, const fw_dataset *other) {
    const int64_t at = d->stats.token_n, n = other->stats.token_n;
    if (d->spill != NULL) return fw_cache_writer_append(d->spill, other->id, other->trained, n);
    if (n > 0) {
        memcpy(d->id + at, other->id, (size_t)n * sizeof *d->id);
        memcpy(d->trained + at, other->trained, (size_t)n);
    }
    return FW_OK;
}

fw_status fw_dataset_join(fw_dataset *d, const fw_dataset *other) {
    fw_dataset_stats *a = &d->stats;
    const fw_dataset_stats *b = &other->stats;
    FW_TRY(reserve(d, a->token_n + b->token_n, d->sample_n + other->sample_n));
    FW_TRY(join_tokens(d, other));
    FW_TRY(fw_weight_runs_join(d, other, a->token_n));
    for (int64_t s = 0; s < other->sample_n; s++) {
        fw_sample sample = other->sample[s];
        sample.first += a->token_n;
        sample.source = d->source_n - 1;
        d->sample[d->sample_n + s] = sample;
    }
    for (int64_t i = 0; i < other->dropped_n; i++)
        FW_TRY(list_dropped(d, other->dropped[i].reason, other->dropped[i].line, other->dropped[i].message));
    d->sample_n += other->sample_n;
    if (d->source_n > 0) {
        d->source[d->source_n - 1].row_n += b->conversation_n;
        d->source[d->source_n - 1].used_n += other->sample_n;
    }
    a->conversation_n += b->conversation_n;
    for (int i = 0; i < FW_DROP_REASON_N; i++) a->drop_n[i] += b->drop_n[i];
    a->truncated_n += b->truncated_n;
    a->truncated_token_n += b->truncated_token_n;
    a->token_n += b->token_n;
    a->target_n += b->target_n;
    a->weight += b->weight;
    if (b->longest_n > a->longest_n) a->longest_n = b->longest_n;
    for (int i = 0; i < FW_CHAT_LEFT_N; i++) a->left_out_n[i] += b->left_out_n[i];
    a->spelt_n += b->spelt_n;
    a->mark_ignored_n += b->mark_ignored_n;
    return FW_OK;
}

/* Of several sets each has to give something: one that gives nothing is a wrong path or a wrong file. */
static fw_status check_sets(const fw_dataset *d) {
    for (int32_t i = 0; i < d->source_n;) {
        const fw_dataset_source *first = &d->source[i];
        int64_t row_n = 0, used_n = 0;
        for (; i < d->source_n && d->source[i].set == first->set; i++) {
            row_n += d->source[i].row_n;
            used_n += d->source[i].used_n;
        }
        if (used_n == 0)
            return fw_fail(FW_ERR_INPUT,
                           "the data set that begins with %s has nothing to learn in its %lld row%s; mend it, or take "
                           "it off the list",
                           first->path, (long long)row_n, fw_plural(row_n));
    }
    return FW_OK;
}

fw_status fw_dataset_check_targets(const fw_dataset *d) {
    while (d->base != NULL) d = d->base; /* the rows of the files */
    if (d->sample_n > 0) return check_sets(d);
    if (d->stats.conversation_n == 0)
        return fw_fail(FW_ERR_INPUT, "%s: there are no rows; at least one conversation is needed", d->name);
    fw_strbuf reasons = {0};
    fw_status status = FW_OK;
    for (int i = 0; i < FW_DROP_REASON_N; i++)
        if (d->stats.drop_n[i] > 0)
            FW_TRY_OR(fw_strbuf_printf(&reasons, "%s%lld: %s", reasons.len_bytes ? "; " : "",
                                       (long long)d->stats.drop_n[i], fw_drop_reason_name((fw_drop_reason)i)),
                      done);
    status =
        fw_fail(FW_ERR_INPUT,
                "%s: no conversation of its %lld has a token to learn (%s); add assistant turns or raise max_length",
                d->name, (long long)d->stats.conversation_n, fw_strbuf_text(&reasons));
done:
    fw_strbuf_fini(&reasons);
    return status;
}

fw_status fw_dataset_check_stop(int (*stop)(void)) {
    if (stop == NULL || !stop()) return FW_OK;
    return fw_fail(FW_ERR_INTERRUPTED, "interrupted while the conversations were read");
}

void fw_dataset_forget_borrowed(fw_dataset *d) {
    d->options.threads = NULL;
    d->options.reader.rows.text_field = NULL;
    d->options.progress = NULL;
    d->options.progress_context = NULL;
    d->options.stop = NULL;
}

fw_status fw_dataset_finish(fw_dataset *d) {
    fw_dataset_forget_borrowed(d);
    if (!d->options.allow_empty) FW_TRY(fw_dataset_check_targets(d));
    fw_hash hash;
    fw_hash_init(&hash);
    for (int64_t s = 0; s < d->sample_n; s++) fw_hash_update(&hash, &d->sample[s].hash, sizeof d->sample[s].hash);
    d->hash = fw_hash_value(&hash);
    return FW_OK;
}

int64_t fw_dataset_longer_than(const fw_dataset *d, int64_t n) {
    int64_t longer_n = 0;
    for (int64_t s = 0; s < d->sample_n; s++) longer_n += d->sample[s].n > n;
    return longer_n;
}

int64_t fw_dataset_dropped_n(const fw_dataset *d) {
    int64_t n = 0;
    for (int i = 0; i < FW_DROP_REASON_N; i++) n += d->stats.drop_n[i];
    return n;
}

size_t fw_dataset_bytes(const fw_dataset *d) {
    size_t bytes = (size_t)d->token_cap * (sizeof *d->id + sizeof *d->trained) + (size_t)d->run_cap * sizeof *d->run;
    if (d->mapping.data == NULL) bytes += (size_t)d->sample_n * sizeof *d->sample;
    return d->base != NULL ? bytes + fw_dataset_bytes(d->base) : bytes;
}
