/* Compute weights: gathered (or rounded) into a slot before a unit computes, freed after; the next ones meanwhile.
 *
 * A pass is a list of stays (shard_schedule.h). Entering a stay waits for its bucket; leaving it frees the slot and
 * starts the gather of the next buckets that have a slot. Where all weights are kept, a stay only waits for the
 * all-gather that followed the last update. */
#include "shard/shard_internal.h"
#include "shard/shard_record.h"
#include "shard/shard_weights_away.h"

#include "base/host.h"
#include "base/trace.h"

#include <stdio.h>

static size_t bytes_of(int64_t n, fw_dtype t) { return (size_t)n * fw_dtype_bytes(t); }

/* ---- slots */

/* Nothing travels, neither between ranks nor from elsewhere: a copy stays until another takes its place. */
static bool stays(const fw_shard *s) { return s->layout.S == 1 && !s->layout.weights_away; }

static int find_slot(const fw_shard *s, int32_t b) {
    if (b == 0) return s->weight_slot[0].bucket < 0 || stays(s) ? 0 : -1;
    for (int i = 1; i <= s->layout.weight_slot_n; i++)
        if (s->weight_slot[i].bucket < 0) return i;
    return stays(s) ? 1 : -1;
}

static void leave_slot(fw_shard *s, int32_t b) {
    fw_bucket_state *state = &s->state[b];
    if (state->weight_slot < 0) return;
    s->weight_slot[state->weight_slot].bucket = -1;
    state->weight_slot = -1;
    s->residency.now_n--;
}

static void enter_slot(fw_shard *s, int32_t b, int slot) {
    if (s->weight_slot[slot].bucket >= 0) leave_slot(s, s->weight_slot[slot].bucket);
    s->weight_slot[slot].bucket = b;
    s->state[b].weight_slot = slot;
    if (++s->residency.now_n > s->residency.peak_n) s->residency.peak_n = s->residency.now_n;
    FW_ASSERT(s->residency.now_n <= 2 + s->layout.options.prefetch);
}

/* ---- gathering */

/* Put this rank's part where the collective wants it and start it. */
static fw_status start_gather(fw_shard *s, int32_t b, int slot) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.t;
    fw_bucket_state *state = &s->state[b];
    enter_slot(s, b, slot);
    char *data = s->weight_slot[slot].data;
    char *own = data + s->group_rank * bucket->part_n * (int64_t)fw_dtype_bytes(t);
    if (s->layout.weights_away) return fw_shard_weights_away_begin_in(s, b, own);
    const void *part = fw_shard_compute_part(s, b);
    if (part == NULL) { /* the master is where it always is: see records_leave */
        char *record;
        FW_ASSERT(!s->layout.options.records_leave || !s->layout.master_in_record);
        FW_TRY(fw_shard_record_open(s, b, FW_RECORD_READ, &record));
        part = fw_shard_master_part(s, b, record);
        FW_TRY(fw_shard_record_close(s, b));
        if (t != FW_F32) {
            FW_TRY(fw_cast(s->device, own, t, part, FW_F32, bucket->part_n));
            part = own;
        }
    }
    FW_ASSERT(s->layout.S > 1 || part == own);
    if (s->layout.S == 1 || bucket->n == 0) return FW_OK;
    state->weights = (fw_flight){.request = {.label = state->label}, .started = true};
    return fw_comm_all_gather(s->group, data, part, bucket->padded_n, t, &state->weights.request);
}

/* What comes from elsewhere is there: gather it. */
static fw_status end_coming(fw_shard *s, int32_t b) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.t;
    fw_bucket_state *state = &s->state[b];
    if (!state->weight_coming) return FW_OK;
    char *data = s->weight_slot[state->weight_slot].data;
    char *own = data + s->group_rank * bucket->part_n * (int64_t)fw_dtype_bytes(t);
    FW_TRY(fw_shard_weights_away_end_in(s, b, own));
    if (s->layout.S == 1 || bucket->n == 0) return FW_OK;
    state->weights = (fw_flight){.request = {.label = state->label}, .started = true};
    return fw_comm_all_gather(s->group, data, own, bucket->padded_n, t, &state->weights.request);
}

