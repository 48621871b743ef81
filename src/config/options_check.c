/* Rules between options, and the values that follow from others. */
#include "config/lookup.h"

#include "base/alloc.h"
#include "base/log.h"
#include "config/options_adapter.h"
#include "config/options_optim.h"
#include "config/options_saving.h"
#include "config/options_sharding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static fw_status need(const fw_options *o, fw_option_id id) {
    const fw_option_info *info = fw_option_get(id);
    fw_command_info command = fw_command_get(o->command);
    const char *text;
    memcpy(&text, (const char *)o + info->offset, sizeof text);
    if (text != NULL) return FW_OK;
    if ((int)id == command.positional)
        return fw_fail(FW_ERR_OPTION, "finewire %s needs %s %s: finewire %s PATH", command.name,
                       strchr("aeiou", info->name[0]) != NULL ? "an" : "a", info->name, command.name);
    const char *kind = info->type == FW_TYPE_TEXT ? "TEXT" : "PATH";
    return fw_fail(FW_ERR_OPTION, "finewire %s needs --%s %s%s", command.name, info->name, kind,
                   command.positional == FW_OPTION_recipe ? " (or a line of the recipe)" : "");
}

/* TrainingArguments take a truth value here. */
static fw_status resolve_resume(fw_options *o) {
    bool truth;
    if (fw_value_read_bool(&truth, o->resume_from_checkpoint) != NULL) {
        if (o->resume_from_checkpoint[0] == 0)
            return fw_fail(FW_ERR_OPTION, "resume_from_checkpoint is empty; write auto, never or a folder");
        return FW_OK;
    }
    char *word;
    FW_TRY(fw_strdup(&word, truth ? "auto" : "never"));
    fw_free(o->resume_from_checkpoint);
    o->resume_from_checkpoint = word;
    return FW_OK;
}

static fw_status check_train(fw_options *o) {
    FW_TRY(fw_options_check_adapter(o)); /* it may set use_peft */
    if (o->load_in_4bit && !o->use_peft)
        return fw_fail(FW_ERR_OPTION,
                       "load_in_4bit needs use_peft or adapter_name_or_path: weights in 4 bits are frozen, and an "
                       "adapter is trained");
    FW_TRY(need(o, FW_OPTION_model_name_or_path));
    FW_TRY(fw_options_check_optim(o));
    if (o->command == FW_COMMAND_TRAIN) {
        FW_TRY(need(o, FW_OPTION_dataset_name));
        FW_TRY(need(o, FW_OPTION_output_dir));
    }
    if (o->max_steps == 0)
        return fw_fail(FW_ERR_OPTION,
                       "max_steps is 0, which trains nothing; it must be at least 1, or -1 to go by num_train_epochs");
    if (o->warmup_steps >= 1 && o->warmup_steps != floor(o->warmup_steps))
        return fw_fail(FW_ERR_OPTION,
                       "warmup_steps is %g; it must be a whole number of steps, or below 1 for a part of all steps",
                       o->warmup_steps);
    if (o->eval_strategy != FW_WHEN_NO && o->eval_dataset == NULL && o->val_size == 0)
        return fw_fail(FW_ERR_OPTION,
                       "eval_strategy is %s, but there is no eval_dataset; name a file, hold some conversations out "
                       "(val_size), or set eval_strategy to no",
                       fw_when_words[o->eval_strategy]);
    if (o->val_size > 0 && o->eval_dataset != NULL)
        return fw_fail(FW_ERR_OPTION,
                       "there is an eval_dataset, and val_size %g would hold out another; leave out one of them",
                       o->val_size);
    FW_TRY(resolve_resume(o));
    FW_TRY(fw_options_check_saving(o));
    FW_TRY(fw_options_resolve_sharding(o));
    if (o->data_seed < 0) o->data_seed = o->seed;
    if (o->eval_steps == 0) o->eval_steps = o->logging_steps;
    return FW_OK;
}

