#include "data/weight_runs.h"

#include "base/alloc.h"

#include <string.h>

static fw_status reserve(fw_dataset *d, int64_t n) {
    if (n <= d->run_cap) return FW_OK;
    int64_t cap = d->run_cap + d->run_cap / 2 + 16;
    if (cap < n) cap = n;
    FW_TRY(FW_GROW_ARRAY(d->run, (size_t)cap));
    d->run_cap = cap;
    return FW_OK;
}

fw_status fw_weight_runs_add(fw_dataset *d, const fw_sample *sample, const uint8_t *trained,
                             const fw_loss_weight *weight) {
    for (int32_t i = 1; i < sample->n;) {
        int32_t end = i + 1;
        if (trained[i] && weight[i] != FW_LOSS_WEIGHT_ONE) {
            while (end < sample->n && trained[end] && weight[end] == weight[i]) end++;
            FW_TRY(reserve(d, d->run_n + 1));
            d->run[d->run_n++] = (fw_weight_run){sample->first + i, end - i, weight[i]};
        }
        i = end;
    }
    return FW_OK;
}

fw_status fw_weight_runs_join(fw_dataset *d, const fw_dataset *other, int64_t token_n) {
    FW_TRY(reserve(d, d->run_n + other->run_n));
    for (int64_t k = 0; k < other->run_n; k++) {
        d->run[d->run_n] = other->run[k];
        d->run[d->run_n++].first += token_n;
    }
    return FW_OK;
}

/* The first run that begins at a token or behind it. */
static int64_t run_from(const fw_dataset *d, int64_t token) {
    int64_t low = 0, high = d->run_n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (d->run[middle].first < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void fw_weight_runs_of(const fw_dataset *d, const fw_sample *sample, int64_t *first, int64_t *last) {
    *first = *last = run_from(d, sample->first);
    while (*last < d->run_n && d->run[*last].first < sample->first + sample->n) ++*last;
}

int64_t fw_weight_runs_sum(const fw_dataset *d, const fw_sample *sample) {
    int64_t first, last, sum = (int64_t)sample->target_n * FW_LOSS_WEIGHT_ONE;
    fw_weight_runs_of(d, sample, &first, &last);
    for (int64_t k = first; k < last; k++) sum += d->run[k].n * ((int64_t)d->run[k].weight - FW_LOSS_WEIGHT_ONE);
    return sum;
}

int fw_weight_runs_are_sound(const fw_dataset *d) {
    int64_t k = 0;
    for (int64_t s = 0; s < d->sample_n && k < d->run_n; s++) {
        const int64_t end = d->sample[s].first + d->sample[s].n;
        int64_t next = d->sample[s].first + 1, target_n = 0;
        for (; k < d->run_n && d->run[k].first < end; k++) {
            const fw_weight_run *run = &d->run[k];
            if (run->first < next || run->n < 1 || run->n > end - run->first || run->weight < 1 ||
                run->weight > FW_LOSS_WEIGHT_LARGEST * FW_LOSS_WEIGHT_ONE)
                return 0;
            next = run->first + run->n;
            target_n += run->n;
        }
        if (target_n > d->sample[s].target_n) return 0;
    }
    return k == d->run_n;
}
