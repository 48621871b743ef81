#include "data/selection.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/plural.h"
#include "data/weight_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number of 64 bits that looks random, from a sample's tokens and the seed. */
static uint64_t draw(const fw_sample *sample, uint64_t seed) {
    const uint64_t words[2] = {sample->hash, seed};
    return fw_hash_bytes(words, sizeof words);
}

/* A data set of `n` samples that shares everything of `base`; the caller fills them in and calls count. */
static fw_status create(fw_dataset **out, fw_dataset *base, int64_t n) {
    fw_dataset *d;
    FW_TRY(fw_dataset_create(&d, base->name, &base->options));
    d->base = base;
    base->user_n++;
    d->id = base->id;
    d->trained = base->trained;
    d->run = base->run;
    d->run_n = base->run_n;
    d->from_cache = base->from_cache;
    fw_status status = FW_OK;
    for (int32_t i = 0; i < base->source_n && status == FW_OK; i++) {
        const fw_dataset_source *s = &base->source[i];
        status = fw_dataset_add_source(d, s->path, s->format, s->shape, s->set);
        if (status == FW_OK) d->source[i].row_n = s->row_n;
    }
    if (status == FW_OK) status = FW_NEW_ARRAY(d->sample, (size_t)n);
    if (status == FW_OK)
        *out = d;
    else
        fw_dataset_destroy(d);
    return status;
}

static void add(fw_dataset *d, const fw_sample *sample) {
    d->sample[d->sample_n++] = *sample;
    d->stats.conversation_n++;
    d->stats.token_n += sample->n;
    d->stats.target_n += sample->target_n;
    d->stats.weight += fw_weight_runs_sum(d, sample);
    if (sample->n > d->stats.longest_n) d->stats.longest_n = sample->n;
    if (sample->source >= 0 && sample->source < d->source_n) d->source[sample->source].used_n++;
}

/* What was dropped and cut on the way to the base is told of the part that is trained on. */
static void take_counts(fw_dataset *d, const fw_dataset *base) {
    memcpy(d->stats.drop_n, base->stats.drop_n, sizeof d->stats.drop_n);
    d->stats.conversation_n += fw_dataset_dropped_n(base);
    d->stats.truncated_n = base->stats.truncated_n;
    d->stats.truncated_token_n = base->stats.truncated_token_n;
    memcpy(d->stats.left_out_n, base->stats.left_out_n, sizeof d->stats.left_out_n);
    d->stats.spelt_n = base->stats.spelt_n;
    d->stats.mark_ignored_n = base->stats.mark_ignored_n;
}

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Samples that draw at most *limit are held out. */
static fw_status find_limit(uint64_t *limit, const fw_dataset *d, int64_t val_n, uint64_t seed) {
    uint64_t *drawn;
    FW_TRY(FW_NEW_ARRAY(drawn, (size_t)d->sample_n));
    for (int64_t s = 0; s < d->sample_n; s++) drawn[s] = draw(&d->sample[s], seed);
    qsort(drawn, (size_t)d->sample_n, sizeof *drawn, compare_u64);
    *limit = drawn[val_n - 1];
    fw_free(drawn);
    return FW_OK;
}

static fw_status split(fw_dataset **train, fw_dataset **val, fw_dataset *d, double val_size, uint64_t seed) {
    const double wanted = val_size < 1 ? ceil(val_size * (double)d->sample_n) : floor(val_size);
    uint64_t limit = 0;
    int64_t val_n = 0;
    if (wanted >= (double)d->sample_n)
        return fw_fail(FW_ERR_OPTION, "val_size %g holds out %.0f of %lld conversations: none is left to learn",
                       val_size, wanted, (long long)d->sample_n);
    FW_TRY(find_limit(&limit, d, (int64_t)wanted, seed));
    for (int64_t s = 0; s < d->sample_n; s++) val_n += draw(&d->sample[s], seed) <= limit;
    if (val_n == d->sample_n)
        return fw_fail(FW_ERR_OPTION, "val_size %g: all %lld conversations are the same, so they cannot be split",
                       val_size, (long long)d->sample_n);
    FW_TRY(create(val, d, val_n));
    FW_TRY(create(train, d, d->sample_n - val_n));
    for (int64_t s = 0; s < d->sample_n; s++) add(draw(&d->sample[s], seed) <= limit ? *val : *train, &d->sample[s]);
    take_counts(*train, d);
    FW_TRY(fw_dataset_finish(*train));
    return fw_dataset_finish(*val);
}