/* Gathers run ahead of the pass, in its order, as far as there are slots. What comes from elsewhere is begun as far ahead,
 * and gathered one bucket later. */
static fw_status prefetch(fw_shard *s) {
    if (s->layout.weights_full || stays(s)) return FW_OK;
    const fw_shard_schedule *schedule = s->pass.schedule;
    for (int32_t k = 1; k <= s->layout.options.prefetch; k++) {
        int32_t at = s->pass.at + k;
        if (at >= schedule->stay_n) {
            if (!s->pass.more) return FW_OK;
            at -= schedule->stay_n;
        }
        int32_t b = schedule->stay[at].bucket;
        if (s->state[b].weight_slot >= 0) {
            if (k < s->layout.options.prefetch) FW_TRY(end_coming(s, b));
            continue;
        }
        int slot = find_slot(s, b);
        if (slot < 0) return FW_OK;
        FW_TRY(start_gather(s, b, slot));
    }
    return FW_OK;
}

/* ---- a pass */

/* Pages of gradients and of units at work, many at once, in the first pass that needs them: after reading the model a
 * rank holds its share of the weights and no more. Moments get theirs in the first update. */
static void take_pages(fw_shard *s) {
    const fw_shard_bytes *bytes = &s->layout.bytes;
    if (s->has_pages) return;
    s->has_pages = true;
    if (s->gradient != NULL) fw_device_take_pages(s->device, s->gradient, bytes->gradient);
    if (s->gradient_slot[0].data != NULL)
        fw_device_take_pages(s->device, s->gradient_slot[0].data,
                             bytes_of(s->layout.edge_n + s->layout.gradient_slot_n * s->layout.block_n, FW_F32));
    if (s->weight_slot[0].data != NULL) fw_device_take_pages(s->device, s->weight_slot[0].data, bytes->gathered);
}

fw_status fw_shard_begin(fw_shard *s, fw_shard_pass pass, bool more) {
    s->pass.schedule = &s->schedule[pass];
    s->pass.at = -1;
    s->pass.left = 0;
    s->pass.more = more;
    if (pass == FW_SHARD_PASS_TRAIN) take_pages(s);
    return FW_OK;
}

/* The stay that this use belongs to: the one at hand or the next. */
static fw_status follow_schedule(fw_shard *s, int32_t unit, int32_t b) {
    const fw_shard_schedule *schedule = s->pass.schedule;
    if (schedule == NULL) return fw_fail(FW_ERR_INTERNAL, "unit %d is asked for before a pass has begun", unit);
    if (s->pass.left == 0) {
        s->pass.at++;
        if (s->pass.at < schedule->stay_n) s->pass.left = schedule->stay[s->pass.at].use_n;
    }
    if (s->pass.at >= schedule->stay_n || schedule->stay[s->pass.at].bucket != b)
        return fw_fail(FW_ERR_INTERNAL, "unit %d is asked for out of the order of the pass", unit);
    return FW_OK;
}

fw_status fw_shard_weights_acquire(fw_shard *s, int32_t unit, const void **w) {
    int32_t b = s->layout.bucket_of_unit[unit];
    fw_bucket_state *state = &s->state[b];
    const int64_t size = (int64_t)fw_dtype_bytes(s->layout.options.t);
    FW_TRY(follow_schedule(s, unit, b));
    const char *base = s->compute + fw_shard_bucket(s, b)->full_at_n * size;
    if (!s->layout.weights_full) {
        if (state->weight_slot < 0) {
            int slot = find_slot(s, b);
            FW_ASSERT(slot >= 0);
            FW_TRY(start_gather(s, b, slot));
        }
        FW_TRY(end_coming(s, b));
        base = s->weight_slot[state->weight_slot].data;
    }
    FW_TRY(fw_flight_wait(s->group, &state->weights));
    *w = base + fw_shard_unit_at(s, unit) * size;
    return prefetch(s);
}

