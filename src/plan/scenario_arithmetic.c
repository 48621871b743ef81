/* Rows of what training does not have yet: adapters on 4-bit weights. Arithmetic on the rows of a
 * fine-tune and of a model that is only computed with; once training has one of them, its row is to come from there. */
#include "plan/adapter_arithmetic.h"
#include "plan/scenario.h"
#include "shard/shard_schedule.h"

/* A moment in a byte, and for each block of 256 of them one scale of 4 bytes (Dettmers and others 2022). */
static const double moment_8bit = 1 + 4.0 / 256, moment_fp32 = 4;

/* Of one parameter of an adapter. */
static double moment_bytes(fw_optim optim) {
    switch (optim) {
    case FW_OPTIM_ADAMW_8BIT:
    case FW_OPTIM_PAGED_ADAMW_8BIT: return 2 * moment_8bit;
    case FW_OPTIM_LION: return moment_fp32;
    case FW_OPTIM_LION_8BIT: return moment_8bit;
    case FW_OPTIM_SGD:
    case FW_OPTIM_ADAFACTOR: return 0; /* rows and columns: next to nothing */
    case FW_OPTIM_ADAMW:
    case FW_OPTIM_PAGED_ADAMW:
    case FW_OPTIM_LAMB: break;
    }
    return 2 * moment_fp32;
}

/* ---- adapters on 4-bit weights */

/* The frozen model lies as in evaluation: whole on every rank, or in shares that are gathered. Its 4-bit form is smaller by
 * the same part everywhere but for the edge, and needs one matrix in bf16 at a time. */
static void frozen_rows(fw_plan_case *c, const fw_plan_scenario *s, const fw_shard_layout *l) {
    const fw_model_config *g = &s->model->config;
    const double blocks = (double)g->L * fw_adapter_frozen_block_bytes(g), edge = fw_adapter_frozen_edge_bytes(g);
    c->part[FW_PLAN_WEIGHTS] = (uint64_t)((blocks + edge) / (l->weights_full ? 1 : l->S));
    c->part[FW_PLAN_GATHERED] = 2 * (uint64_t)fw_adapter_largest_matrix(g);
    if (!l->weights_full) c->part[FW_PLAN_GATHERED] += (uint64_t)(edge + l->weight_slot_n * blocks / (double)g->L);
}

static fw_status adapter_wire(fw_plan_case *c, const fw_plan_scenario *s, const fw_shard_layout *l, int S,
                              double frozen) {
    fw_plan_wire *w = &c->wire;
    const double n = (double)c->trained_n, world = s->site.world;
    const double gradient = (double)fw_dtype_bytes(s->shard.gradient_t);
    fw_shard_schedule schedule;
    FW_TRY(fw_shard_schedule_init(&schedule, l, FW_SHARD_PASS_TRAIN));
    const int64_t stay_n = schedule.stay_n;
    fw_shard_schedule_fini(&schedule);
    *w = (fw_plan_wire){.S = S,
                        .R = s->site.world / S,
                        .reduce_n = 1, /* small enough for one */
                        .unit_n = l->bucket_n,
                        .edge_part = (double)l->edge_n / (double)l->full_n,
                        .prefetch = l->options.prefetch > 0,
                        .weight_t = l->options.t,
                        .gradient_t = s->shard.gradient_t};
    if (S > 1) {
        w->scatter_bytes = (uint64_t)(gradient * n * (S - 1) / S);
        w->update_bytes = (uint64_t)(2 * n * (S - 1) / S);
        w->update_n = 1;
    }
    w->across_bytes = (uint64_t)(2 * (world / S - 1) / (world / S) * gradient * n / S);
    if (l->weights_full || l->S == 1) return FW_OK;
    w->gather_bytes = (uint64_t)(2 * frozen * (l->S - 1) / l->S * (double)s->micro_n);
    w->gather_n = stay_n * s->micro_n;
    return FW_OK;
}

fw_status fw_plan_case_qlora(fw_plan_case *c, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    const fw_model_config *g = &s->model->config;
    size_t scratch_bytes;
    FW_TRY(fw_plan_scenario_scratch(&scratch_bytes, s));
    fw_plan_input in = fw_plan_scenario_input(s, s->site.world == 1 ? FW_SHARD_DDP : strategy, scratch_bytes);
    const fw_memory_budget budget = fw_plan_scenario_budget(s);
    fw_job_plan p;
    in.choose_sync = false;
    in.shard.training = false; /* frozen: no gradients, no state */
    FW_TRY(fw_job_plan_of(&p, &in, &budget, in.shard.strategy));
    const fw_shard_layout *l = &p.layout;
    const fw_arena_block *activations = &p.arena.block[p.activation_block];
    c->arithmetic = true;
    c->trained_n = s->adapted->trained.parameter_n;
    /* Adapters are shared out by the same strategies: 4 bytes of weight and a copy of 2, gradients in their
     * type, the moments. */
    const bool hybrid = strategy == FW_SHARD_HSDP || strategy == FW_SHARD_HSDP_ZERO2;
    const int S = strategy == FW_SHARD_DDP || s->site.world == 1 ? 1 : hybrid ? s->group_n : s->site.world;
    const double n = (double)c->trained_n, share = n / S;
    const bool weights_shared = strategy == FW_SHARD_ZERO3 || strategy == FW_SHARD_HSDP;
    const bool gradients_shared = weights_shared || strategy == FW_SHARD_ZERO2 || strategy == FW_SHARD_HSDP_ZERO2;
    frozen_rows(c, s, l);
    c->part[FW_PLAN_WEIGHTS] += (uint64_t)(4 * share + 2 * (weights_shared ? share : n));
    c->part[FW_PLAN_GRADIENTS] =
        (uint64_t)((double)fw_dtype_bytes(s->shard.gradient_t) * (gradients_shared ? share : n));
    c->part[FW_PLAN_OPTIMIZER] = (uint64_t)(moment_bytes(s->optim) * share);
    c->part[FW_PLAN_ACTIVATIONS] = activations[0].bytes + activations[1].bytes +
                                   (uint64_t)(2 * s->adapter_r * FW_LINEAR_N * s->batch * s->length) *
                                       (uint64_t)(s->recompute == FW_RECOMPUTE_ON ? 1 : g->L);
    c->part[FW_PLAN_LOSS] = activations[2].bytes;
    c->part[FW_PLAN_BUFFERS] = in.token_bytes + scratch_bytes + l->bytes.staging;
    c->part[FW_PLAN_HEADROOM] = s->site.card != NULL ? s->site.headroom_bytes : p.memory.host_bytes;
    const double frozen = (double)g->L * fw_adapter_frozen_block_bytes(g) + fw_adapter_frozen_edge_bytes(g);
    fw_status status = adapter_wire(c, s, l, S, frozen);
    if (s->optim == FW_OPTIM_PAGED_ADAMW || s->optim == FW_OPTIM_PAGED_ADAMW_8BIT)
        c->host_bytes += c->part[FW_PLAN_OPTIMIZER];
    fw_job_plan_fini(&p);
    return status;
}
