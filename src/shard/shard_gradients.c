/* Gradients: added up where a unit computes, summed over ranks in the background, kept where the strategy says.
 *
 * Kept in full and in fp32, a unit adds straight to what is kept, and the sum over ranks is made in place after the last
 * micro-batch. In all other cases a unit adds to a slot, which is empty at the start of its backward pass:
 *
 *   sync_each   fp32: slot -> summed in place over ranks -> own part added to what is kept
 *               bf16: slot -> rounded into send -> the same
 *   otherwise   bf16: slot -> rounded into send -> added to what is kept in full, summed over ranks after the last
 *
 * Kept in the file: shard_gradients_away.c.
 *
 * Sums over replicas (hsdp; ddp is one share with W replicas) follow those within the shard group. */
#include "shard/shard_gradients_away.h"
#include "shard/shard_internal.h"
#include "shard/shard_record_away.h"

static size_t bytes_of(int64_t n, fw_dtype t) { return (size_t)n * fw_dtype_bytes(t); }

/* ---- sums over ranks */

fw_status fw_shard_gradient_start_sum(fw_shard *s, int32_t b, char *all) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.gradient_t;
    fw_bucket_state *state = &s->state[b];
    FW_ASSERT(!state->scatter.started && !state->across.started);
    if (bucket->n == 0) return FW_OK;
    char *part = all + bytes_of(s->group_rank * bucket->part_n, t);
    if (s->layout.S > 1) {
        state->scatter = (fw_flight){.request = {.label = state->label}, .started = true};
        FW_TRY(fw_comm_reduce_scatter(s->group, part, all, bucket->padded_n, t, &state->scatter.request));
    }
    if (s->layout.R > 1) {
        state->across = (fw_flight){.request = {.label = state->label}, .started = true};
        FW_TRY(fw_comm_all_reduce(s->replicas, part, bucket->part_n, t, &state->across.request));
    }
    return FW_OK;
}

fw_status fw_shard_gradient_wait_for_sum(fw_shard *s, int32_t b) {
    FW_TRY(fw_flight_wait(s->group, &s->state[b].scatter));
    return fw_flight_wait(s->replicas, &s->state[b].across);
}

/* What travels for the bucket in slot `slot`. */
static char *travelling(const fw_shard *s, int slot) {
    return s->layout.options.gradient_t == FW_F32 ? s->gradient_slot[slot].data : s->send[slot];
}

static void leave_slot(fw_shard *s, int32_t b) {
    s->gradient_slot[s->state[b].gradient_slot].bucket = -1;
    s->state[b].gradient_slot = -1;
}

/* The sum has arrived: add this rank's part to what it keeps; the slot is free. */
static fw_status settle(fw_shard *s, int32_t b) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.gradient_t;
    const int slot = s->state[b].gradient_slot;
    FW_TRY(fw_shard_gradient_wait_for_sum(s, b));
    if (slot < 0) return FW_OK;
    if (s->layout.options.sync_each) {
        void *kept = fw_shard_gradient_part(s, b);
        char *part = travelling(s, slot) + bytes_of(s->group_rank * bucket->part_n, t);
        FW_TRY(fw_add(s->device, kept, kept, part, bucket->part_n, t));
    }
    s->state[b].gradient_sent = false;
    leave_slot(s, b);
    return FW_OK;
}

/* ---- the unit's side */

static fw_status enter_slot(fw_shard *s, int32_t b) {
    int slot = 0;
    if (b > 0) {
        slot = 1 + s->next_gradient_slot;
        s->next_gradient_slot = (s->next_gradient_slot + 1) % s->layout.gradient_slot_n;
    }
    int32_t before = s->gradient_slot[slot].bucket;
    if (before >= 0) FW_TRY(settle(s, before));
    s->gradient_slot[slot].bucket = b;
    s->state[b].gradient_slot = slot;
    return fw_zero(s->device, s->gradient_slot[slot].data, bytes_of(fw_shard_bucket(s, b)->padded_n, FW_F32));
}

fw_status fw_shard_gradient_acquire(fw_shard *s, int32_t unit, float **g) {
    int32_t b = s->layout.bucket_of_unit[unit];
    float *base;
    if (s->layout.gradients_away) {
        FW_TRY(fw_shard_gradient_away_acquire(s, b));
        base = s->gradient_slot[s->state[b].gradient_slot].data;
    } else if (s->layout.gradient_units) {
        if (s->state[b].gradient_sent) FW_TRY(settle(s, b)); /* by an earlier micro-batch */
        if (s->state[b].gradient_slot < 0) FW_TRY(enter_slot(s, b));
        base = s->gradient_slot[s->state[b].gradient_slot].data;
    } else {
        base = fw_shard_gradient_full(s, b);
    }
    *g = base + fw_shard_unit_at(s, unit);
    return FW_OK;
}

fw_status fw_shard_reduce(fw_shard *s, int32_t unit, bool last_micro_batch) {
    int32_t b = s->layout.bucket_of_unit[unit];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_shard_options *o = &s->layout.options;
    if (unit != bucket->first_unit) return FW_OK; /* backward comes to the bucket's first unit last */
    if (last_micro_batch && b == s->layout.bucket_n - 1) FW_TRY(fw_shard_record_fetch_first(s)); /* backward begins */
    if (s->layout.gradients_away) return fw_shard_gradient_away_reduce(s, b, last_micro_batch);
    const int slot = s->state[b].gradient_slot;
    if (slot >= 0 && o->gradient_t == FW_BF16)
        FW_TRY(fw_cast(s->device, s->send[slot], FW_BF16, s->gradient_slot[slot].data, FW_F32, bucket->padded_n));
    if (o->sync_each) {
        s->state[b].gradient_sent = true;
        return fw_shard_gradient_start_sum(s, b, travelling(s, slot));
    }
    void *kept = fw_shard_gradient_full(s, b);
    if (slot >= 0) {
        FW_TRY(fw_add(s->device, kept, kept, s->send[slot], bucket->padded_n, o->gradient_t));
        leave_slot(s, b);
    }
    return last_micro_batch ? fw_shard_gradient_start_sum(s, b, kept) : FW_OK;
}

