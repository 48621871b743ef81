#include "config/options_sharding.h"

#include "base/nearest.h"
#include "config/lookup.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_UNIT_PARAMS = 100000000, ORIGIN_BYTES = 160 };

/* "strategy is ddp (the command line)" for messages. */
static const char *said(const fw_options *o, fw_option_id id, char out[2 * ORIGIN_BYTES]) {
    const fw_option_info *info = fw_option_get(id);
    char origin[ORIGIN_BYTES], value[64] = "";
    const char *field = (const char *)o + info->offset, *text;
    int choice;
    int64_t whole;
    switch (info->type) {
    case FW_TYPE_CHOICE:
        memcpy(&choice, field, sizeof choice);
        snprintf(value, sizeof value, "%s", info->choices[choice]);
        break;
    case FW_TYPE_INT:
        memcpy(&whole, field, sizeof whole);
        snprintf(value, sizeof value, "%lld", (long long)whole);
        break;
    case FW_TYPE_TEXT:
        memcpy(&text, field, sizeof text);
        snprintf(value, sizeof value, "%s", text);
        break;
    default: break;
    }
    snprintf(out, 2 * ORIGIN_BYTES, "%s is %s (%s)", info->name, value,
             fw_options_origin(o, id, origin, sizeof origin));
    return out;
}

static fw_status contradiction(const fw_options *o, fw_option_id a, fw_option_id b, const char *advice) {
    char text_a[2 * ORIGIN_BYTES], text_b[2 * ORIGIN_BYTES];
    return fw_fail(FW_ERR_OPTION, "%s contradicts %s; %s", said(o, a, text_a), said(o, b, text_b), advice);
}

/* ---- fsdp: "hybrid_shard auto_wrap" ---- */

enum { NO_STRATEGY = -1 };

static const struct {
    const char *word;
    int strategy;
} fsdp_words[] = {
    {"full_shard", FW_STRATEGY_ZERO3},
    {"shard_grad_op", FW_STRATEGY_ZERO2},
    {"no_shard", FW_STRATEGY_DDP},
    {"hybrid_shard", FW_STRATEGY_HSDP},
    {"hybrid_shard_zero2", FW_STRATEGY_HSDP_ZERO2},
    {"auto_wrap", NO_STRATEGY},
    {"true", FW_STRATEGY_ZERO3},
    {"offload", NO_STRATEGY},
};
enum { FSDP_WORD_N = sizeof fsdp_words / sizeof fsdp_words[0] };

static fw_status refuse_fsdp_word(const char *word) {
    fw_nearest nearest;
    fw_nearest_start(&nearest, word);
    for (size_t i = 0; i < FSDP_WORD_N; i++) fw_nearest_offer(&nearest, fsdp_words[i].word);
    return fw_fail(
        FW_ERR_OPTION, "fsdp: \"%.60s\" is not known; %s%s%s", word,
        nearest.best != NULL ? "did you mean " : "it takes full_shard, shard_grad_op, no_shard, hybrid_shard,",
        nearest.best != NULL ? nearest.best : " hybrid_shard_zero2 and auto_wrap", nearest.best != NULL ? "?" : "");
}

/* The strategy of a list of words, zero3 when it names none; "false" and nothing at all give NO_STRATEGY. */
static fw_status read_fsdp(int *strategy, bool *offload, const char *text) {
    int found = NO_STRATEGY, word_n = 0;
    *strategy = NO_STRATEGY;
    *offload = false;
    if (text == NULL || fw_words_equal(text, "false")) return FW_OK;
    for (const char *c = text + strspn(text, " ,"); *c != 0; c += strspn(c, " ,"), word_n++) {
        size_t n = strcspn(c, " ,"), i = 0;
        char word[64];
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, c);
        while (i < FSDP_WORD_N && !fw_words_equal(fsdp_words[i].word, word)) i++;
        if (i == FSDP_WORD_N) return refuse_fsdp_word(word);
        c += n;
        *offload = *offload || fw_words_equal(word, "offload");
        if (fsdp_words[i].strategy == NO_STRATEGY) continue;
        if (found != NO_STRATEGY && found != fsdp_words[i].strategy)
            return fw_fail(FW_ERR_OPTION, "fsdp is \"%.100s\": it names two strategies; keep one", text);
        found = fsdp_words[i].strategy;
    }
    if (word_n > 0) *strategy = found != NO_STRATEGY ? found : FW_STRATEGY_ZERO3;
    return FW_OK;
}

