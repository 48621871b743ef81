#include "data/batcher.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "data/packing.h"
#include "data/weight_runs.h"

#include <stdlib.h>
#include <string.h>

enum { STRETCH_STEPS = 50 }; /* sorted together by group_by_length */

struct fw_batcher {
    const fw_dataset *dataset;
    fw_batcher_options options;
    int64_t unit_n;
    int64_t *first;              /* unit_n + 1: cuts in `sample` */
    int64_t *sample;             /* samples of unit 0, of unit 1, ...; in file order inside a unit */
    int64_t *token_n, *target_n; /* of each unit */
    int64_t *weight;             /* of its targets together */
    uint32_t *order;             /* of order_epoch */
    uint64_t *group_key;         /* group_by_length: of a stretch */
    uint32_t *group_order;
    int64_t order_epoch;
    int64_t max_token_n, max_document_n;
    int64_t skip_n; /* units at the start of an epoch that are not taken */
};

static int64_t units_per_step(const fw_batcher *b) {
    return b->options.micro * b->options.accumulation * b->options.world;
}

static fw_status check_options(const fw_batcher_options *o, const fw_dataset *d) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"per_device_train_batch_size", o->micro},
                  {"gradient_accumulation_steps", o->accumulation},
                  {"the number of ranks", o->world}};
    for (int i = 0; i < 3; i++)
        if (counts[i].value < 1 || counts[i].value > 1 << 20)
            return fw_fail(FW_ERR_OPTION, "%s is %lld; it must be from 1 to %d", counts[i].name,
                           (long long)counts[i].value, 1 << 20);
    if (d->sample_n < 1 || d->sample_n > INT32_MAX)
        return fw_fail(FW_ERR_INPUT, "%s has %lld conversations; from 1 to %d can be used", d->name,
                       (long long)d->sample_n, INT32_MAX);
    return FW_OK;
}

