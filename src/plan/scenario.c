#include "plan/scenario.h"

#include "plan/job_input.h"
#include "shard/shard_schedule.h"

#include <stdio.h>

const char *fw_plan_part_name(fw_plan_part part) {
    static const char *const names[FW_PLAN_PART_N] = {"weights",        "gradients",  "optimizer state", "activations",
                                                      "gathered units", "loss chunk", "buffers",         "headroom"};
    return names[part];
}

const char *fw_plan_part_key(fw_plan_part part) {
    static const char *const keys[FW_PLAN_PART_N] = {"weights_bytes",     "gradients_bytes", "optimizer_bytes",
                                                     "activations_bytes", "gathered_bytes",  "loss_bytes",
                                                     "buffers_bytes",     "headroom_bytes"};
    return keys[part];
}

static fw_activation_options activations_of(const fw_plan_scenario *s) {
    const int64_t N = s->batch * s->length;
    return (fw_activation_options){.mode = fw_plan_activation_mode(s->recompute),
                                   .recompute_every = s->recompute_every,
                                   .N_max = N,
                                   .n_max = N,
                                   .chunk_n = fw_plan_chunk_rows(s->chunk_rows, s->model, N),
                                   .P = s->length,
                                   .document_n = s->batch,
                                   .longest_n = s->length};
}

bool fw_plan_recomputes_all(const fw_plan_scenario *s) {
    return s->recompute == FW_RECOMPUTE_ON && s->recompute_every <= 1;
}

void fw_plan_recompute_all(fw_plan_scenario *s) {
    s->recompute = FW_RECOMPUTE_ON;
    s->recompute_every = 1;
}

static const fw_model *model_of(const fw_plan_scenario *s) {
    return s->method == FW_METHOD_LORA || s->method == FW_METHOD_QLORA ? s->adapted : s->model;
}

/* Of the device that would compute: on a CPU it is asked, a GPU need not be there. */
static fw_status scratch_of(size_t *out, const fw_plan_scenario *s) {
    const fw_activation_options options = activations_of(s);
    fw_activations sized;
    FW_TRY(fw_activations_init(&sized, model_of(s), &options, NULL));
    const fw_device_limits l = fw_activations_limits(&sized, model_of(s));
    fw_activations_fini(&sized);
    if (s->site.card != NULL) {
        *out = fw_plan_gpu_scratch_bytes(&l, s->site.card);
        return FW_OK;
    }
    return fw_device_scratch_bytes(s->site.device, &l, out);
}

static fw_plan_input input_of(const fw_plan_scenario *s, fw_shard_strategy strategy, size_t scratch_bytes) {
    fw_plan_input in = {.model = model_of(s),
                        .activations = activations_of(s),
                        .shard = s->shard,
                        .choose_sync = s->choose_sync,
                        .world = s->site.world,
                        .micro_n = s->micro_n,
                        .token_bytes = fw_micro_batch_bytes(s->batch * s->length, fw_model_drops(model_of(s))),
                        .scratch_bytes = scratch_bytes};
    in.shard.training = true;
    in.shard.strategy = strategy;
    in.shard.group_n = s->group_n;
    in.shard.apart = s->site.card != NULL;
    return in;
}

fw_memory_budget fw_plan_scenario_budget(const fw_plan_scenario *s) {
    fw_memory_budget b = {
        .ranks = s->site.node_n, .available_bytes = s->site.memory_bytes, .device_bytes = s->device_memory};
    if (s->site.card == NULL) return b;
    b.on_gpu = true;
    b.gpu_bytes = s->site.memory_bytes > s->site.headroom_bytes ? s->site.memory_bytes - s->site.headroom_bytes : 0;
    b.available_bytes = UINT64_MAX; /* the host of a planned machine is not known */
    return b;
}

/* ---- rows */

/* Of the weights, what waits in memory of the host. */
static uint64_t weights_on_host(const fw_shard_layout *l, const fw_arena *a) {
    return l->weights_away && l->block.compute >= 0 ? a->block[l->block.compute].bytes : 0;
}