/* ---- strategy ---- */

static fw_option_origin from(const fw_options *o, fw_option_id id) { return o->origin[id].from; }

/* What fsdp_reshard_after_forward makes of a strategy; NO_STRATEGY: it contradicts it. */
static int reshard(int strategy, fw_toggle again) {
    bool on = again == FW_TOGGLE_ON;
    switch ((fw_strategy)strategy) {
    case FW_STRATEGY_AUTO:
    case FW_STRATEGY_ZERO3: return on ? FW_STRATEGY_ZERO3 : FW_STRATEGY_ZERO2;
    case FW_STRATEGY_HSDP: return on ? FW_STRATEGY_HSDP : FW_STRATEGY_HSDP_ZERO2;
    case FW_STRATEGY_ZERO2:
    case FW_STRATEGY_HSDP_ZERO2: return on ? NO_STRATEGY : strategy;
    default: return NO_STRATEGY;
    }
}

/* FSDP's offload: weights, gradients and optimizer state, to memory of the host. */
static fw_status offload_all(fw_options *o, fw_option_id id) {
    static const fw_option_id ids[] = {FW_OPTION_offload_optimizer, FW_OPTION_offload_params};
    fw_offload *const values[] = {&o->offload_optimizer, &o->offload_params};
    for (int i = 0; i < 2; i++) {
        const fw_option_origin given = from(o, ids[i]);
        if (given == from(o, id) && given != FW_FROM_DEFAULT && *values[i] == FW_OFFLOAD_NONE)
            return contradiction(o, ids[i], id, "FSDP's offload means cpu; leave out one of them");
        if (given < from(o, id)) *values[i] = FW_OFFLOAD_CPU;
    }
    return FW_OK;
}

static fw_status resolve_strategy(fw_options *o) {
    int fsdp, strategy = (int)o->strategy;
    fw_option_id named_by = FW_OPTION_strategy;
    bool offload;
    FW_TRY(read_fsdp(&fsdp, &offload, o->fsdp));
    if (offload) FW_TRY(offload_all(o, FW_OPTION_fsdp));
    if (o->fsdp_cpu_offload) FW_TRY(offload_all(o, FW_OPTION_fsdp_cpu_offload));
    fw_option_origin strategy_from = from(o, FW_OPTION_strategy), fsdp_from = from(o, FW_OPTION_fsdp);
    bool named = strategy_from != FW_FROM_DEFAULT && o->strategy != FW_STRATEGY_AUTO;
    if (fsdp != NO_STRATEGY && named && fsdp != strategy && fsdp_from == strategy_from) {
        bool resharded = fsdp == FW_STRATEGY_ZERO3 || fsdp == FW_STRATEGY_HSDP;
        if (!resharded || o->fsdp_reshard_after_forward == FW_TOGGLE_AUTO ||
            reshard(fsdp, o->fsdp_reshard_after_forward) != strategy)
            return contradiction(o, FW_OPTION_strategy, FW_OPTION_fsdp, "leave out one of them");
    }
    if (fsdp != NO_STRATEGY && (fsdp_from > strategy_from || (fsdp_from == strategy_from && !named))) {
        strategy = fsdp;
        named_by = FW_OPTION_fsdp;
    }
    if (o->fsdp_reshard_after_forward != FW_TOGGLE_AUTO) {
        int resharded = reshard(strategy, o->fsdp_reshard_after_forward);
        bool overruled = from(o, named_by) > from(o, FW_OPTION_fsdp_reshard_after_forward);
        if (resharded == NO_STRATEGY && !overruled)
            return contradiction(o, FW_OPTION_fsdp_reshard_after_forward, named_by,
                                 "it chooses between zero3 (true) and zero2 (false), or hsdp and hsdp_zero2");
        if (!overruled) strategy = resharded;
    }
    o->strategy = (fw_strategy)strategy;
    bool grouped = o->strategy == FW_STRATEGY_HSDP || o->strategy == FW_STRATEGY_HSDP_ZERO2;
    if (o->shard_group_size > 0 && !grouped)
        return fw_fail(FW_ERR_OPTION,
                       "shard_group_size is %lld, but strategy is %s; groups are for hsdp and hsdp_zero2",
                       (long long)o->shard_group_size, fw_strategy_words[o->strategy]);
    return FW_OK;
}

