/* Shares of weights that wait in memory of the host or in the file. What goes to the file is rounded into a buffer of units
 * at work, which are empty when weights change, and comes back to one; where the device has memory of its own, through one
 * of two buffers in memory of the host. */
#include "shard/shard_weights_away.h"

enum { STAGES = 2 };

static size_t bytes_of(int64_t n, fw_dtype t) { return (size_t)n * fw_dtype_bytes(t); }

void fw_shard_weights_plan_away(fw_shard_layout *l, fw_arena *arena) {
    const fw_shard_options *o = &l->options;
    if (o->weights == FW_SHARD_HOST) {
        const size_t bytes = bytes_of(l->share_n, o->t);
        l->bytes.host += bytes;
        l->block.compute =
            fw_arena_add(arena, FW_MEMORY_HOST, o->frozen ? "frozen weights, offloaded" : "weights, offloaded", bytes);
        return;
    }
    int64_t largest = 0;
    for (int32_t b = 0; b < l->bucket_n; b++) {
        l->bucket[b].weight_away_at = l->bytes.file;
        l->bytes.file += fw_spill_round(bytes_of(l->bucket[b].part_n, o->t));
        if (l->bucket[b].part_n > largest) largest = l->bucket[b].part_n;
    }
    if (!o->apart) return;
    const size_t bytes = STAGES * fw_spill_round(bytes_of(largest, o->t));
    l->bytes.host += bytes;
    l->block.weight_stage =
        fw_arena_add(arena, FW_MEMORY_HOST, o->frozen ? "frozen weights on their way" : "weights on their way", bytes);
}

void fw_shard_weights_away_lay_out(fw_shard *s, const fw_arena *arena) {
    char *base = fw_arena_at(arena, s->layout.block.weight_stage);
    s->stage_n = base != NULL ? STAGES : s->layout.weight_slot_n;
    for (int i = 0; base == NULL && i <= s->layout.weight_slot_n; i++)
        s->weight_stage[i] = (fw_slot){s->weight_slot[i].data, -1};
    if (base == NULL) return;
    const size_t bytes = arena->block[s->layout.block.weight_stage].bytes / STAGES;
    for (int i = 0; i < STAGES; i++) s->weight_stage[i] = (fw_slot){base + (size_t)i * bytes, -1};
}

static fw_status wait_for_stage(fw_shard *s, int stage) {
    const int32_t before = s->weight_stage[stage].bucket;
    s->weight_stage[stage].bucket = -1;
    return before < 0 ? FW_OK : fw_spill_wait(s->spill, &s->state[before].weight_move);
}

/* The next buffer; what was in it has arrived. Of the buffers for units at work the first is bucket 0's. */
static fw_status enter_stage(fw_shard *s, int32_t b, int *out) {
    const int shared = s->layout.options.apart ? 0 : 1;
    int stage = shared + s->next_weight_stage;
    if (shared == 1 && b == 0)
        stage = 0;
    else
        s->next_weight_stage = (s->next_weight_stage + 1) % s->stage_n;
    FW_TRY(wait_for_stage(s, stage));
    s->weight_stage[stage].bucket = b;
    *out = stage;
    return FW_OK;
}

fw_status fw_shard_weights_away_begin_in(fw_shard *s, int32_t b, char *own) {
    const fw_shard_options *o = &s->layout.options;
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    fw_bucket_state *state = &s->state[b];
    const size_t bytes = bytes_of(bucket->part_n, o->t);
    state->weight_coming = true;
    if (o->weights == FW_SHARD_HOST) return fw_copy(s->device, own, fw_shard_compute_part(s, b), bytes);
    FW_TRY(fw_spill_wait(s->spill, &state->weight_move)); /* the update before may still be on its way out */
    if (o->apart) return FW_OK;
    FW_TRY(wait_for_stage(s, state->weight_slot)); /* and what the buffer was left with */
    return fw_spill_read(s->spill, &state->weight_move, own, bucket->weight_away_at, bytes);
}

fw_status fw_shard_weights_away_end_in(fw_shard *s, int32_t b, char *own) {
    const fw_shard_options *o = &s->layout.options;
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    fw_bucket_state *state = &s->state[b];
    const size_t bytes = bytes_of(bucket->part_n, o->t);
    state->weight_coming = false;
    if (o->weights == FW_SHARD_HOST) return FW_OK;
    if (!o->apart) return fw_spill_wait(s->spill, &state->weight_move);
    int stage = 0; /* gcc does not see that it is set where there is no error */
    FW_TRY(enter_stage(s, b, &stage));
    FW_TRY(fw_spill_read(s->spill, &state->weight_move, s->weight_stage[stage].data, bucket->weight_away_at, bytes));
    FW_TRY(fw_spill_wait(s->spill, &state->weight_move));
    return fw_copy(s->device, own, s->weight_stage[stage].data, bytes);
}

static fw_status rounded(fw_device *device, void *out, fw_dtype t, const float *master, int64_t n) {
    return t == FW_F32 ? fw_copy(device, out, master, bytes_of(n, t)) : fw_cast(device, out, t, master, FW_F32, n);
}

fw_status fw_shard_weights_away_open(fw_shard *s, int32_t b, char **data) {
    int stage = 0; /* gcc does not see that it is set where there is no error */
    *data = NULL;
    if (s->layout.options.weights == FW_SHARD_HOST) {
        *data = fw_shard_compute_part(s, b);
        return FW_OK;
    }
    FW_TRY(enter_stage(s, b, &stage));
    FW_TRY(fw_spill_wait(s->spill, &s->state[b].weight_move));
    *data = s->weight_stage[stage].data;
    return FW_OK;
}

fw_status fw_shard_weights_away_close(fw_shard *s, int32_t b, const char *data) {
    const fw_shard_options *o = &s->layout.options;
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    if (o->weights == FW_SHARD_HOST) return FW_OK;
    return fw_spill_write(s->spill, &s->state[b].weight_move, data, bucket->weight_away_at,
                          bytes_of(bucket->part_n, o->t));
}

fw_status fw_shard_weights_away_renew(fw_shard *s, int32_t b, char *record) {
    const float *master = fw_shard_master_part(s, b, record);
    char *data;
    FW_TRY(fw_shard_weights_away_open(s, b, &data));
    FW_TRY(rounded(fw_shard_update_device(s), data, s->layout.options.t, master, fw_shard_bucket(s, b)->part_n));
    return fw_shard_weights_away_close(s, b, data);
}
