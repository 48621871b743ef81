#include "plan/job_plan.h"

#include <stdio.h>
#include <string.h>

void fw_job_plan_fini(fw_job_plan *p) {
    fw_shard_layout_fini(&p->layout);
    fw_shard_layout_fini(&p->frozen);
    *p = (fw_job_plan){0};
}

static uint64_t sent(const fw_shard_traffic *t) {
    return t->all_reduce_bytes + t->reduce_scatter_bytes + t->all_gather_bytes;
}

/* The weights of the rank: what is trained and, with an adapter, what is frozen beside it; and what both send. */
static fw_status lay_out_weights(fw_job_plan *p, const fw_plan_input *in, const fw_shard_options *shard) {
    const fw_packed_table *packed = in->packed;
    const fw_param_table *frozen_table = packed != NULL ? &packed->words : fw_model_frozen(in->model);
    const fw_shard_options frozen = fw_units_frozen_options(shard, packed != NULL);
    fw_shard_traffic of_frozen;
    if (frozen_table != NULL) FW_TRY(fw_shard_layout_init(&p->frozen, frozen_table, &frozen, in->world, &p->arena));
    p->unpacked_block = -1;
    if (packed != NULL)
        p->unpacked_block = fw_arena_add(&p->arena, FW_MEMORY_DEVICE, "units at work: frozen weights (unpacked)",
                                         (size_t)packed->work_n * fw_dtype_bytes(packed->t));
    FW_TRY(fw_shard_layout_init(&p->layout, fw_model_trained(in->model), shard, in->world, &p->arena));
    if (!shard->training) return FW_OK;
    FW_TRY(fw_shard_traffic_of(&p->traffic, &p->layout, in->micro_n));
    if (frozen_table == NULL) return FW_OK;
    FW_TRY(fw_shard_traffic_of(&of_frozen, &p->frozen, in->micro_n));
    p->frozen_bytes = of_frozen.all_gather_bytes;
    p->traffic.all_gather_bytes += of_frozen.all_gather_bytes;
    return FW_OK;
}

/* Everything for one strategy, whether it fits or not. */
static fw_status lay_out(fw_job_plan *p, const fw_plan_input *in, fw_shard_strategy strategy, bool sync_each) {
    *p = (fw_job_plan){0};
    fw_shard_options shard = in->shard;
    shard.strategy = strategy;
    shard.sync_each = sync_each;
    fw_activations a;
    FW_TRY(fw_activations_init(&a, in->model, &in->activations, NULL));
    fw_status status = lay_out_weights(p, in, &shard);
    /* One piece: the three parts follow each other (their sizes are multiples of the alignment). */
    p->activation_block = fw_arena_add(&p->arena, FW_MEMORY_DEVICE, "activations kept for backward", a.kept_bytes);
    fw_arena_add(&p->arena, FW_MEMORY_DEVICE, "activations in passing", a.work_bytes);
    fw_arena_add(&p->arena, FW_MEMORY_DEVICE, "loss chunk", a.loss_bytes);
    p->token_block = fw_arena_add(&p->arena, FW_MEMORY_DEVICE, "tokens of a micro-batch", in->token_bytes);
    fw_activations_fini(&a);
    if (status == FW_OK) {
        fw_memory_plan_make(&p->memory, &p->arena, in->scratch_bytes, in->host_bytes);
        if (in->copy_bytes > 0) fw_memory_plan_add_host(&p->memory, "copy of the share, for saving", in->copy_bytes);
    }
    if (status != FW_OK) fw_job_plan_fini(p);
    return status;
}

/* "held in full until the last micro-batch; holding takes 1.25 GiB a rank more and sends 3.01 GiB a step less" */
static void say_sync(fw_job_plan *chosen, const fw_job_plan *other, const char *why) {
    const bool each = chosen->layout.options.sync_each;
    const fw_job_plan *held = each ? other : chosen, *reduced = each ? chosen : other;
    const bool more = held->memory.total_bytes >= reduced->memory.total_bytes;
    char memory[FW_PLAN_SIZE_BYTES], wire[FW_PLAN_SIZE_BYTES];
    snprintf(chosen->sync_reason, sizeof chosen->sync_reason,
             "%s%s; holding takes %s a rank %s and sends %s a step less",
             each ? "reduced after every micro-batch" : "held in full until the last micro-batch", why,
             fw_plan_size(memory, more ? held->memory.total_bytes - reduced->memory.total_bytes
                                       : reduced->memory.total_bytes - held->memory.total_bytes),
             more ? "more" : "less", fw_plan_size(wire, sent(&reduced->traffic) - sent(&held->traffic)));
}

/* The strategy with the way of accumulating that was asked for, or the one that fits. Holding is preferred: it sends
 * less, and where all gradients are kept anyway it costs nothing. With one micro-batch both ways send the same, and the
 * one that keeps less is taken, whatever was asked for. */