fw_status fw_dataset_split(fw_dataset **train, fw_dataset **val, fw_dataset *d, double val_size, uint64_t seed) {
    *train = *val = NULL;
    fw_status status = split(train, val, d, val_size, seed);
    fw_dataset_destroy(d); /* its parts keep it */
    if (status == FW_OK) return FW_OK;
    fw_dataset_destroy(*train);
    fw_dataset_destroy(*val);
    *train = *val = NULL;
    return status;
}

/* Which of a set's conversations are taken once more than the whole part of its weight says. */
typedef struct place {
    uint64_t drawn;
    int64_t sample;
} place;

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->drawn != y->drawn) return x->drawn < y->drawn ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample); /* copies of one conversation */
}

static int32_t set_of(const fw_dataset *d, int64_t sample) { return d->source[d->sample[sample].source].set; }

/* once_more[s] becomes 1 for exactly n * (weight - whole) conversations of the set, rounded: those that draw the lowest. */
static fw_status choose(uint8_t *once_more, place *places, const fw_dataset *d, int32_t set, double weight,
                        uint64_t seed) {
    int64_t n = 0;
    for (int64_t s = 0; s < d->sample_n; s++)
        if (set_of(d, s) == set) places[n++] = (place){draw(&d->sample[s], seed), s};
    const int64_t more_n = llround((double)n * (weight - floor(weight)));
    if (n > 0 && more_n == 0 && weight < 1)
        return fw_fail(
            FW_ERR_OPTION,
            "the weight %g leaves none of the %lld conversation%s of the data set that begins with %s; raise "
            "it, or take the set off the list",
            weight, (long long)n, fw_plural(n), d->source[d->sample[places[0].sample].source].path);
    qsort(places, (size_t)n, sizeof *places, compare_places);
    for (int64_t i = 0; i < more_n; i++) once_more[places[i].sample] = 1;
    return FW_OK;
}

static fw_status choose_all(uint8_t *once_more, const fw_dataset *d, const double *weight, int32_t set_n,
                            uint64_t seed) {
    place *places;
    fw_status status = FW_OK;
    FW_TRY(FW_NEW_ARRAY(places, (size_t)d->sample_n));
    for (int32_t i = 0; i < set_n && status == FW_OK; i++)
        if (weight[i] != floor(weight[i])) status = choose(once_more, places, d, i, weight[i], seed);
    fw_free(places);
    return status;
}

static fw_status weigh(fw_dataset **out, fw_dataset *d, const double *weight, int32_t set_n, uint64_t seed) {
    int64_t n = 0;
    uint8_t *once_more;
    fw_status status;
    FW_TRY(FW_NEW_ARRAY(once_more, (size_t)d->sample_n));
    FW_TRY_OR(choose_all(once_more, d, weight, set_n, seed), done);
    for (int64_t s = 0; s < d->sample_n; s++) n += (int64_t)weight[set_of(d, s)] + once_more[s];
    FW_TRY_OR(create(out, d, n), done);
    for (int64_t s = 0; s < d->sample_n; s++)
        for (int64_t k = (int64_t)weight[set_of(d, s)] + once_more[s]; k > 0; k--) add(*out, &d->sample[s]);
    take_counts(*out, d);
    status = fw_dataset_finish(*out);
done:
    fw_free(once_more);
    return status;
}

fw_status fw_dataset_weigh(fw_dataset **out, fw_dataset *d, const double *weight, int32_t set_n, uint64_t seed) {
    *out = NULL;
    int same = 1;
    for (int32_t i = 0; i < set_n; i++) same = same && weight[i] == 1;
    if (same) {
        *out = d;
        return FW_OK;
    }
    fw_status status = weigh(out, d, weight, set_n, seed);
    fw_dataset_destroy(d);
    if (status == FW_OK) return FW_OK;
    fw_dataset_destroy(*out);
    *out = NULL;
    return status;
}