static void take_rows(fw_plan_case *c, const fw_job_plan *p, const fw_plan_scenario *s) {
    const fw_shard_bytes *b = &p->layout.bytes, *f = &p->frozen.bytes;
    const fw_arena *a = &p->arena;
    const fw_arena_block *activations = &a->block[p->activation_block]; /* kept, in passing, loss */
    c->part[FW_PLAN_WEIGHTS] = b->master + b->compute + f->master + f->compute;
    c->part[FW_PLAN_GRADIENTS] = b->gradient;
    /* On a CPU memory of the host is what it computes in. */
    const bool card = s->site.card != NULL;
    c->part[FW_PLAN_OPTIMIZER] = b->state;
    if (p->layout.options.records == FW_SHARD_HOST) c->part[FW_PLAN_OPTIMIZER] += b->record_slots;
    const uint64_t weights = weights_on_host(&p->layout, a) + weights_on_host(&p->frozen, a);
    if (!card) c->part[FW_PLAN_WEIGHTS] += weights;
    if (!card) c->part[FW_PLAN_OPTIMIZER] += p->memory.away_bytes - weights;
    if (card) c->host_bytes = p->memory.away_bytes;
    c->disk_bytes = fw_job_plan_file_bytes(p);
    c->part[FW_PLAN_GATHERED] = b->gathered + b->gradient_units + f->gathered;
    if (p->unpacked_block >= 0) c->part[FW_PLAN_GATHERED] += a->block[p->unpacked_block].bytes;
    c->part[FW_PLAN_ACTIVATIONS] = activations[0].bytes + activations[1].bytes;
    c->part[FW_PLAN_LOSS] = activations[2].bytes;
    c->arena_bytes = p->memory.device_bytes + p->memory.shared_bytes + p->memory.away_bytes;
    uint64_t named = 0;
    for (int part = 0; part < FW_PLAN_BUFFERS; part++) named += c->part[part];
    c->part[FW_PLAN_BUFFERS] = c->arena_bytes - c->host_bytes - named;
    c->part[FW_PLAN_HEADROOM] = card ? s->site.headroom_bytes : p->memory.host_bytes - p->memory.away_bytes;
}

/* Weights that come in for each stay of a bucket; what is trained is renewed once. */
static fw_status take_weights_away(fw_plan_case *c, const fw_shard_layout *l, const fw_plan_scenario *s) {
    const fw_shard_options *o = &l->options;
    fw_shard_schedule schedule;
    uint64_t read = 0;
    if (!l->weights_away) return FW_OK;
    FW_TRY(fw_shard_schedule_init(&schedule, l, FW_SHARD_PASS_TRAIN));
    for (int32_t i = 0; i < schedule.stay_n; i++) read += (uint64_t)l->bucket[schedule.stay[i].bucket].part_n;
    fw_shard_schedule_fini(&schedule);
    const uint64_t renewed = o->training ? (uint64_t)l->share_n : 0;
    const uint64_t bytes = (read * (uint64_t)s->micro_n + renewed) * fw_dtype_bytes(o->t);
    *(o->weights == FW_SHARD_FILE ? &c->wire.disk_bytes : &c->wire.host_bytes) += bytes;
    return FW_OK;
}

/* What goes to memory of the host and comes back in a step, and to the disk: records both ways, but for those of bucket 0
 * where they are brought in; gradients to where they are used and, updated there, rounded weights. */
static fw_status take_away(fw_plan_case *c, const fw_job_plan *p, const fw_plan_scenario *s) {
    const fw_shard_layout *l = &p->layout;
    const fw_shard_options *o = &l->options;
    if (o->records == FW_SHARD_HERE) return FW_OK;
    const uint64_t moved = l->record_bytes - l->bucket[0].record.bytes, share = (uint64_t)l->share_n;
    const uint64_t gradients = share * fw_dtype_bytes(o->gradient_t);
    if (o->records == FW_SHARD_FILE) c->wire.disk_bytes = 2 * moved + 2 * gradients * (uint64_t)s->micro_n;
    FW_TRY(take_weights_away(c, l, s));
    FW_TRY(take_weights_away(c, &p->frozen, s));
    if (s->site.card == NULL)
        c->wire.host_bytes = 0;
    else
        c->wire.host_bytes += o->update_on_host ? gradients + share * fw_dtype_bytes(o->t) : 2 * moved;
    return FW_OK;
}

static fw_status take_wire(fw_plan_case *c, const fw_job_plan *p, const fw_plan_scenario *s) {
    const fw_shard_layout *l = &p->layout, *gathered = p->frozen_bytes > 0 ? &p->frozen : l;
    fw_plan_wire *w = &c->wire;
    fw_shard_schedule schedule;
    FW_TRY(fw_shard_schedule_init(&schedule, l, FW_SHARD_PASS_TRAIN));
    const int64_t stay_n = schedule.stay_n;
    *w = (fw_plan_wire){.S = l->S,
                        .R = l->R,
                        .scatter_bytes = p->traffic.reduce_scatter_bytes,
                        .across_bytes = p->traffic.all_reduce_bytes,
                        .reduce_each = l->options.sync_each,
                        .unit_n = l->bucket_n,
                        .edge_part = (double)gathered->edge_n / (double)gathered->full_n,
                        .prefetch = l->options.prefetch > 0,
                        .weight_t = l->options.t,
                        .gradient_t = l->options.gradient_t};
    if (!l->weights_full && l->options.t == FW_BF16 && !l->weights_share) w->rounded_n = l->share_n;
    w->reduce_n = l->bucket_n * (w->reduce_each ? s->micro_n : 1);
    if (l->weights_full) {
        w->update_bytes = p->traffic.all_gather_bytes;
        w->update_n = l->bucket_n;
    } else {
        w->gather_bytes = p->traffic.all_gather_bytes;
        w->gather_n = stay_n * s->micro_n;
    }
    fw_shard_schedule_fini(&schedule);
    return take_away(c, p, s);
}