/* " (8)" */
static const char *words_of(int64_t n, char out[32]) {
    snprintf(out, 32, " (%lld)", (long long)n);
    return out;
}

fw_status fw_options_resolve_batch(fw_options *o, int world) {
    if (o->train_batch_size == 0) return FW_OK;
    const int64_t all = o->train_batch_size;
    const bool has_micro = fw_options_given(o, FW_OPTION_per_device_train_batch_size);
    const bool has_steps = fw_options_given(o, FW_OPTION_gradient_accumulation_steps);
    int64_t micro = o->per_device_train_batch_size, steps = o->gradient_accumulation_steps;
    if (!has_micro) micro = all / (steps * world);
    if (has_micro && !has_steps) steps = all / (micro * world);
    char origin[128];
    if (micro < 1 || steps < 1 || micro * steps * world != all)
        return fw_fail(FW_ERR_OPTION,
                       "train_batch_size is %lld (%s), which is not per_device_train_batch_size%s x "
                       "gradient_accumulation_steps%s x %d rank%s; change one of them, or leave train_batch_size out",
                       (long long)all, fw_options_origin(o, FW_OPTION_train_batch_size, origin, sizeof origin),
                       has_micro ? words_of(micro, (char[32]){0}) : "", has_steps ? words_of(steps, (char[32]){0}) : "",
                       world, world == 1 ? "" : "s");
    o->per_device_train_batch_size = micro;
    o->gradient_accumulation_steps = steps;
    return fw_options_resolve_sharding(o); /* some of its rules hold without accumulation only */
}

/* An adapter may name its base. */
static fw_status need_model(const fw_options *o) {
    FW_TRY(fw_options_check_packing(o));
    return o->adapter != NULL ? FW_OK : need(o, FW_OPTION_model_name_or_path);
}

static fw_status check_generate(const fw_options *o) {
    FW_TRY(need_model(o));
    FW_TRY(need(o, FW_OPTION_prompt));
    if (o->raw && o->system_prompt != NULL)
        return fw_fail(FW_ERR_OPTION,
                       "--system_prompt has no place in a raw prompt; leave out one of --raw and --system_prompt");
    if (o->temperature == 0 && o->top_p < 1)
        return fw_fail(FW_ERR_OPTION, "--top_p needs --temperature above 0: at 0 the likeliest token is taken");
    return FW_OK;
}

static fw_status check_data(fw_options *o) {
    FW_TRY(need(o, FW_OPTION_dataset_name));
    FW_TRY(need(o, FW_OPTION_model_name_or_path));
    if (o->data_seed < 0) o->data_seed = o->seed;
    return FW_OK;
}

/* The sweep of sizes. */
static fw_status check_bench(const fw_options *o) {
    if (o->minbytes > o->maxbytes)
        return fw_fail(
            FW_ERR_OPTION,
            "minbytes is %lld and maxbytes %lld: the smallest buffer (-b) must not be larger than the largest "
            "(-e)",
            (long long)o->minbytes, (long long)o->maxbytes);
    if (fw_options_given(o, FW_OPTION_stepfactor) && o->stepfactor < 2)
        return fw_fail(FW_ERR_OPTION,
                       "stepfactor is %lld: the sizes would not grow; it must be at least 2 (-f 2), or give stepbytes "
                       "(-i) instead",
                       (long long)o->stepfactor);
    if (o->stepfactor > 0 && o->stepbytes > 0)
        return fw_fail(FW_ERR_OPTION,
                       "stepfactor (-f) and stepbytes (-i) are two ways from one size to the next; leave "
                       "one of them out");
    return FW_OK;
}

