#include "data/dataset.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

fw_status fw_dataset_create(fw_dataset **out, const char *name, const fw_dataset_options *options) {
    *out = NULL;
    if (options->max_length < 0)
        return fw_fail(FW_ERR_OPTION, "max_length is %lld; it must be 0 (no limit) or more",
                       (long long)options->max_length);
    fw_dataset *d;
    fw_status status;
    FW_TRY(FW_NEW(d));
    FW_TRY_OR(fw_strdup(&d->name, name), failed);
    FW_TRY_OR(FW_NEW_ARRAY(d->first, 1), failed);
    d->options = *options;
    *out = d;
    return FW_OK;
failed:
    fw_dataset_destroy(d);
    return status;
}

void fw_dataset_destroy(fw_dataset *d) {
    if (d == NULL) return;
    fw_free(d->name);
    fw_free(d->id);
    fw_free(d->trained);
    fw_free(d->first);
    fw_free(d->target);
    fw_free(d);
}

static fw_status reserve(fw_dataset *d, int64_t token_n, int64_t sample_n) {
    if (token_n > d->token_cap) {
        int64_t cap = d->token_cap + d->token_cap / 2 + 4096;
        if (cap < token_n) cap = token_n;
        FW_TRY(FW_GROW_ARRAY(d->id, (size_t)cap));
        FW_TRY(FW_GROW_ARRAY(d->trained, (size_t)cap));
        d->token_cap = cap;
    }
    if (sample_n > d->sample_cap) {
        int64_t cap = d->sample_cap + d->sample_cap / 2 + 64;
        if (cap < sample_n) cap = sample_n;
        FW_TRY(FW_GROW_ARRAY(d->first, (size_t)cap + 1));
        FW_TRY(FW_GROW_ARRAY(d->target, (size_t)cap));
        d->sample_cap = cap;
    }
    return FW_OK;
}

fw_status fw_dataset_add(fw_dataset *d, const int32_t *id, const uint8_t *trained, int64_t n, int has_assistant,
                         int64_t line) {
    const int64_t max_length = d->options.max_length, vocab_size = d->options.vocab_size;
    const int64_t kept_n = max_length > 0 && n > max_length ? max_length : n;
    const int all = d->options.all_tokens;
    int64_t target_n = 0;
    for (int64_t i = 0; i < n; i++)
        if (id[i] < 0 || (vocab_size > 0 && id[i] >= vocab_size))
            return fw_fail(FW_ERR_INPUT,
                           "%s:%lld: token %lld of the conversation has id %d, but the model's vocabulary has %lld "
                           "entries; do tokenizer and model belong together?",
                           d->name, (long long)line, (long long)i, id[i], (long long)vocab_size);
    for (int64_t i = 1; i < kept_n; i++) target_n += all || trained[i] != 0;
    d->stats.conversation_n++;
    if (target_n == 0) {
        d->stats.drop_n[has_assistant ? FW_DROP_TRUNCATED : FW_DROP_NO_ASSISTANT]++;
        return FW_OK;
    }
    FW_TRY(reserve(d, d->stats.token_n + kept_n, d->sample_n + 1));
    memcpy(d->id + d->stats.token_n, id, (size_t)kept_n * sizeof *id);
    for (int64_t i = 0; i < kept_n; i++) d->trained[d->stats.token_n + i] = all || trained[i] != 0;
    d->target[d->sample_n++] = target_n;
    d->stats.token_n += kept_n;
    d->first[d->sample_n] = d->stats.token_n;
    d->stats.target_n += target_n;
    if (kept_n < n) {
        d->stats.truncated_n++;
        d->stats.truncated_token_n += n - kept_n;
    }
    if (kept_n > d->stats.longest_n) d->stats.longest_n = kept_n;
    return FW_OK;
}

fw_status fw_dataset_join(fw_dataset *d, const fw_dataset *other) {
    fw_dataset_stats *a = &d->stats;
    const fw_dataset_stats *b = &other->stats;
    FW_TRY(reserve(d, a->token_n + b->token_n, d->sample_n + other->sample_n));
    if (b->token_n > 0) {
        memcpy(d->id + a->token_n, other->id, (size_t)b->token_n * sizeof *d->id);
        memcpy(d->trained + a->token_n, other->trained, (size_t)b->token_n);
    }
    for (int64_t s = 0; s < other->sample_n; s++) {
        d->target[d->sample_n + s] = other->target[s];
        d->first[d->sample_n + s + 1] = a->token_n + other->first[s + 1];
    }
    d->sample_n += other->sample_n;
    a->conversation_n += b->conversation_n;
    for (int i = 0; i < FW_DROP_REASON_N; i++) a->drop_n[i] += b->drop_n[i];
    a->truncated_n += b->truncated_n;
    a->truncated_token_n += b->truncated_token_n;
    a->token_n += b->token_n;
    a->target_n += b->target_n;
    if (b->longest_n > a->longest_n) a->longest_n = b->longest_n;
    a->reasoning_dropped_n += b->reasoning_dropped_n;
    return FW_OK;
}

fw_status fw_dataset_finish(fw_dataset *d) {
    const fw_dataset_stats *stats = &d->stats;
    if (d->sample_n == 0)
        return fw_fail(FW_ERR_INPUT,
                       "%s: no conversation of its %lld has a token to learn (%lld: %s; %lld: %s); add assistant "
                       "turns or raise max_length",
                       d->name, (long long)stats->conversation_n, (long long)stats->drop_n[FW_DROP_NO_ASSISTANT],
                       fw_drop_reason_name(FW_DROP_NO_ASSISTANT), (long long)stats->drop_n[FW_DROP_TRUNCATED],
                       fw_drop_reason_name(FW_DROP_TRUNCATED));
    fw_hash hash;
    fw_hash_init(&hash);
    fw_hash_update(&hash, d->first, ((size_t)d->sample_n + 1) * sizeof *d->first);
    fw_hash_update(&hash, d->id, (size_t)stats->token_n * sizeof *d->id);
    fw_hash_update(&hash, d->trained, (size_t)stats->token_n);
    d->hash = fw_hash_value(&hash);
    return FW_OK;
}

int64_t fw_dataset_longer_than(const fw_dataset *d, int64_t n) {
    int64_t longer_n = 0;
    for (int64_t s = 0; s < d->sample_n; s++) longer_n += d->first[s + 1] - d->first[s] > n;
    return longer_n;
}