/* Overwrite freed weights, so that a test sees whoever reads them. */
static fw_status poison(fw_shard *s, int32_t b) {
    uint8_t nan[4096];
    for (size_t i = 0; i < sizeof nan; i++) nan[i] = 0xff;
    size_t bytes = (size_t)fw_shard_bucket(s, b)->padded_n * fw_dtype_bytes(s->layout.options.t);
    char *data = s->weight_slot[s->state[b].weight_slot].data;
    for (size_t at = 0; at < bytes; at += sizeof nan)
        FW_TRY(fw_copy(s->device, data + at, nan, bytes - at < sizeof nan ? bytes - at : sizeof nan));
    return FW_OK;
}

fw_status fw_shard_weights_release(fw_shard *s, int32_t unit) {
    int32_t b = s->layout.bucket_of_unit[unit];
    FW_ASSERT(s->pass.left > 0 && s->pass.schedule->stay[s->pass.at].bucket == b);
    s->pass.left--;
    if (s->pass.left > 0 || s->layout.weights_full || stays(s)) return FW_OK;
    if (s->layout.options.poison) FW_TRY(poison(s, b));
    leave_slot(s, b);
    return prefetch(s);
}

/* ---- after an update */

/* A copy in the computing type, where the master is in a record. */
static fw_status renew_copy(fw_shard *s, void *part, const float *master, int64_t n) {
    const fw_dtype t = s->layout.options.t;
    const void *from = master;
    if (s->gradient_host != NULL && t != FW_F32) { /* rounded in memory of the host: the gradient in it has been used */
        FW_TRY(fw_cast(fw_shard_update_device(s), s->gradient_host, t, master, FW_F32, n));
        from = s->gradient_host;
    }
    if (s->gradient_host != NULL || t == FW_F32) return fw_copy(s->device, part, from, bytes_of(n, t));
    return fw_cast(s->device, part, t, master, FW_F32, n);
}

fw_status fw_shard_weights_renew(fw_shard *s, int32_t b, char *record) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.t;
    fw_bucket_state *state = &s->state[b];
    FW_ASSERT(s->layout.S == 1 || state->weight_slot < 0);
    leave_slot(s, b); /* S = 1: the rounded copy is old now */
    if (s->layout.weights_away) return fw_shard_weights_away_renew(s, b, record);
    void *part = fw_shard_compute_part(s, b);
    if (part == NULL) return FW_OK;
    float *master = fw_shard_master_part(s, b, record);
    if (master != NULL && part != (void *)master) FW_TRY(renew_copy(s, part, master, bucket->part_n));
    if (!s->layout.weights_full || s->layout.S == 1 || bucket->n == 0) return FW_OK;
    FW_TRY(fw_flight_wait(s->group, &state->weights));
    state->weights = (fw_flight){.request = {.label = state->label}, .started = true};
    void *all = s->compute + bucket->full_at_n * (int64_t)fw_dtype_bytes(t);
    return fw_comm_all_gather(s->group, all, part, bucket->padded_n, t, &state->weights.request);
}

fw_status fw_shard_settle(fw_shard *s) {
    for (int32_t b = 0; b < s->layout.bucket_n; b++) FW_TRY(fw_flight_wait(s->group, &s->state[b].weights));
    return FW_OK;
}

/* ---- the unit as a whole */

fw_status fw_shard_acquire(fw_shard *s, int32_t unit, fw_shard_use use, const void **w, float **g) {
    *w = NULL;
    if (use != FW_SHARD_GRADIENT) FW_TRY(fw_shard_weights_acquire(s, unit, w));
    if (g != NULL) FW_TRY(fw_shard_gradient_acquire(s, unit, g));
    if (fw_trace_on()) s->acquired_ns = fw_host_now_ns();
    return FW_OK;
}

fw_status fw_shard_release(fw_shard *s, int32_t unit, fw_shard_use use) {
    if (fw_trace_on()) {
        static const char *const names[] = {"forward", "loss", "backward", "embedding gradient"};
        char name[64];
        if (unit == 0)
            snprintf(name, sizeof name, "%s edge", names[use]);
        else
            snprintf(name, sizeof name, "%s layers.%d", names[use], unit - 1);
        fw_trace_span(FW_TRACE_COMPUTE, name, s->acquired_ns, fw_host_now_ns());
    }
    return use == FW_SHARD_GRADIENT ? FW_OK : fw_shard_weights_release(s, unit);
}
