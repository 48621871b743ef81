/* The arithmetic of the strategies: buckets, what a rank keeps of each, and what crosses between ranks. */
#include "shard/shard.h"

#include "base/alloc.h"
#include "shard/shard_gradients_away.h"
#include "shard/shard_internal.h"
#include "shard/shard_record_away.h"
#include "shard/shard_weights_away.h"

/* Parts are multiples of this many elements: cache lines in every type, and whole blocks of a quantised state. */
enum { PART_ALIGN = FW_STATE_BLOCK_N, STAGING_N = 1 << 20, GRADIENT_SLOTS = 2 };

const char *fw_shard_strategy_name(fw_shard_strategy strategy) {
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3", "hsdp", "hsdp_zero2"};
    return (unsigned)strategy < FW_SHARD_STRATEGY_N ? names[strategy] : "unknown";
}

/* ---- buckets */

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t fw_shard_part_n(int64_t n, int S) {
    int64_t part = (n + S - 1) / S;
    return (part + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
}

static void close_bucket(fw_shard_layout *l, int32_t first_unit, int32_t end_unit) {
    fw_bucket *b = &l->bucket[l->bucket_n];
    *b = (fw_bucket){.first_unit = first_unit, .unit_n = end_unit - first_unit};
    for (int32_t unit = first_unit; unit < end_unit; unit++) {
        l->bucket_of_unit[unit] = l->bucket_n;
        b->n += l->table->unit_size_n[unit];
    }
    b->part_n = fw_shard_part_n(b->n, l->S);
    b->padded_n = b->part_n * l->S;
    b->share_at_n = l->share_n;
    b->full_at_n = l->full_n;
    l->share_n += b->part_n;
    l->full_n += b->padded_n;
    if (l->bucket_n == 0)
        l->edge_n = b->padded_n;
    else
        l->block_n = larger(l->block_n, b->padded_n);
    l->bucket_n++;
}

static void make_buckets(fw_shard_layout *l) {
    int32_t unit_n = l->table->unit_n;
    const fw_shard_options *o = &l->options;
    if (o->wrap == FW_SHARD_WRAP_MODEL) {
        close_bucket(l, 0, unit_n);
        return;
    }
    close_bucket(l, 0, 1);
    int64_t n = 0;
    for (int32_t unit = 1, first = 1; unit < unit_n; unit++) {
        n += l->table->unit_size_n[unit];
        if (o->wrap == FW_SHARD_WRAP_SIZE && n < o->wrap_min_n && unit + 1 < unit_n) continue;
        close_bucket(l, first, unit + 1);
        first = unit + 1;
        n = 0;
    }
}

/* ---- memory */

static size_t bytes_of(int64_t n, fw_dtype t) { return (size_t)n * fw_dtype_bytes(t); }

/* What plans call it. `packed`: of frozen weights in 4 bits. */
static const char *name_of(const fw_shard_options *o, const char *trained, const char *frozen, const char *packed) {
    return o->packed ? packed : o->frozen ? frozen : trained;
}
static const char *name(const fw_shard_options *o, const char *trained, const char *frozen) {
    return name_of(o, trained, frozen, frozen);
}

static void plan_weights(fw_shard_layout *l, fw_arena *arena) {
    const fw_shard_options *o = &l->options;
    const fw_memory_kind crossing = l->S > 1 ? FW_MEMORY_SHARED : FW_MEMORY_DEVICE;
    const bool fp32 = o->t == FW_F32;
    size_t share = bytes_of(l->share_n, FW_F32);
    if (l->weights_in_place) {
        l->bytes.master = share;
        l->bytes.compute = bytes_of(l->full_n, FW_F32) - share;
        l->block.compute = fw_arena_add(arena, crossing, name(o, "weights (fp32)", "frozen weights (fp32)"),
                                        bytes_of(l->full_n, FW_F32));
        return;
    }
    if (fp32 && !l->master_in_record && !l->weights_away) {
        l->bytes.master = share;
        l->block.master =
            fw_arena_add(arena, FW_MEMORY_DEVICE,
                         l->S > 1 ? name(o, "weights (fp32, own share)", "frozen weights (fp32, own share)")
                                  : name(o, "weights (fp32)", "frozen weights (fp32)"),
                         share);
    }
    if (l->weights_full) {
        l->bytes.compute = bytes_of(l->full_n, o->t);
        l->block.compute = fw_arena_add(
            arena, crossing,
            fp32 ? "weights (fp32)" : name_of(o, "weights (bf16)", "frozen weights (bf16)", "frozen weights (4-bit)"),
            l->bytes.compute);
    } else if (l->weights_away) {
        fw_shard_weights_plan_away(l, arena);
    } else if (l->weights_share) {
        l->bytes.compute = bytes_of(l->share_n, o->t);
        l->block.compute =
            fw_arena_add(arena, FW_MEMORY_DEVICE,
                         fp32 ? "weights (fp32, own share)"
                              : name_of(o, "weights (bf16, own share)", "frozen weights (bf16, own share)",
                                        "frozen weights (4-bit, own share)"),
                         l->bytes.compute);
    }
    if (l->weights_full) return;
    l->weight_slot_n = l->bucket_n == 1 ? 0 : l->S == 1 && !l->weights_away ? 1 : 1 + o->prefetch;
    if (l->weight_slot_n > l->bucket_n - 1) l->weight_slot_n = l->bucket_n - 1;
    l->bytes.gathered = bytes_of(l->edge_n + l->weight_slot_n * l->block_n, o->t);
    l->block.gathered =
        fw_arena_add(arena, crossing,
                     fp32 ? name(o, "units at work: weights (fp32)", "units at work: frozen weights (fp32)")
                          : name_of(o, "units at work: weights (bf16)", "units at work: frozen weights (bf16)",
                                    "units at work: frozen weights (4-bit)"),
                     l->bytes.gathered);
}

static void plan_sums(fw_shard_layout *l, fw_arena *arena) {
    int64_t most = 0;
    if (l->options.optimizer != FW_OPTIMIZER_ADAFACTOR) return;
    for (int32_t unit = 0; unit < l->table->unit_n; unit++) most = larger(most, fw_shard_sums_n(l->table, unit));
    l->bytes.sums = bytes_of(most, FW_F32);
    l->block.sums = fw_arena_add(arena, FW_MEMORY_SHARED, "sums of rows and columns", l->bytes.sums);
}

static void plan_records(fw_shard_layout *l, fw_arena *arena) {
    static const char *const what[2][2] = {
        {"optimizer state", "optimizer state (own share)"},
        {"weights (fp32) and optimizer state", "weights (fp32) and optimizer state (own share)"}};
    l->array_n = fw_state_dense_arrays(l->options.optimizer, &l->by_tensor);
    fw_shard_record_lay_out(l);
    plan_sums(l, arena);
    if (l->master_in_record) l->bytes.master = bytes_of(l->share_n, FW_F32);
    l->bytes.state = l->record_bytes - (l->master_in_record ? l->bytes.master : 0);
    const char *name = what[l->master_in_record][l->S > 1];
    const fw_shard_options *o = &l->options;
    if (o->records == FW_SHARD_HERE) {
        l->block.records = fw_arena_add(arena, FW_MEMORY_DEVICE, name, l->record_bytes);
        return;
    }
    if (l->master_in_record) l->bytes.master = 0;
    l->bytes.state = 0;
    if (o->records == FW_SHARD_HOST && o->update_on_host) {
        l->bytes.host += l->record_bytes;
        l->block.records = fw_arena_add(arena, FW_MEMORY_HOST, "optimizer state, offloaded", l->record_bytes);
    } else {
        fw_shard_record_plan_away(l, arena, "optimizer state of units at work");
    }
    if (l->gradients_away) fw_shard_gradients_plan_away(l);
    if (!o->apart || !o->update_on_host) return;
    int64_t n = l->bucket[0].part_n;
    for (int32_t b = 1; b < l->bucket_n; b++) n = larger(n, l->bucket[b].part_n);
    l->bytes.host += bytes_of(n, FW_F32);
    l->block.gradient_host = fw_arena_add(arena, FW_MEMORY_HOST, "gradients on their way", bytes_of(n, FW_F32));
}

static void plan_gradients(fw_shard_layout *l, fw_arena *arena) {
    const fw_shard_options *o = &l->options;
    const bool fp32 = o->gradient_t == FW_F32;
    l->bytes.gradient = l->gradients_away ? 0 : bytes_of(l->gradients_full ? l->full_n : l->share_n, o->gradient_t);
    if (l->gradients_away)
        l->block.gradient = -1;
    else if (l->gradients_full)
        l->block.gradient =
            fw_arena_add(arena, FW_MEMORY_SHARED, fp32 ? "gradients (fp32)" : "gradients (bf16)", l->bytes.gradient);
    else
        l->block.gradient =
            fw_arena_add(arena, FW_MEMORY_DEVICE, fp32 ? "gradients (fp32, own share)" : "gradients (bf16, own share)",
                         l->bytes.gradient);
    if (!l->gradient_units) return;
    /* Two, so that one travels while the next is computed; in bf16 it is the rounded copy that travels. */
    l->gradient_slot_n = l->gradients_away ? GRADIENT_SLOTS + 1 : GRADIENT_SLOTS; /* one more for the disk */
    if (l->gradient_slot_n > l->bucket_n - 1) l->gradient_slot_n = l->bucket_n - 1;
    size_t units = bytes_of(l->edge_n + l->gradient_slot_n * l->block_n, FW_F32), send = 0;
    l->block.gradient_units =
        fw_arena_add(arena, fp32 ? FW_MEMORY_SHARED : FW_MEMORY_DEVICE, "units at work: gradients (fp32)", units);
    if (!fp32) {
        send = units / 2;
        l->block.send = fw_arena_add(arena, FW_MEMORY_SHARED, "units at work: gradients (bf16)", send);
    }
    l->bytes.gradient_units = units + send;
}

static void plan_memory(fw_shard_layout *l, fw_arena *arena) {
    const fw_shard_options *o = &l->options;
    const bool sharded = (o->strategy == FW_SHARD_ZERO3 || o->strategy == FW_SHARD_HSDP) && l->S > 1;
    const bool master_alone = o->training && o->t == FW_BF16 && o->gradient_t == FW_F32 && !o->records_leave;
    const bool one = o->strategy == FW_SHARD_DDP || l->S == 1;
    l->block.master = l->block.compute = l->block.gradient = l->block.records = -1;
    l->block.gathered = l->block.gradient_units = l->block.send = l->block.staging = -1;
    l->block.record_slots = l->block.record_store = l->block.gradient_host = l->block.weight_stage = -1;
    l->block.sums = -1;
    l->weights_away = o->weights != FW_SHARD_HERE;
    /* In fp32 the weights are the master, unless what computes with them is not where they are updated. */
    l->master_in_record = o->training && (o->t == FW_BF16 || l->weights_away || (o->apart && o->update_on_host));
    l->weights_full = !sharded && !(one && master_alone) && !l->weights_away;
    l->weights_share = !l->weights_full && (o->t == FW_BF16 ? !master_alone : l->master_in_record);
    l->weights_in_place = l->weights_full && o->t == FW_F32 && !l->master_in_record;
    plan_weights(l, arena);
    if (o->training) {
        l->gradients_away =
            o->records == FW_SHARD_FILE && !o->apart; /* a device's own memory is not read from a disk */
        l->gradients_full = o->strategy == FW_SHARD_DDP || o->strategy == FW_SHARD_ZERO1 || !o->sync_each;
        if (l->gradients_away) l->gradients_full = false;
        l->gradient_units = !l->gradients_full || o->sync_each || o->gradient_t == FW_BF16;
        plan_gradients(l, arena);
        plan_records(l, arena);
    }
    if (l->S == 1 || o->frozen) return;
    int64_t largest = l->edge_n > l->block_n ? l->edge_n : l->block_n;
    l->bytes.staging = bytes_of(largest < STAGING_N ? largest : STAGING_N, FW_F32);
    l->block.staging = fw_arena_add(arena, FW_MEMORY_SHARED, "saving and loading", l->bytes.staging);
}

static fw_status choose_groups(fw_shard_layout *l, int world) {
    const fw_shard_options *o = &l->options;
    const bool hybrid = o->strategy == FW_SHARD_HSDP || o->strategy == FW_SHARD_HSDP_ZERO2;
    l->world = world;
    l->S = world;
    if (o->strategy == FW_SHARD_DDP) l->S = 1;
    if (!o->training && (o->strategy == FW_SHARD_ZERO1 || o->strategy == FW_SHARD_ZERO2)) l->S = 1;
    if (!o->training && o->strategy == FW_SHARD_HSDP_ZERO2) l->S = 1;
    if (hybrid && l->S > 1) {
        if (o->group_n < 1 || world % o->group_n != 0)
            return fw_fail(FW_ERR_OPTION,
                           "shard_group_size is %d, which does not divide the %d ranks; choose a divisor of %d",
                           o->group_n, world, world);
        l->S = o->group_n;
    }
    l->R = world / l->S;
    return FW_OK;
}

/* Weights that are whole on every rank do not wait elsewhere. */
static fw_status check_places(const fw_shard_layout *l) {
    const fw_shard_options *o = &l->options;
    if (o->weights == FW_SHARD_HERE) return FW_OK;
    if (l->world > 1 && o->strategy != FW_SHARD_ZERO3 && o->strategy != FW_SHARD_HSDP)
        return fw_fail(
            FW_ERR_OPTION,
            "offload_params is for strategies that share out the weights, and %s keeps all of them on every rank; "
            "write --strategy zero3 or hsdp, or leave it out",
            fw_shard_strategy_name(o->strategy));
    FW_ASSERT(o->frozen || (o->records != FW_SHARD_HERE && o->update_on_host));
    return FW_OK;
}

fw_status fw_shard_layout_init(fw_shard_layout *l, const fw_param_table *table, const fw_shard_options *options,
                               int world, fw_arena *arena) {
    *l = (fw_shard_layout){.options = *options, .table = table};
    if (!options->training) l->options.records = FW_SHARD_HERE;
    if (l->options.records == FW_SHARD_FILE) l->options.update_on_host = true;
    if (l->options.records != FW_SHARD_HERE) l->options.records_leave = true;
    if (!options->training && !options->frozen) l->options.weights = FW_SHARD_HERE;
    FW_ASSERT(options->gradient_t == FW_F32 || options->t == FW_BF16);
    if (options->optimizer == FW_OPTIMIZER_ADAFACTOR && options->apart && options->update_on_host)
        return fw_fail(FW_ERR_OPTION, "adafactor sums rows and columns where the gradients are: with offload_optimizer "
                                      "on a GPU choose another --optim");
    FW_TRY(choose_groups(l, world));
    FW_TRY(check_places(l));
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(l->bucket, (size_t)table->unit_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(l->bucket_of_unit, (size_t)table->unit_n), fail);
    make_buckets(l);
    plan_memory(l, arena);
    return FW_OK;
fail:
    fw_shard_layout_fini(l);
    return status;
}

void fw_shard_layout_fini(fw_shard_layout *l) {
    fw_free(l->bucket);
    fw_free(l->bucket_of_unit);
    *l = (fw_shard_layout){0};
}

/* ---- traffic */

fw_status fw_shard_traffic_of(fw_shard_traffic *t, const fw_shard_layout *l, int64_t micro_n) {
    *t = (fw_shard_traffic){0};
    const fw_shard_options *o = &l->options;
    uint64_t S = (uint64_t)l->S, R = (uint64_t)l->R, reduce_n = o->sync_each ? (uint64_t)micro_n : 1;
    fw_shard_schedule schedule;
    FW_TRY(fw_shard_schedule_init(&schedule, l, FW_SHARD_PASS_TRAIN));
    for (int32_t b = 0; b < l->bucket_n; b++) {
        uint64_t part_g = bytes_of(l->bucket[b].part_n, o->gradient_t), part_w = bytes_of(l->bucket[b].part_n, o->t);
        if (!o->training) continue;
        t->reduce_scatter_bytes += (S - 1) * part_g * reduce_n;
        t->all_reduce_bytes += 2 * (R - 1) * part_g / R * reduce_n;
        if (l->weights_full) t->all_gather_bytes += (S - 1) * part_w; /* once, after the update */
    }
    if (o->training && o->optimizer == FW_OPTIMIZER_ADAFACTOR) {
        const uint64_t ranks = S == 1 ? (uint64_t)l->world : S;
        for (int32_t unit = 0; unit < l->table->unit_n; unit++)
            t->all_reduce_bytes += 2 * (ranks - 1) * bytes_of(fw_shard_sums_n(l->table, unit), FW_F32) / ranks;
    }
    if (!l->weights_full)
        for (int32_t i = 0; i < schedule.stay_n; i++)
            t->all_gather_bytes +=
                (S - 1) * bytes_of(l->bucket[schedule.stay[i].bucket].part_n, o->t) * (uint64_t)micro_n;
    fw_shard_schedule_fini(&schedule);
    return FW_OK;
}