/* Samples into units: one each, or by bins. */
static fw_status make_units(fw_batcher *b) {
    const fw_dataset *d = b->dataset;
    const size_t sample_n = (size_t)d->sample_n;
    int64_t *bin = NULL;
    fw_status status = FW_OK;
    FW_TRY(FW_NEW_ARRAY(b->sample, sample_n));
    FW_TRY(FW_NEW_ARRAY(bin, sample_n));
    b->unit_n = d->sample_n;
    if (b->options.packing)
        FW_TRY_OR(fw_packing_assign(bin, &b->unit_n, d, b->options.max_length, b->options.packing_strategy), done);
    else
        for (int64_t s = 0; s < d->sample_n; s++) bin[s] = s;
    const size_t unit_n = (size_t)b->unit_n;
    FW_TRY_OR(FW_NEW_ARRAY(b->first, unit_n + 2), done); /* one more: shifted while filling */
    FW_TRY_OR(FW_NEW_ARRAY(b->token_n, unit_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(b->target_n, unit_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(b->weight, unit_n), done);
    for (int64_t s = 0; s < d->sample_n; s++) {
        b->first[bin[s] + 2]++;
        b->token_n[bin[s]] += d->sample[s].n;
        b->target_n[bin[s]] += d->sample[s].target_n;
        b->weight[bin[s]] += fw_weight_runs_sum(d, &d->sample[s]);
    }
    for (size_t u = 2; u < unit_n + 2; u++) b->first[u] += b->first[u - 1];
    for (int64_t s = 0; s < d->sample_n; s++) b->sample[b->first[bin[s] + 1]++] = s;
done:
    fw_free(bin);
    return status;
}

static int compare_descending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The largest sum of a micro-batch: shuffled, any `micro` units may meet; in file order the batches are known. of_unit may
 * be sorted by this. */
static int64_t largest_sum(const fw_batcher *b, int64_t *of_unit) {
    const int64_t micro = b->options.micro;
    if (b->options.shuffle) qsort(of_unit, (size_t)b->unit_n, sizeof *of_unit, compare_descending);
    int64_t most = 0;
    for (int64_t start = 0; start < b->unit_n; start += micro) {
        int64_t sum = 0;
        for (int64_t u = start; u < start + micro && u < b->unit_n; u++) sum += of_unit[u];
        if (sum > most) most = sum;
    }
    return most;
}

static fw_status find_largest(fw_batcher *b) {
    int64_t *of_unit;
    FW_TRY(FW_NEW_ARRAY(of_unit, (size_t)b->unit_n));
    memcpy(of_unit, b->token_n, (size_t)b->unit_n * sizeof *of_unit);
    b->max_token_n = largest_sum(b, of_unit);
    for (int64_t u = 0; u < b->unit_n; u++) of_unit[u] = b->first[u + 1] - b->first[u];
    b->max_document_n = largest_sum(b, of_unit);
    fw_free(of_unit);
    if (b->max_token_n > INT32_MAX)
        return fw_fail(FW_ERR_FIT,
                       "a micro-batch of %lld conversations may have %lld tokens; at most %d can be computed at once: "
                       "lower per_device_train_batch_size or max_length",
                       (long long)b->options.micro, (long long)b->max_token_n, INT32_MAX);
    return FW_OK;
}

fw_status fw_batcher_create(fw_batcher **out, const fw_dataset *dataset, const fw_batcher_options *options) {
    *out = NULL;
    FW_TRY(check_options(options, dataset));
    fw_batcher *b;
    fw_status status;
    FW_TRY(FW_NEW(b));
    b->dataset = dataset;
    b->options = *options;
    b->order_epoch = -1;
    FW_TRY_OR(make_units(b), failed);
    FW_TRY_OR(FW_NEW_ARRAY(b->order, (size_t)b->unit_n), failed);
    if (options->group_by_length) {
        int64_t n = STRETCH_STEPS * units_per_step(b);
        if (n > b->unit_n) n = b->unit_n;
        FW_TRY_OR(FW_NEW_ARRAY(b->group_key, (size_t)n), failed);
        FW_TRY_OR(FW_NEW_ARRAY(b->group_order, (size_t)n), failed);
    }
    FW_TRY_OR(find_largest(b), failed);
    *out = b;
    return FW_OK;
failed:
    fw_batcher_destroy(b);
    return status;
}

void fw_batcher_destroy(fw_batcher *b) {
    if (b == NULL) return;
    fw_free(b->first);
    fw_free(b->sample);
    fw_free(b->token_n);
    fw_free(b->target_n);
    fw_free(b->weight);
    fw_free(b->order);
    fw_free(b->group_key);
    fw_free(b->group_order);
    fw_free(b);
}

void fw_batcher_skip(fw_batcher *b, int64_t unit_n) { b->skip_n = unit_n; }

/* The first unit of a step, in the epoch's order. */
static int64_t first_unit(const fw_batcher *b, int64_t step_in_epoch) {
    return b->skip_n + step_in_epoch * units_per_step(b);
}

int64_t fw_batcher_units(const fw_batcher *b) { return b->unit_n; }
int64_t fw_batcher_max_tokens(const fw_batcher *b) { return b->max_token_n; }
int64_t fw_batcher_max_documents(const fw_batcher *b) { return b->max_document_n; }
int64_t fw_batcher_steps_per_epoch(const fw_batcher *b) {
    return (b->unit_n + units_per_step(b) - 1) / units_per_step(b);
}

int64_t fw_batcher_micro_steps(const fw_batcher *b, int64_t step_in_epoch) {
    const int64_t at_once = b->options.micro * b->options.world, left = b->unit_n - first_unit(b, step_in_epoch);
    const int64_t needed = (left + at_once - 1) / at_once;
    return needed < b->options.accumulation ? needed : b->options.accumulation;
}

/* Longer first, equal ones as they were: the key is made of both. */
static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_stretch(fw_batcher *b, uint32_t *order, int64_t n) {
    uint64_t *key = b->group_key;
    for (int64_t i = 0; i < n; i++) key[i] = (uint64_t)(INT32_MAX - b->token_n[order[i]]) << 32 | order[i];
    qsort(key, (size_t)n, sizeof *key, compare_keys);
    for (int64_t i = 0; i < n; i++) order[i] = (uint32_t)key[i];
}

/* Steps of a stretch in random order; what is no whole step stays at the end of the epoch. */
static void group_by_length(fw_batcher *b, int64_t epoch) {
    const int64_t step_n = units_per_step(b);
    int64_t stretch = 0;
    for (int64_t at = 0; at < b->unit_n; at += STRETCH_STEPS * step_n, stretch++) {
        const int64_t left = b->unit_n - at, n = left < STRETCH_STEPS * step_n ? left : STRETCH_STEPS * step_n;
        const uint32_t whole_n = (uint32_t)(n / step_n);
        uint32_t place[STRETCH_STEPS];
        sort_stretch(b, b->order + at, n);
        fw_rng_permute(b->options.data_seed ^ 0x6c656e677468ull, (uint64_t)(epoch << 32 | stretch), place, whole_n);
        for (uint32_t k = 0; k < whole_n; k++)
            memcpy(b->group_order + (int64_t)k * step_n, b->order + at + (int64_t)place[k] * step_n,
                   (size_t)step_n * sizeof *b->order);
        memcpy(b->order + at, b->group_order, (size_t)(whole_n * step_n) * sizeof *b->order);
    }
}

static void set_epoch(fw_batcher *b, int64_t epoch) {
    if (b->order_epoch == epoch) return;
    if (b->options.shuffle) {
        fw_rng_permute(b->options.data_seed, (uint64_t)epoch, b->order, (uint32_t)b->unit_n);
        if (b->options.group_by_length) group_by_length(b, epoch);
    } else
        for (int64_t u = 0; u < b->unit_n; u++) b->order[u] = (uint32_t)u;
    b->order_epoch = epoch;
}

static int64_t window_sum(fw_batcher *b, int64_t epoch, int64_t step_in_epoch, const int64_t *of_unit) {
    set_epoch(b, epoch);
    int64_t sum = 0, first = first_unit(b, step_in_epoch), last = first + units_per_step(b);
    for (int64_t i = first; i < last && i < b->unit_n; i++) sum += of_unit[b->order[i]];
    return sum;
}

int64_t fw_batcher_window_targets(fw_batcher *b, int64_t epoch, int64_t step_in_epoch) {
    return window_sum(b, epoch, step_in_epoch, b->target_n);
}

int64_t fw_batcher_window_weight(fw_batcher *b, int64_t epoch, int64_t step_in_epoch) {
    return window_sum(b, epoch, step_in_epoch, b->weight);
}

int64_t fw_batcher_window_tokens(fw_batcher *b, int64_t epoch, int64_t step_in_epoch) {
    return window_sum(b, epoch, step_in_epoch, b->token_n);
}

/* *begin .. *end - 1: the places in the epoch's order that this rank takes in this micro-step. */
static fw_status find_slots(fw_batcher *b, int64_t epoch, int64_t step, int64_t micro_step, int64_t rank,
                            int64_t *begin, int64_t *end) {
    if (epoch < 0 || step < 0 || first_unit(b, step) >= b->unit_n || micro_step < 0 ||
        micro_step >= b->options.accumulation || rank < 0 || rank >= b->options.world)
        return fw_fail(FW_ERR_INTERNAL, "no batch at epoch %lld, step %lld, micro-step %lld, rank %lld",
                       (long long)epoch, (long long)step, (long long)micro_step, (long long)rank);
    set_epoch(b, epoch);
    *begin = first_unit(b, step) + (micro_step * b->options.world + rank) * b->options.micro;
    *end = *begin + b->options.micro;
    if (*end > b->unit_n) *end = b->unit_n;
    return FW_OK;
}

/* A row has the weight of its target, the token behind it. */
static void add_weights(fw_batch *batch, const fw_dataset *d, const fw_sample *sample) {
    fw_loss_weight *weight = batch->weight_N + batch->n;
    int64_t first, last;
    for (int64_t i = 0; i < sample->n; i++) weight[i] = FW_LOSS_WEIGHT_ONE;
    fw_weight_runs_of(d, sample, &first, &last);
    if (last > first) batch->is_weighted = 1;
    for (int64_t k = first; k < last; k++)
        for (int32_t i = 0; i < d->run[k].n; i++) weight[d->run[k].first - sample->first - 1 + i] = d->run[k].weight;
}

static void add_document(fw_batch *batch, const fw_dataset *d, int64_t sample) {
    const int32_t *id = d->id + d->sample[sample].first;
    const uint8_t *trained = d->trained + d->sample[sample].first;
    const int64_t n = d->sample[sample].n, start = batch->n;
    for (int64_t i = 0; i < n; i++) {
        batch->id_N[start + i] = id[i];
        batch->target_N[start + i] = i + 1 < n && trained[i + 1] ? id[i + 1] : -1;
        batch->position_N[start + i] = (int32_t)i;
        batch->first_N[start + i] = (int32_t)start;
        batch->sample_N[start + i] = (int32_t)sample;
    }
    if (d->run_n > 0) add_weights(batch, d, &d->sample[sample]);
    batch->n += n;
    batch->target_n += d->sample[sample].target_n;
    batch->document_n++;
}

fw_status fw_batcher_fill(fw_batcher *b, int64_t epoch, int64_t step_in_epoch, int64_t micro_step, int64_t rank,
                          fw_batch *batch) {
    int64_t begin, end;
    FW_TRY(find_slots(b, epoch, step_in_epoch, micro_step, rank, &begin, &end));
    batch->n = batch->target_n = batch->document_n = batch->is_weighted = 0;
    for (int64_t i = begin; i < end; i++) {
        const uint32_t unit = b->order[i];
        if (b->token_n[unit] > batch->cap_n - batch->n)
            return fw_fail(FW_ERR_INTERNAL, "the batch has room for %lld tokens; %lld are needed",
                           (long long)batch->cap_n, (long long)(batch->n + b->token_n[unit]));
        for (int64_t k = b->first[unit]; k < b->first[unit + 1]; k++) add_document(batch, b->dataset, b->sample[k]);
    }
    return FW_OK;
}

fw_status fw_batcher_samples(fw_batcher *b, int64_t epoch, int64_t step_in_epoch, int64_t micro_step, int64_t rank,
                             int64_t *sample, int64_t cap, int64_t *n) {
    int64_t begin, end;
    *n = 0;
    FW_TRY(find_slots(b, epoch, step_in_epoch, micro_step, rank, &begin, &end));
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = b->first[b->order[i]]; k < b->first[b->order[i] + 1]; k++, (*n)++)
            if (*n < cap) sample[*n] = b->sample[k];
    return FW_OK;
}

fw_status fw_batch_init(fw_batch *batch, int64_t cap_n) {
    *batch = (fw_batch){.cap_n = cap_n};
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(batch->id_N, (size_t)cap_n), failed);
    FW_TRY_OR(FW_NEW_ARRAY(batch->target_N, (size_t)cap_n), failed);
    FW_TRY_OR(FW_NEW_ARRAY(batch->position_N, (size_t)cap_n), failed);
    FW_TRY_OR(FW_NEW_ARRAY(batch->first_N, (size_t)cap_n), failed);
    FW_TRY_OR(FW_NEW_ARRAY(batch->sample_N, (size_t)cap_n), failed);
    FW_TRY_OR(FW_NEW_ARRAY(batch->weight_N, (size_t)cap_n), failed);
    return FW_OK;
failed:
    fw_batch_fini(batch);
    return status;
}

void fw_batch_fini(fw_batch *batch) {
    fw_free(batch->id_N);
    fw_free(batch->target_N);
    fw_free(batch->position_N);
    fw_free(batch->first_N);
    fw_free(batch->sample_N);
    fw_free(batch->weight_N);
    *batch = (fw_batch){0};
}