/* ---- wrap and prefetch ---- */

/* `id` implies a wrap: take it, unless wrap itself was given in a place that counts more. */
static fw_status imply_wrap(fw_options *o, fw_option_id id, fw_wrap implied) {
    if (o->wrap != implied && from(o, FW_OPTION_wrap) == from(o, id))
        return contradiction(o, FW_OPTION_wrap, id, "leave out one of them");
    if (from(o, FW_OPTION_wrap) < from(o, id)) o->wrap = implied;
    return FW_OK;
}

static fw_status resolve_wrap(fw_options *o) {
    bool by_class = o->fsdp_transformer_layer_cls_to_wrap != NULL,
         by_size = o->fsdp_min_num_params > 0 && fw_options_given(o, FW_OPTION_fsdp_min_num_params);
    if (by_class && by_size)
        return contradiction(o, FW_OPTION_fsdp_transformer_layer_cls_to_wrap, FW_OPTION_fsdp_min_num_params,
                             "units are wrapped by class or by size, not by both");
    if (by_class) FW_TRY(imply_wrap(o, FW_OPTION_fsdp_transformer_layer_cls_to_wrap, FW_WRAP_BLOCK));
    if (by_size) FW_TRY(imply_wrap(o, FW_OPTION_fsdp_min_num_params, FW_WRAP_SIZE));
    if (o->wrap == FW_WRAP_SIZE && o->fsdp_min_num_params == 0) o->fsdp_min_num_params = DEFAULT_UNIT_PARAMS;
    return FW_OK;
}

/* FSDP has a word for each direction, and files hold both: one that asks for it is enough. */
static fw_status resolve_prefetch(fw_options *o) {
    bool forward = o->fsdp_forward_prefetch != FW_TOGGLE_AUTO;
    bool backward = o->fsdp_backward_prefetch != FW_BACKWARD_PREFETCH_AUTO;
    if (!forward && !backward) return FW_OK;
    bool on = o->fsdp_forward_prefetch == FW_TOGGLE_ON || o->fsdp_backward_prefetch == FW_BACKWARD_PREFETCH_PRE ||
              o->fsdp_backward_prefetch == FW_BACKWARD_PREFETCH_POST;
    fw_option_id id = forward ? FW_OPTION_fsdp_forward_prefetch : FW_OPTION_fsdp_backward_prefetch;
    if (backward && (!forward || from(o, FW_OPTION_fsdp_backward_prefetch) > from(o, id)))
        id = FW_OPTION_fsdp_backward_prefetch;
    if (from(o, FW_OPTION_prefetch) > from(o, id)) return FW_OK;
    if (from(o, FW_OPTION_prefetch) < from(o, id)) {
        o->prefetch = on ? 1 : 0;
        return FW_OK;
    }
    return (o->prefetch > 0) == on ? FW_OK : contradiction(o, FW_OPTION_prefetch, id, "leave out one of them");
}

static bool is_paged(fw_optim optim) { return optim == FW_OPTIM_PAGED_ADAMW || optim == FW_OPTIM_PAGED_ADAMW_8BIT; }

/* ---- offload ---- */

