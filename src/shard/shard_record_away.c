/* Records that are somewhere else between updates: in memory of the host, or in the file.
 *
 * Those of bucket 0 have a buffer that nothing else fits into, so they stay in it. The others come into one of a few
 * buffers in turn. An update goes through buckets in ascending order: while one is updated the next is on its way in and
 * the one before on its way out, so from a file three are needed; to and from memory of the host a copy waits, and one
 * does. */
#include "shard/shard_record_away.h"

#include "shard/shard_internal.h"

void fw_shard_record_plan_away(fw_shard_layout *l, fw_arena *arena, const char *what) {
    const fw_shard_options *o = &l->options;
    const bool file = o->records == FW_SHARD_FILE;
    uint64_t away = file ? l->bytes.file : 0;
    size_t largest = 0;
    for (int32_t b = 1; b < l->bucket_n; b++) {
        l->bucket[b].record_away_at = away;
        away += fw_spill_round(l->bucket[b].record.bytes);
        if (l->bucket[b].record.bytes > largest) largest = l->bucket[b].record.bytes;
    }
    l->record_slot_n = file ? FW_SHARD_RECORD_SLOTS : 1;
    if (l->record_slot_n > l->bucket_n - 1) l->record_slot_n = l->bucket_n - 1;
    l->record_edge_bytes = fw_spill_round(l->bucket[0].record.bytes);
    l->record_block_bytes = fw_spill_round(largest);
    /* as much again as it takes to begin at a whole page */
    l->bytes.record_slots = l->record_edge_bytes + (size_t)l->record_slot_n * l->record_block_bytes + FW_SPILL_ALIGN;
    l->block.record_slots = fw_arena_add(arena, file ? FW_MEMORY_HOST : FW_MEMORY_DEVICE, what, l->bytes.record_slots);
    if (file) {
        l->bytes.file = away;
    } else {
        l->bytes.host += (size_t)away;
        l->block.record_store = fw_arena_add(arena, FW_MEMORY_HOST, "optimizer state, paged", (size_t)away);
    }
}

void fw_shard_record_away_lay_out(fw_shard *s, const fw_arena *arena) {
    const fw_shard_layout *l = &s->layout;
    char *base = fw_arena_at(arena, l->block.record_slots);
    s->record_store = fw_arena_at(arena, l->block.record_store);
    if (base == NULL) return;
    base += (FW_SPILL_ALIGN - (uintptr_t)base % FW_SPILL_ALIGN) % FW_SPILL_ALIGN;
    s->record_slot[0] = (fw_slot){base, -1};
    for (int i = 1; i <= l->record_slot_n; i++)
        s->record_slot[i] = (fw_slot){base + l->record_edge_bytes + (size_t)(i - 1) * l->record_block_bytes, -1};
}

/* ---- in and out */

static fw_status settle(fw_shard *s, int32_t b) {
    return s->spill == NULL ? FW_OK : fw_spill_wait(s->spill, &s->state[b].record_move);
}

static fw_status begin_in(fw_shard *s, int32_t b, char *data) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    if (b == 0) return FW_OK;
    if (s->spill == NULL)
        return fw_copy(s->device, data, s->record_store + bucket->record_away_at, bucket->record.bytes);
    return fw_spill_read(s->spill, &s->state[b].record_move, data, bucket->record_away_at, bucket->record.bytes);
}

static fw_status begin_out(fw_shard *s, int32_t b, const char *data) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    if (b == 0) return FW_OK;
    if (s->spill == NULL)
        return fw_copy(s->device, s->record_store + bucket->record_away_at, data, bucket->record.bytes);
    return fw_spill_write(s->spill, &s->state[b].record_move, data, bucket->record_away_at, bucket->record.bytes);
}

/* The buffer that bucket b would come into: a free one, or the one whose bucket was used longest ago and is not needed now.
 * `keep`: its buffer is not taken. */
static fw_status enter_slot(fw_shard *s, int32_t b, int32_t keep) {
    int slot = 0;
    if (b > 0) {
        for (slot = 1; slot <= s->layout.record_slot_n && s->record_slot[slot].bucket >= 0;) slot++;
        if (slot > s->layout.record_slot_n) {
            do {
                slot = 1 + s->next_record_slot;
                s->next_record_slot = (s->next_record_slot + 1) % s->layout.record_slot_n;
            } while (s->record_slot[slot].bucket == keep);
            const int32_t before = s->record_slot[slot].bucket;
            FW_TRY(settle(s, before));
            s->state[before].record_slot = -1;
        }
    }
    s->record_slot[slot].bucket = b;
    s->state[b].record_slot = slot;
    return begin_in(s, b, s->record_slot[slot].data);
}

/* Begin to bring in what will be opened next, without giving up the buffer of bucket `keep`. */
static fw_status fetch(fw_shard *s, int32_t b, int32_t keep) {
    if (s->layout.record_slot_n == 0 || b >= s->layout.bucket_n || s->state[b].record_slot >= 0) return FW_OK;
    if (s->layout.record_slot_n == 1 && keep > 0 && b > 0) return FW_OK; /* it has the only one */
    return enter_slot(s, b, keep);
}

fw_status fw_shard_record_away_open(fw_shard *s, int32_t b, fw_shard_record_use use, char **out) {
    fw_bucket_state *state = &s->state[b];
    if (state->record_slot < 0) FW_TRY(enter_slot(s, b, -1));
    FW_TRY(settle(s, b)); /* it may be on its way in, or out, which leaves it as it is */
    if (use == FW_RECORD_UPDATE) state->record_changed = true;
    *out = s->record_slot[state->record_slot].data;
    return s->spill == NULL ? FW_OK : fetch(s, b + 1, b);
}

fw_status fw_shard_record_away_close(fw_shard *s, int32_t b) {
    fw_bucket_state *state = &s->state[b];
    if (state->record_changed) FW_TRY(begin_out(s, b, s->record_slot[state->record_slot].data));
    state->record_changed = false;
    return FW_OK;
}

fw_status fw_shard_record_fetch_first(fw_shard *s) {
    if (s->spill == NULL) return FW_OK;
    for (int32_t b = 1; b <= s->layout.record_slot_n; b++) FW_TRY(fetch(s, b, b - 1));
    return FW_OK;
}