fw_status fw_shard_finish(fw_shard *s) {
    if (s->layout.gradients_away) return fw_shard_gradient_away_finish(s);
    /* Buckets were started last first; they arrive in that order. */
    for (int32_t b = s->layout.bucket_n - 1; b >= 0; b--) FW_TRY(settle(s, b));
    return FW_OK;
}

/* ---- the owner's side */

/* part: this rank's, as it is kept; room: for as much in fp32, where it is kept in bf16. */
static fw_status as_f32(fw_shard *s, const char *part, char *room, int64_t first_n, int64_t n, float **g) {
    const fw_dtype t = s->layout.options.gradient_t;
    part += bytes_of(first_n, t);
    *g = t == FW_F32 ? (float *)(uintptr_t)part : (float *)(void *)room + first_n;
    return t == FW_F32 ? FW_OK : fw_cast(s->device, *g, FW_F32, part, t, n);
}

/* Kept in memory of the device; slots are empty between finish and backward. */
static fw_status kept_as_f32(fw_shard *s, int32_t b, int64_t first_n, int64_t n, float **g) {
    return as_f32(s, fw_shard_gradient_part(s, b), s->gradient_slot[b == 0 ? 0 : 1].data, first_n, n, g);
}

fw_status fw_shard_gradient_part_f32(fw_shard *s, int32_t b, int64_t first_n, int64_t n, float **g) {
    if (s->layout.gradients_away) {
        char *part;
        FW_TRY(fw_shard_gradient_away_part(s, b, &part));
        return as_f32(s, part, s->gradient_slot[s->state[b].gradient_slot].data, first_n, n, g);
    }
    FW_TRY(kept_as_f32(s, b, first_n, n, g));
    if (s->gradient_host == NULL) return FW_OK;
    float *there = (float *)(void *)s->gradient_host + first_n; /* where it is used */
    FW_TRY(fw_copy(s->device, there, *g, bytes_of(n, FW_F32)));
    *g = there;
    return FW_OK;
}

fw_status fw_shard_gradient_clear(fw_shard *s, int32_t b) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.gradient_t;
    if (s->layout.gradients_away) {
        fw_shard_gradient_away_clear(s, b);
        return FW_OK;
    }
    size_t part_bytes = bytes_of(bucket->part_n, t), before = bytes_of(s->group_rank * bucket->part_n, t);
    /* AdamW has cleared the fp32 gradients that it used; the parts of others are left, and what it used a copy of. */
    if (t != FW_F32 || s->gradient_host != NULL) FW_TRY(fw_zero(s->device, fw_shard_gradient_part(s, b), part_bytes));
    if (!s->layout.gradients_full || s->layout.S == 1) return FW_OK;
    char *all = fw_shard_gradient_full(s, b);
    FW_TRY(fw_zero(s->device, all, before));
    return fw_zero(s->device, all + before + part_bytes, bytes_of(bucket->padded_n, t) - before - part_bytes);
}

fw_status fw_shard_forget_gradients(fw_shard *s) {
    FW_ASSERT(!s->layout.gradients_away);
    for (int32_t b = 0; b < s->layout.bucket_n; b++) {
        const fw_bucket *bucket = fw_shard_bucket(s, b);
        const bool full = s->layout.gradients_full;
        FW_TRY(fw_zero(s->device, full ? fw_shard_gradient_full(s, b) : fw_shard_gradient_part(s, b),
                       bytes_of(full ? bucket->padded_n : bucket->part_n, s->layout.options.gradient_t)));
    }
    return FW_OK;
}

/* Every rank sums the squares of one part of each bucket: its own, or with S = 1 the part that it would own if there
 * were no replicas, so that the bits do not depend on the strategy. */
static int summing_ranks(const fw_shard *s) { return s->layout.S > 1 ? s->layout.S : s->layout.world; }

fw_status fw_shard_gradient_part_squares(fw_shard *s, int32_t b, double *out) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    int64_t first = 0, n = bucket->part_n;
    if (s->layout.S == 1) {
        n = fw_shard_part_n(bucket->n, summing_ranks(s));
        first = s->rank * n < bucket->n ? s->rank * n : bucket->n;
        if (n > bucket->n - first) n = bucket->n - first;
    }
    float *g;
    if (s->layout.gradients_away) /* it is at hand: not fetched for this */
        FW_TRY(as_f32(s, s->state[b].gradient_part, s->gradient_slot[s->state[b].gradient_slot].data, first, n, &g));
    else
        FW_TRY(kept_as_f32(s, b, first, n, &g));
    return fw_sum_squares(s->device, out, g, n);
}

fw_status fw_shard_gradient_squares(fw_shard *s, double *out) {
    double mine = 0, all[FW_COMM_MAX_WORLD];
    for (int32_t b = 0; b < s->layout.bucket_n; b++) {
        double squares = s->state[b].gradient_squares;
        if (!s->layout.gradients_away) FW_TRY(fw_shard_gradient_part_squares(s, b, &squares));
        mine += squares;
    }
    FW_TRY(fw_comm_exchange(s->comm, all, &mine, sizeof mine));
    *out = 0;
    for (int r = 0; r < summing_ranks(s); r++) *out += all[r];
    return FW_OK;
}