static fw_status plan_case(fw_plan_case *c, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    size_t scratch_bytes;
    FW_TRY(scratch_of(&scratch_bytes, s));
    fw_plan_input in = input_of(s, strategy, scratch_bytes);
    const fw_memory_budget budget = fw_plan_scenario_budget(s);
    fw_packed_table packed = {0};
    fw_job_plan p = {0};
    fw_status status;
    if (s->method == FW_METHOD_QLORA) {
        FW_TRY_OR(fw_packed_table_init(&packed, fw_model_frozen(in.model), &s->packed, NULL, in.model->t), done);
        in.packed = &packed;
    }
    FW_TRY_OR(fw_job_plan_of(&p, &in, &budget, s->site.world == 1 ? FW_SHARD_DDP : strategy), done);
    take_rows(c, &p, s);
    c->held = s->micro_n > 1 && !p.layout.options.sync_each;
    c->trained_n = fw_model_trained(in.model)->parameter_n;
    FW_TRY_OR(take_wire(c, &p, s), done);
done:
    fw_job_plan_fini(&p);
    fw_packed_table_fini(&packed);
    return status;
}

/* ---- the whole case */

static bool is_possible(fw_plan_case *c, const fw_plan_scenario *s) {
    const bool whole = c->strategy == FW_SHARD_DDP || c->strategy == FW_SHARD_ZERO1 || c->strategy == FW_SHARD_ZERO2 ||
                       c->strategy == FW_SHARD_HSDP_ZERO2;
    if (whole && s->site.world > 1 && s->shard.weights != FW_SHARD_HERE) {
        snprintf(c->why, sizeof c->why,
                 "it keeps all weights on every rank, and offload_params offloads shares of them");
        return false;
    }
    if (c->strategy != FW_SHARD_HSDP && c->strategy != FW_SHARD_HSDP_ZERO2) return true;
    if (s->group_n > 0 && s->site.world % s->group_n == 0) return true;
    snprintf(c->why, sizeof c->why, "groups of %d do not share out %d ranks", s->group_n, s->site.world);
    return false;
}

static void judge(fw_plan_case *c, const fw_plan_scenario *s) {
    c->total_bytes = 0;
    for (int part = 0; part < FW_PLAN_PART_N; part++)
        if (__builtin_add_overflow(c->total_bytes, c->part[part], &c->total_bytes)) c->total_bytes = UINT64_MAX;
    const bool on_gpu = s->site.card != NULL;
    c->limit_bytes = on_gpu ? s->site.memory_bytes : s->site.memory_bytes / (uint64_t)s->site.node_n;
    /* --device_memory is about what a rank plans, as in training: on a GPU without what is outside the plan. */
    const uint64_t own = s->device_memory + (on_gpu ? c->part[FW_PLAN_HEADROOM] : 0);
    if (s->device_memory > 0 && own < c->limit_bytes) c->limit_bytes = own;
    c->fits = c->total_bytes <= c->limit_bytes;
}

fw_status fw_plan_case_make(fw_plan_case *c, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    *c = (fw_plan_case){.strategy = strategy};
    if (!is_possible(c, s)) return FW_OK;
    c->possible = true;
    const bool adapter = s->method == FW_METHOD_LORA || s->method == FW_METHOD_QLORA;
    FW_TRY(plan_case(c, s, strategy));
    judge(c, s);
    c->wire.bytes = c->wire.gather_bytes + c->wire.update_bytes + c->wire.scatter_bytes + c->wire.across_bytes;
    fw_plan_work work = {.micro_n = s->micro_n};
    const fw_plan_method_work method = {
        .activations = {.mode = fw_plan_activation_mode(s->recompute), .recompute_every = s->recompute_every},
        .frozen = adapter,
        .chunk_n = activations_of(s).chunk_n,
        .element_bytes = fw_dtype_bytes(s->model->t)};
    fw_plan_count_work(&work, &s->model->config, s->batch, s->length, method);
    c->work_n = (work.forward_n + work.backward_n) * (double)s->micro_n;
    c->again_n = work.again_n * (double)s->micro_n;
    c->again_bytes = work.again_bytes * (double)s->micro_n;
    work.forward_bytes += 6.0 * (double)c->wire.rounded_n; /* 4 read, 2 written */
    work.backward_bytes += 6.0 * (double)c->wire.rounded_n;
    /* AdamW reads and writes weight, gradient and both moments in fp32, and writes a rounded copy; the norm reads the
     * gradient once more. Of a rank: what it owns. */
    const double owned = (double)c->trained_n / (strategy == FW_SHARD_DDP ? 1 : c->wire.S);
    work.update_bytes = owned * (4 * 7 + 4 + 2);
    work.update_on_host = s->shard.update_on_host && s->site.card != NULL && !adapter;
    fw_plan_step_time(&c->times, &s->site, &c->wire, &work);
    return FW_OK;
}