fw_status fw_job_plan_of(fw_job_plan *p, const fw_plan_input *in, const fw_memory_budget *budget,
                         fw_shard_strategy strategy) {
    const bool keeps_all = strategy == FW_SHARD_DDP || strategy == FW_SHARD_ZERO1;
    bool each = in->shard.sync_each;
    if (in->choose_sync || in->micro_n == 1) each = in->micro_n == 1 && !keeps_all;
    if (in->shard.records == FW_SHARD_FILE) { /* in the file all of them take no more memory than a share */
        FW_TRY(lay_out(p, in, strategy, in->micro_n == 1));
        if (in->micro_n > 1 && in->world > 1 && in->shard.training)
            snprintf(p->sync_reason, sizeof p->sync_reason, "held in the file until the last micro-batch");
        return FW_OK;
    }
    FW_TRY(lay_out(p, in, strategy, each));
    if (in->micro_n == 1 || in->world == 1 || !in->shard.training) return FW_OK;
    fw_job_plan other;
    fw_status status = lay_out(&other, in, strategy, !each);
    if (status == FW_OK && in->choose_sync && !fw_memory_plan_fits(&p->memory, budget) &&
        other.memory.total_bytes < p->memory.total_bytes) {
        fw_job_plan held = *p;
        *p = other;
        other = held;
        say_sync(p, &other, ", since holding all of them does not fit");
    } else if (status == FW_OK) {
        say_sync(p, &other, in->choose_sync ? "" : " as asked");
    }
    fw_job_plan_fini(&other);
    if (status != FW_OK) fw_job_plan_fini(p);
    return status;
}

/* The first that fits, from the one that sends least to the one that keeps least; the last when none does. */
static fw_status choose(fw_job_plan *p, const fw_plan_input *in, const fw_memory_budget *budget) {
    static const fw_shard_strategy order[] = {FW_SHARD_DDP, FW_SHARD_ZERO1, FW_SHARD_ZERO2, FW_SHARD_ZERO3};
    const int order_n = in->world > 1 ? 4 : 1;
    char tried[FW_PLAN_REASON_BYTES] = "", needed[FW_PLAN_SIZE_BYTES], limit[FW_PLAN_SIZE_BYTES];
    for (int i = 0; i < order_n; i++) {
        FW_TRY(fw_job_plan_of(p, in, budget, order[i]));
        bool fits = fw_memory_plan_fits(&p->memory, budget);
        fw_plan_size(needed, fw_memory_plan_needed(&p->memory, budget));
        if (fits || i == order_n - 1) {
            if (i == 0)
                snprintf(p->strategy_reason, sizeof p->strategy_reason, "%s",
                         in->world == 1 ? "one rank" : "the model fits on every rank");
            else
                snprintf(p->strategy_reason, sizeof p->strategy_reason, "%s, %s %s; %s %s %s", tried,
                         fw_plan_size(limit, fw_memory_plan_limit(budget)),
                         fw_memory_plan_limit(budget) == budget->device_bytes ? "allowed" : "free for each",
                         fw_shard_strategy_name(order[i]), fits ? "fits with" : "needs", needed);
            return FW_OK;
        }
        size_t used = strlen(tried);
        snprintf(tried + used, sizeof tried - used, i == 0 ? "%s needs %s a rank" : ", %s %s",
                 fw_shard_strategy_name(order[i]), needed);
        fw_job_plan_fini(p);
    }
    return FW_OK;
}

/* Where the strategy does not fit: another that does, by name; else, where the limit is that of a rank, how many ranks
 * could share the model out so that it does. */
static fw_status advise(char *text, size_t text_bytes, const fw_plan_input *in, const fw_memory_budget *budget) {
    fw_job_plan other;
    char size[FW_PLAN_SIZE_BYTES];
    text[0] = 0;
    if (!in->shard.training) return FW_OK;
    if (in->world > 1 && !in->choose_strategy) {
        FW_TRY(choose(&other, in, budget));
        bool fits = fw_memory_plan_fits(&other.memory, budget);
        if (fits)
            snprintf(text, text_bytes, "--strategy %s needs %s a rank",
                     fw_shard_strategy_name(other.layout.options.strategy),
                     fw_plan_size(size, other.memory.total_bytes));
        fw_job_plan_fini(&other);
        if (fits) return FW_OK;
    }
    for (int world = in->world + 1; budget->device_bytes > 0 && world <= FW_COMM_MAX_WORLD; world++) {
        fw_plan_input more = *in;
        fw_memory_budget each = *budget;
        more.world = each.ranks = world;
        FW_TRY(fw_job_plan_of(&other, &more, &each, FW_SHARD_ZERO3));
        bool fits = fw_memory_plan_fits(&other.memory, &each);
        if (fits)
            snprintf(text, text_bytes, "--num_processes %d with --strategy zero3 needs %s a rank", world,
                     fw_plan_size(size, other.memory.total_bytes));
        fw_job_plan_fini(&other);
        if (fits) return FW_OK;
    }
    return FW_OK;
}

/* What was asked for. On one rank all strategies keep the same, and ddp needs no room to put shares together. */
static fw_status take_asked(fw_job_plan *p, const fw_plan_input *in, const fw_memory_budget *budget) {
    const fw_shard_strategy asked = in->shard.strategy;
    const bool alone = in->world == 1 && in->shard.training;
    FW_TRY(fw_job_plan_of(p, in, budget, alone ? FW_SHARD_DDP : asked));
    if (alone && asked != FW_SHARD_DDP)
        snprintf(p->strategy_reason, sizeof p->strategy_reason, "one rank has nothing to share, as %s would",
                 fw_shard_strategy_name(asked));
    return FW_OK;
}

fw_status fw_job_plan_make(fw_job_plan *p, const fw_plan_input *in, const fw_memory_budget *budget) {
    fw_status status = in->choose_strategy ? choose(p, in, budget) : take_asked(p, in, budget);
    if (status == FW_OK && !fw_memory_plan_fits(&p->memory, budget)) {
        char advice[128];
        status = advise(advice, sizeof advice, in, budget);
        if (status == FW_OK) status = fw_memory_plan_check(&p->memory, budget, advice[0] ? advice : NULL);
    }
    if (status != FW_OK) {
        fw_job_plan_fini(p);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    return FW_OK;
}