static fw_status check_plan(fw_options *o) {
    FW_TRY(need(o, FW_OPTION_model_name_or_path));
    const fw_option_origin gpus = o->origin[FW_OPTION_gpus].from, ranks = o->origin[FW_OPTION_num_processes].from;
    if (gpus == FW_FROM_DEFAULT || ranks > gpus) /* two words for one thing: the one that counts more */
        o->gpus = ranks == FW_FROM_DEFAULT ? 0 : o->num_processes;
    else if (ranks == gpus && o->gpus != o->num_processes)
        return fw_fail(FW_ERR_OPTION, "gpus is %lld and num_processes is %lld; leave out one of them",
                       (long long)o->gpus, (long long)o->num_processes);
    if (o->device == FW_DEVICE_CPU || o->device == FW_DEVICE_REF)
        if (o->gpu != NULL)
            return fw_fail(FW_ERR_OPTION, "device is %s, but a card is named (--gpu %.60s); leave out one of them",
                           fw_device_choice_words[o->device], o->gpu);
    if (o->use_peft && o->method == FW_METHOD_FULL)
        return fw_fail(FW_ERR_OPTION,
                       "method is full, which trains all weights, but use_peft asks for an adapter; leave "
                       "out one of them");
    if (o->load_in_4bit && o->method == FW_METHOD_LORA)
        return fw_fail(FW_ERR_OPTION, "method is lora, but load_in_4bit asks for qlora; leave out one of them");
    if (o->load_in_4bit && !o->use_peft && o->method != FW_METHOD_QLORA)
        return fw_fail(FW_ERR_OPTION,
                       "load_in_4bit needs use_peft: weights in 4 bits are frozen, and an adapter is trained");
    if (o->use_peft && o->method == FW_METHOD_AUTO) o->method = o->load_in_4bit ? FW_METHOD_QLORA : FW_METHOD_LORA;
    return fw_options_resolve_sharding(o);
}

fw_status fw_options_check(fw_options *o) {
    switch (o->command) {
    case FW_COMMAND_TRAIN:
    case FW_COMMAND_BENCH_STEP: return check_train(o);
    case FW_COMMAND_EVAL: FW_TRY(need_model(o)); return need(o, FW_OPTION_dataset_name);
    case FW_COMMAND_GENERATE: return check_generate(o);
    case FW_COMMAND_MERGE: FW_TRY(need(o, FW_OPTION_adapter)); return need(o, FW_OPTION_output);
    case FW_COMMAND_IMPORT: FW_TRY(need(o, FW_OPTION_file)); return need(o, FW_OPTION_output);
    case FW_COMMAND_TOPO: return FW_OK;
    case FW_COMMAND_DOCTOR: return FW_OK;
    case FW_COMMAND_BENCH: return check_bench(o);
    case FW_COMMAND_PLAN: return check_plan(o);
    case FW_COMMAND_CKPT_LS:
    case FW_COMMAND_CKPT_VERIFY:
    case FW_COMMAND_CKPT_RM: return need(o, FW_OPTION_checkpoint);
    case FW_COMMAND_CKPT_EXPORT:
    case FW_COMMAND_CKPT_RESHARD: FW_TRY(need(o, FW_OPTION_checkpoint)); return need(o, FW_OPTION_output);
    case FW_COMMAND_CKPT_DIFF: FW_TRY(need(o, FW_OPTION_checkpoint)); return need(o, FW_OPTION_against);
    case FW_COMMAND_DATA_SHOW:
    case FW_COMMAND_DATA_STATS:
    case FW_COMMAND_DATA_CHECK: return check_data(o);
    case FW_COMMAND_N: break;
    }
    return fw_fail(FW_ERR_INTERNAL, "options of an unknown command");
}

/* FSDP's words for prefetch stand in files of every strategy: only those that ask for it count. */
static bool asks_about_prefetch(const fw_options *o) {
    return fw_options_given(o, FW_OPTION_prefetch) ||
           (o->prefetch > 0 && (fw_options_given(o, FW_OPTION_fsdp_forward_prefetch) ||
                                fw_options_given(o, FW_OPTION_fsdp_backward_prefetch)));
}

