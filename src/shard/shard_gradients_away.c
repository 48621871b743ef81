/* Gradients that are kept in the file.
 *
 * A bucket's gradient is in one of the buffers for units at work while something is done with it, and else in the file:
 *
 *   acquire    the buffer is empty, or holds what earlier micro-batches of the step have added, read back
 *   reduce     before the last micro-batch: all of it goes out; after it: summed over ranks, and this rank's part goes out
 *   part       for the update it comes back, and the next ones with it
 *
 * There is a buffer for the bucket that computes, one for the sum that is on its way between ranks and one for what is on
 * its way to the disk. Bucket 0 has a buffer of its own and stays in it. Squares are summed while the sum is at hand. */
#include "shard/shard_gradients_away.h"

static size_t bytes_of(int64_t n, fw_dtype t) { return (size_t)n * fw_dtype_bytes(t); }

void fw_shard_gradients_plan_away(fw_shard_layout *l) {
    for (int32_t b = 1; b < l->bucket_n; b++) {
        const fw_bucket *bucket = &l->bucket[b];
        const int64_t n = l->options.sync_each ? bucket->part_n : bucket->padded_n;
        l->bucket[b].gradient_away_at = l->bytes.file;
        l->bytes.file += fw_spill_round(bytes_of(n, l->options.gradient_t));
    }
}

/* What is kept of the bucket in slot `slot`: the sum itself, or its rounded copy. */
static char *kept(const fw_shard *s, int slot) {
    return s->layout.options.gradient_t == FW_F32 ? s->gradient_slot[slot].data : s->send[slot];
}

/* With one bucket, which stays, there is no file. */
static fw_status wait_for_disk(fw_shard *s, int32_t b) {
    return s->spill == NULL ? FW_OK : fw_spill_wait(s->spill, &s->state[b].gradient_move);
}

static void leave_slot(fw_shard *s, int32_t b) {
    s->gradient_slot[s->state[b].gradient_slot].bucket = -1;
    s->state[b].gradient_slot = -1;
}

/* After the last micro-batch: the sum has arrived; this rank's part goes out. */
static fw_status send_off(fw_shard *s, int32_t b) {
    fw_bucket_state *state = &s->state[b];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_dtype t = s->layout.options.gradient_t;
    if (state->gradient_life != FW_GRADIENT_SUMMING) return FW_OK;
    FW_TRY(fw_shard_gradient_wait_for_sum(s, b));
    state->gradient_life = FW_GRADIENT_SUMMED;
    state->gradient_part = kept(s, state->gradient_slot) + bytes_of(s->group_rank * bucket->part_n, t);
    FW_TRY(fw_shard_gradient_part_squares(s, b, &state->gradient_squares));
    if (b == 0) return FW_OK;
    return fw_spill_write(s->spill, &state->gradient_move, state->gradient_part, bucket->gradient_away_at,
                          bytes_of(bucket->part_n, t));
}

/* Bucket b's next buffer; what was in it is safe in the file. keep: this bucket's is not taken. */
static fw_status enter_slot(fw_shard *s, int32_t b, int32_t keep) {
    int slot = 0;
    if (b > 0) {
        do {
            slot = 1 + s->next_gradient_slot;
            s->next_gradient_slot = (s->next_gradient_slot + 1) % s->layout.gradient_slot_n;
        } while (s->gradient_slot[slot].bucket == keep && keep > 0 && s->layout.gradient_slot_n > 1);
        const int32_t before = s->gradient_slot[slot].bucket;
        if (before >= 0) {
            FW_TRY(send_off(s, before));
            FW_TRY(wait_for_disk(s, before));
            leave_slot(s, before);
        }
    }
    s->gradient_slot[slot].bucket = b;
    s->state[b].gradient_slot = slot;
    return FW_OK;
}

fw_status fw_shard_gradient_away_acquire(fw_shard *s, int32_t b) {
    fw_bucket_state *state = &s->state[b];
    const size_t bytes = bytes_of(fw_shard_bucket(s, b)->padded_n, FW_F32);
    if (state->gradient_life == FW_GRADIENT_ADDING) return FW_OK; /* another unit, or another use of it */
    const bool is_here = state->gradient_slot >= 0;
    if (!is_here) FW_TRY(enter_slot(s, b, -1));
    FW_TRY(wait_for_disk(s, b));
    char *data = s->gradient_slot[state->gradient_slot].data;
    if (state->gradient_life == FW_GRADIENT_NONE) {
        FW_TRY(fw_zero(s->device, data, bytes));
    } else if (!is_here) {
        FW_TRY(fw_spill_read(s->spill, &state->gradient_move, data, fw_shard_bucket(s, b)->gradient_away_at, bytes));
        FW_TRY(wait_for_disk(s, b));
    }
    state->gradient_life = FW_GRADIENT_ADDING;
    return FW_OK;
}

fw_status fw_shard_gradient_away_reduce(fw_shard *s, int32_t b, bool last_micro_batch) {
    fw_bucket_state *state = &s->state[b];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const int slot = state->gradient_slot;
    char *data = s->gradient_slot[slot].data;
    if (!last_micro_batch) {
        state->gradient_life = FW_GRADIENT_HELD;
        if (b == 0) return FW_OK;
        FW_ASSERT(!s->layout.options.sync_each); /* the file has room for all of it */
        return fw_spill_write(s->spill, &state->gradient_move, data, bucket->gradient_away_at,
                              bytes_of(bucket->padded_n, FW_F32));
    }
    if (s->layout.options.gradient_t == FW_BF16)
        FW_TRY(fw_cast(s->device, s->send[slot], FW_BF16, data, FW_F32, bucket->padded_n));
    state->gradient_life = FW_GRADIENT_SUMMING;
    FW_TRY(fw_shard_gradient_start_sum(s, b, kept(s, slot)));
    if (s->layout.world == 1) return send_off(s, b); /* nothing to wait for */
    for (int i = 1; i <= s->layout.gradient_slot_n; i++)
        if (i != slot && s->gradient_slot[i].bucket >= 0) FW_TRY(send_off(s, s->gradient_slot[i].bucket));
    return FW_OK;
}

fw_status fw_shard_gradient_away_finish(fw_shard *s) {
    for (int32_t b = s->layout.bucket_n - 1; b >= 0; b--) FW_TRY(send_off(s, b));
    return FW_OK;
}

/* Begin to bring back this rank's part, unless it is still there. */
static fw_status fetch(fw_shard *s, int32_t b, int32_t keep) {
    fw_bucket_state *state = &s->state[b];
    if (state->gradient_slot >= 0) return FW_OK;
    FW_TRY(enter_slot(s, b, keep));
    state->gradient_part = kept(s, state->gradient_slot);
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    return fw_spill_read(s->spill, &state->gradient_move, state->gradient_part, bucket->gradient_away_at,
                         bytes_of(bucket->part_n, s->layout.options.gradient_t));
}

fw_status fw_shard_gradient_away_part(fw_shard *s, int32_t b, char **part) {
    FW_ASSERT(s->state[b].gradient_life == FW_GRADIENT_SUMMED);
    FW_TRY(fetch(s, b, -1));
    FW_TRY(wait_for_disk(s, b));
    *part = s->state[b].gradient_part;
    if (s->layout.gradient_slot_n > 1 && b + 1 < s->layout.bucket_n) return fetch(s, b + 1, b);
    return FW_OK;
}

void fw_shard_gradient_away_clear(fw_shard *s, int32_t b) {
    if (s->state[b].gradient_slot >= 0) leave_slot(s, b);
    s->state[b].gradient_life = FW_GRADIENT_NONE;
}
