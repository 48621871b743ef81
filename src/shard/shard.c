/* Making and closing the engine, and where things lie. The life of a unit: shard_weights.c, shard_gradients.c,
 * shard_update.c. */
#include "shard/shard.h"

#include "base/alloc.h"
#include "shard/shard_internal.h"
#include "shard/shard_record_away.h"
#include "shard/shard_weights_away.h"

#include <stdio.h>

/* ---- where things lie */

int64_t fw_shard_unit_at(const fw_shard *s, int32_t unit) {
    const fw_param_table *t = s->layout.table;
    const fw_bucket *b = fw_shard_bucket(s, s->layout.bucket_of_unit[unit]);
    return t->unit_offset_n[unit] - t->unit_offset_n[b->first_unit];
}

static void *at_element(void *base, int64_t n, fw_dtype t) { return (char *)base + n * (int64_t)fw_dtype_bytes(t); }

/* Where this rank's part starts in an array of all buckets. */
static int64_t own_full_at(const fw_shard *s, int32_t b) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    return bucket->full_at_n + s->group_rank * bucket->part_n;
}

float *fw_shard_master_part(const fw_shard *s, int32_t b, char *record) {
    if (s->layout.master_in_record)
        return (float *)(void *)(record + fw_shard_record_at(&s->layout, b, FW_RECORD_MASTER));
    if (s->layout.weights_in_place) return (float *)(void *)s->compute + own_full_at(s, b);
    return s->master == NULL ? NULL : s->master + fw_shard_bucket(s, b)->share_at_n;
}

void *fw_shard_compute_part(const fw_shard *s, int32_t b) {
    if (s->compute == NULL) return NULL;
    return at_element(s->compute, s->layout.weights_full ? own_full_at(s, b) : fw_shard_bucket(s, b)->share_at_n,
                      s->layout.options.t);
}

void *fw_shard_gradient_full(const fw_shard *s, int32_t b) {
    FW_ASSERT(s->layout.gradients_full);
    return at_element(s->gradient, fw_shard_bucket(s, b)->full_at_n, s->layout.options.gradient_t);
}

void *fw_shard_gradient_part(const fw_shard *s, int32_t b) {
    return at_element(s->gradient, s->layout.gradients_full ? own_full_at(s, b) : fw_shard_bucket(s, b)->share_at_n,
                      s->layout.options.gradient_t);
}

/* ---- making it */

static void name_bucket(fw_bucket_state *state, const fw_bucket *b, int32_t index) {
    int first = (int)b->first_unit - 1, last = first + (int)b->unit_n - 1; /* layers */
    if (index == 0)
        snprintf(state->label, sizeof state->label, b->unit_n == 1 ? "edge" : "model");
    else if (first == last)
        snprintf(state->label, sizeof state->label, "layers.%d", first);
    else
        snprintf(state->label, sizeof state->label, "layers.%d-%d", first, last);
}

/* Slot 0 has edge_n elements, the others block_n each, one behind the other. */
static void lay_out_slots(const fw_shard *s, fw_slot *slot, void *base, int slot_n, fw_dtype t) {
    if (base == NULL) return;
    for (int i = 0; i <= slot_n; i++) {
        int64_t at = i == 0 ? 0 : s->layout.edge_n + (i - 1) * s->layout.block_n;
        slot[i] = (fw_slot){at_element(base, at, t), -1};
    }
}

static void lay_out(fw_shard *s, const fw_arena *arena) {
    const fw_shard_layout *l = &s->layout;
    s->master = fw_arena_at(arena, l->block.master);
    s->compute = fw_arena_at(arena, l->block.compute);
    s->gradient = fw_arena_at(arena, l->block.gradient);
    s->records = fw_arena_at(arena, l->block.records);
    s->gradient_host = fw_arena_at(arena, l->block.gradient_host);
    fw_shard_record_away_lay_out(s, arena);
    s->sums = fw_arena_at(arena, l->block.sums);
    s->staging = fw_arena_at(arena, l->block.staging);
    lay_out_slots(s, s->weight_slot, fw_arena_at(arena, l->block.gathered), l->weight_slot_n, l->options.t);
    lay_out_slots(s, s->gradient_slot, fw_arena_at(arena, l->block.gradient_units), l->gradient_slot_n, FW_F32);
    fw_shard_weights_away_lay_out(s, arena);
    fw_slot send[FW_SHARD_SLOT_MAX] = {0};
    lay_out_slots(s, send, fw_arena_at(arena, l->block.send), l->gradient_slot_n, FW_BF16);
    for (int i = 0; i < FW_SHARD_SLOT_MAX; i++) s->send[i] = send[i].data;
}