static void warn_of_sharding(const fw_options *o) {
    const fw_strategy s = o->strategy;
    const bool fetches = s == FW_STRATEGY_AUTO || s == FW_STRATEGY_ZERO3 || s == FW_STRATEGY_HSDP;
    if (!fetches && asks_about_prefetch(o))
        fw_log_warning("prefetch has no effect with strategy %s, which keeps all weights on every rank",
                       fw_strategy_words[s]);
    else if (o->wrap == FW_WRAP_MODEL && asks_about_prefetch(o))
        fw_log_warning("prefetch has no effect with wrap model, which fetches everything at once");
    if (o->sync_each_batch != FW_TOGGLE_AUTO && o->gradient_accumulation_steps == 1 && o->train_batch_size == 0)
        fw_log_warning("sync_each_batch has no effect with gradient_accumulation_steps 1: gradients are summed once a "
                       "step");
    if (o->fsdp_min_num_params > 0 && o->wrap != FW_WRAP_SIZE)
        fw_log_warning("fsdp_min_num_params has no effect, as wrap is %s", fw_wrap_words[o->wrap]);
}

void fw_options_warn(const fw_options *o) {
    if (o->command != FW_COMMAND_TRAIN) return;
    if (!o->load_in_4bit &&
        (fw_options_given(o, FW_OPTION_bnb_4bit_quant_type) || fw_options_given(o, FW_OPTION_use_bnb_nested_quant)))
        fw_log_warning("bnb_4bit_quant_type and use_bnb_nested_quant have no effect without load_in_4bit");
    warn_of_sharding(o);
    fw_options_warn_adapter(o);
    if (o->warmup_type != FW_WARMUP_LINEAR && o->warmup_steps == 0 &&
        o->origin[FW_OPTION_warmup_type].from > FW_FROM_FILE)
        fw_log_warning("warmup_type has no effect, as warmup_steps is 0");
    if (o->warmup_steps > 0 && o->lr_scheduler_type == FW_LR_CONSTANT)
        fw_log_warning("warmup_steps has no effect with lr_scheduler_type constant; constant_with_warmup warms up");
    if (o->eval_strategy == FW_WHEN_NO && o->eval_dataset != NULL)
        fw_log_warning("eval_dataset is not used, as eval_strategy is no; set it to steps or epoch");
    if (o->eval_strategy == FW_WHEN_NO && o->val_size > 0)
        fw_log_warning("val_size holds conversations out that nothing evaluates, as eval_strategy is no");
    if (o->group_by_length && o->packing)
        fw_log_warning("group_by_length has no effect with packing, which makes sequences of one length");
    if (!o->packing && fw_options_given(o, FW_OPTION_packing_strategy))
        fw_log_warning("packing_strategy has no effect, as packing is false");
    if (o->max_steps > 0 && fw_options_given(o, FW_OPTION_num_train_epochs))
        fw_log_warning("num_train_epochs has no effect, as max_steps is %lld", (long long)o->max_steps);
}

void fw_options_warn_of_choice(const fw_options *o, fw_strategy chosen) {
    const fw_strategy asked = o->strategy;
    const bool may_fetch = asked == FW_STRATEGY_AUTO || asked == FW_STRATEGY_ZERO3 || asked == FW_STRATEGY_HSDP;
    const bool fetches = chosen == FW_STRATEGY_ZERO3 || chosen == FW_STRATEGY_HSDP;
    if (may_fetch && !fetches && o->wrap != FW_WRAP_MODEL && asks_about_prefetch(o))
        fw_log_warning("prefetch has no effect: the strategy is %s, which keeps all weights on every rank",
                       fw_strategy_words[chosen]);
}

int64_t fw_options_warmup_steps(const fw_options *o, int64_t total_steps) {
    double steps = o->warmup_steps >= 1 ? o->warmup_steps : ceil(o->warmup_steps * (double)total_steps);
    return (int64_t)steps;
}