static fw_status resolve_offload(fw_options *o) {
    if (o->offload_optimizer != FW_OFFLOAD_NONE && is_paged(o->optim))
        return contradiction(o, FW_OPTION_offload_optimizer, FW_OPTION_optim,
                             "paged state is brought to the device, offloaded state is updated where it lies");
    if (o->offload_params != FW_OFFLOAD_NONE && o->offload_optimizer == FW_OFFLOAD_NONE)
        return fw_fail(
            FW_ERR_OPTION,
            "offload_params is %s, but offload_optimizer is none: the fp32 weights, which the others are rounded "
            "from, lie with the optimizer's state; give offload_optimizer cpu or nvme too",
            fw_offload_words[o->offload_params]);
    const bool whole = o->strategy == FW_STRATEGY_DDP || o->strategy == FW_STRATEGY_ZERO1 ||
                       o->strategy == FW_STRATEGY_ZERO2 || o->strategy == FW_STRATEGY_HSDP_ZERO2;
    const bool several = o->num_processes > 1 || o->gpus > 1;
    if (o->offload_params != FW_OFFLOAD_NONE && whole && several &&
        from(o, FW_OPTION_offload_params) == FW_FROM_DEFAULT)
        return fw_fail(FW_ERR_OPTION,
                       "%s offloads weights too, and strategy %s keeps all of them on every rank; use full_shard or "
                       "hybrid_shard (zero3, hsdp), or offload_optimizer cpu instead",
                       o->fsdp_cpu_offload ? "fsdp_cpu_offload (FSDP's offload_params)" : "\"offload\" in fsdp",
                       fw_strategy_words[o->strategy]);
    if (o->offload_params != FW_OFFLOAD_NONE && whole && several)
        return contradiction(o, FW_OPTION_offload_params, FW_OPTION_strategy,
                             "only zero3 and hsdp share out the weights, others keep all of them on every rank; write "
                             "strategy zero3, or leave out offload_params");
    if (o->offload_params != FW_OFFLOAD_NONE && o->strategy == FW_STRATEGY_AUTO) o->strategy = FW_STRATEGY_ZERO3;
    const bool in_file = o->offload_optimizer == FW_OFFLOAD_NVME || o->offload_params == FW_OFFLOAD_NVME;
    if (in_file && o->offload_dir == NULL && o->output_dir == NULL && o->command != FW_COMMAND_PLAN)
        return fw_fail(FW_ERR_OPTION, "nvme offloads to a file in offload_dir or output_dir; name one of them");
    return FW_OK;
}

fw_status fw_options_resolve_sharding(fw_options *o) {
    FW_TRY(resolve_strategy(o));
    FW_TRY(resolve_wrap(o));
    FW_TRY(resolve_prefetch(o));
    FW_TRY(resolve_offload(o));
    if (o->gradient_dtype == FW_GRADIENT_BF16 && !o->bf16)
        return fw_fail(FW_ERR_OPTION,
                       "gradient_dtype is bf16, but bf16 is false, which computes all in fp32; leave out one of them");
    if (o->gradient_dtype == FW_GRADIENT_BF16 && o->gradient_accumulation_steps > 1)
        return fw_fail(
            FW_ERR_OPTION,
            "gradient_dtype is bf16 and gradient_accumulation_steps is %lld: micro-batches would be added up in "
            "bf16, which loses what is small; write gradient_dtype fp32, or 1 step with a larger "
            "per_device_train_batch_size",
            (long long)o->gradient_accumulation_steps);
    return FW_OK;
}

fw_status fw_options_shard_group(int *group_size, const fw_options *o, int world, int ranks_on_host) {
    int size = o->shard_group_size > 0 ? (int)o->shard_group_size : ranks_on_host;
    *group_size = size;
    if (world % size == 0) return FW_OK;
    char divisors[256];
    size_t used = 0;
    for (int d = 1; d <= world && used < sizeof divisors; d++) {
        if (world % d != 0) continue;
        const char *between = d == 1 ? "" : d == world ? " or " : ", ";
        used += (size_t)snprintf(divisors + used, sizeof divisors - used, "%s%d", between, d);
    }
    return fw_fail(FW_ERR_OPTION, "%s is %d, which does not divide the %d ranks; shard_group_size may be %s",
                   o->shard_group_size > 0 ? "shard_group_size" : "the number of ranks on this host", size, world,
                   divisors);
}