/* Shard groups are ranks next to each other, replicas those at the same place of each group. */
static fw_status make_groups(fw_shard *s) {
    const int S = s->layout.S, R = s->layout.R;
    s->group_rank = s->rank % S;
    if (S == s->layout.world)
        s->group = s->comm;
    else if (S > 1)
        FW_TRY(fw_comm_group(&s->group, s->comm, s->rank / S * S, 1, S));
    if (R == s->layout.world)
        s->replicas = s->comm;
    else if (R > 1 && !s->layout.options.frozen) /* replicas meet to sum gradients */
        FW_TRY(fw_comm_group(&s->replicas, s->comm, s->group_rank, S, R));
    return FW_OK;
}

fw_status fw_shard_create(fw_shard **out, const fw_shard_layout *layout, const fw_arena *arena, fw_device *device,
                          fw_comm *comm) {
    *out = NULL;
    fw_shard *s;
    fw_status status;
    FW_TRY(FW_NEW(s));
    s->layout = *layout;
    s->device = device;
    s->comm = comm;
    s->rank = fw_comm_rank(comm);
    lay_out(s, arena);
    FW_TRY_OR(FW_NEW_ARRAY(s->state, (size_t)layout->bucket_n), fail);
    for (int32_t b = 0; b < layout->bucket_n; b++) {
        name_bucket(&s->state[b], &layout->bucket[b], b);
        s->state[b].weight_slot = s->state[b].gradient_slot = s->state[b].record_slot = -1;
    }
    if (layout->bytes.file > 0) {
        const fw_spill_options o = {.folder = layout->options.folder, .bytes = layout->bytes.file};
        FW_TRY_OR(fw_spill_create(&s->spill, &o), fail);
    }
    FW_TRY_OR(fw_shard_schedule_init(&s->schedule[FW_SHARD_PASS_FORWARD], layout, FW_SHARD_PASS_FORWARD), fail);
    FW_TRY_OR(fw_shard_schedule_init(&s->schedule[FW_SHARD_PASS_TRAIN], layout, FW_SHARD_PASS_TRAIN), fail);
    FW_TRY_OR(make_groups(s), fail);
    if (layout->by_tensor) {
        FW_TRY_OR(FW_NEW_ARRAY(s->state_at, (size_t)layout->table->param_n), fail);
        for (int32_t b = 0; b < layout->bucket_n; b++) fw_shard_record_tensors(layout, b, s->group_rank, s->state_at);
    }
    *out = s;
    return FW_OK;
fail:
    fw_shard_destroy(s);
    return status;
}

void fw_shard_destroy(fw_shard *s) {
    if (s == NULL) return;
    fw_shard_end_pages(s);
    /* What is on its way works on memory that is about to go. A job that has failed ends these waits at once. */
    for (int32_t b = 0; s->state != NULL && b < s->layout.bucket_n; b++) {
        fw_bucket_state *state = &s->state[b];
        (void)fw_flight_wait(s->group, &state->weights);
        (void)fw_flight_wait(s->group, &state->scatter);
        (void)fw_flight_wait(s->replicas, &state->across);
    }
    fw_spill_destroy(s->spill);
    if (s->group != s->comm) fw_comm_destroy(s->group);
    if (s->replicas != s->comm) fw_comm_destroy(s->replicas);
    for (int i = 0; i < 2; i++) fw_shard_schedule_fini(&s->schedule[i]);
    fw_free(s->state_at);
    fw_free(s->state);
    fw_free(s);
}

void fw_shard_set_update_device(fw_shard *s, fw_device *device) { s->update_device = device; }

fw_device *fw_shard_update_device(const fw_shard *s) { return s->update_device != NULL ? s->update_device : s->device; }

fw_shard_file fw_shard_file_of(const fw_shard *s) {
    fw_spill_counters c;
    if (s->spill == NULL) return (fw_shard_file){0};
    fw_spill_get_counters(s->spill, &c);
    return (fw_shard_file){fw_spill_way(s->spill), c.read_bytes, c.written_bytes, c.wait_ns};
}

const fw_shard_layout *fw_shard_layout_of(const fw_shard *s) { return &s->layout; }

fw_shard_residency fw_shard_residency_of(const fw_shard *s) { return s->residency; }

/* ---- counting */

static void add_counters(fw_shard_counters *sum, const fw_comm *c) {
    fw_comm_counters one;
    if (c == NULL) return;
    fw_comm_get_counters(c, &one);
    sum->all_reduce_bytes += one.all_reduce.sent_bytes;
    sum->reduce_scatter_bytes += one.reduce_scatter.sent_bytes;
    sum->all_gather_bytes += one.all_gather.sent_bytes;
    sum->wait_ns += one.wait_ns;
    sum->busy_ns += one.busy_ns;
}

void fw_shard_add_group_counters(const fw_shard *s, fw_shard_counters *sum) {
    if (s->group != s->comm) add_counters(sum, s->group);
    if (s->replicas != s->comm) add_counters(sum, s->replicas);
}

void fw_shard_get_counters(const fw_shard *s, fw_shard_counters *out) {
    *out = (fw_shard_counters){0};
    add_counters(out, s->comm);
    fw_shard_add_group_counters(s, out);
}
