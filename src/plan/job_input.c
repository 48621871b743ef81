#include "plan/job_input.h"

#include "config/options_optim.h"

enum { CHUNK_ROWS_MIN = 16, CHUNK_ROWS_MAX = 1024, CHUNK_BYTES = 64 << 20 };

void fw_plan_input_from_options(fw_plan_input *in, const fw_options *o) {
    static const fw_shard_strategy strategies[] = {[FW_STRATEGY_AUTO] = FW_SHARD_DDP,
                                                   [FW_STRATEGY_DDP] = FW_SHARD_DDP,
                                                   [FW_STRATEGY_ZERO1] = FW_SHARD_ZERO1,
                                                   [FW_STRATEGY_ZERO2] = FW_SHARD_ZERO2,
                                                   [FW_STRATEGY_ZERO3] = FW_SHARD_ZERO3,
                                                   [FW_STRATEGY_HSDP] = FW_SHARD_HSDP,
                                                   [FW_STRATEGY_HSDP_ZERO2] = FW_SHARD_HSDP_ZERO2};
    in->shard = (fw_shard_options){.strategy = strategies[o->strategy],
                                   .t = in->model->t,
                                   .gradient_t = o->gradient_dtype == FW_GRADIENT_BF16 ? FW_BF16 : FW_F32,
                                   .training = true,
                                   .sync_each = o->sync_each_batch == FW_TOGGLE_ON,
                                   .prefetch = (int)o->prefetch,
                                   .wrap = o->wrap == FW_WRAP_MODEL  ? FW_SHARD_WRAP_MODEL
                                           : o->wrap == FW_WRAP_SIZE ? FW_SHARD_WRAP_SIZE
                                                                     : FW_SHARD_WRAP_BLOCK,
                                   .wrap_min_n = o->fsdp_min_num_params,
                                   .optimizer = fw_plan_optimizer(o)};
    static const fw_shard_place places[] = {
        [FW_OFFLOAD_NONE] = FW_SHARD_HERE, [FW_OFFLOAD_CPU] = FW_SHARD_HOST, [FW_OFFLOAD_NVME] = FW_SHARD_FILE};
    in->shard.records = places[o->offload_optimizer];
    in->shard.weights = places[o->offload_params];
    in->shard.update_on_host = in->shard.records != FW_SHARD_HERE;
    if (o->optim == FW_OPTIM_PAGED_ADAMW || o->optim == FW_OPTIM_PAGED_ADAMW_8BIT) in->shard.records = FW_SHARD_HOST;
    in->shard.folder = o->offload_dir != NULL ? o->offload_dir : o->output_dir;
    in->choose_strategy = o->strategy == FW_STRATEGY_AUTO;
    in->choose_sync = o->sync_each_batch == FW_TOGGLE_AUTO;
    in->micro_n = o->gradient_accumulation_steps;
}

fw_optimizer fw_plan_optimizer(const fw_options *o) {
    static const fw_optimizer optimizers[] = {
        [FW_OPTIM_ADAMW] = FW_OPTIMIZER_ADAMW,        [FW_OPTIM_ADAMW_8BIT] = FW_OPTIMIZER_ADAMW_8BIT,
        [FW_OPTIM_PAGED_ADAMW] = FW_OPTIMIZER_ADAMW,  [FW_OPTIM_PAGED_ADAMW_8BIT] = FW_OPTIMIZER_ADAMW_8BIT,
        [FW_OPTIM_LAMB] = FW_OPTIMIZER_LAMB,          [FW_OPTIM_SGD] = FW_OPTIMIZER_SGD,
        [FW_OPTIM_LION] = FW_OPTIMIZER_LION,          [FW_OPTIM_LION_8BIT] = FW_OPTIMIZER_LION_8BIT,
        [FW_OPTIM_ADAFACTOR] = FW_OPTIMIZER_ADAFACTOR};
    fw_optim_settings s;
    if (o->optim == FW_OPTIM_SGD && fw_options_optim_settings(&s, o) == FW_OK && s.momentum > 0)
        return FW_OPTIMIZER_SGD_MOMENTUM;
    return optimizers[o->optim];
}

fw_activation_mode fw_plan_activation_mode(fw_recompute recompute) {
    static const fw_activation_mode modes[] = {[FW_RECOMPUTE_OFF] = FW_ACTIVATIONS_KEEP,
                                               [FW_RECOMPUTE_ON] = FW_ACTIVATIONS_RECOMPUTE,
                                               [FW_RECOMPUTE_SELECTIVE] = FW_ACTIVATIONS_SELECTIVE};
    return modes[recompute];
}

fw_adapter_request fw_plan_adapter_request(const fw_options *o) {
    static const fw_adapter_bias biases[] = {[FW_LORA_BIAS_NONE] = FW_ADAPTER_BIAS_NONE,
                                             [FW_LORA_BIAS_ALL] = FW_ADAPTER_BIAS_ALL,
                                             [FW_LORA_BIAS_LORA_ONLY] = FW_ADAPTER_BIAS_LORA_ONLY};
    static const fw_adapter_init starts[] = {[FW_LORA_INIT_DEFAULT] = FW_ADAPTER_INIT_DEFAULT,
                                             [FW_LORA_INIT_GAUSSIAN] = FW_ADAPTER_INIT_GAUSSIAN,
                                             [FW_LORA_INIT_RANDOM] = FW_ADAPTER_INIT_RANDOM};
    return (fw_adapter_request){.r = o->lora_r,
                                .alpha = o->lora_alpha,
                                .dropout = o->lora_dropout,
                                .target_modules = o->lora_target_modules,
                                .exclude_modules = o->lora_exclude_modules,
                                .modules_to_save = o->lora_modules_to_save,
                                .layers_to_transform = o->lora_layers_to_transform,
                                .rank_pattern = o->lora_rank_pattern,
                                .alpha_pattern = o->lora_alpha_pattern,
                                .rslora = o->use_rslora,
                                .dora = o->use_dora,
                                .bias = biases[o->lora_bias],
                                .init = starts[o->lora_init]};
}

fw_packed_options fw_plan_packed_options(const fw_options *o) {
    return (fw_packed_options){.kind = o->bnb_4bit_quant_type == FW_BNB_FP4 ? FW_QUANT_FP4 : FW_QUANT_NF4,
                               .block = FW_QUANT_BLOCK,
                               .nested = o->use_bnb_nested_quant,
                               .nested_block = FW_QUANT_NESTED_BLOCK};
}

fw_status fw_plan_adapted_model(fw_model *m, const fw_model_config *config, fw_dtype t, const fw_options *o) {
    const fw_adapter_request request = fw_plan_adapter_request(o);
    FW_TRY(fw_model_init_adapted(m, config, t, &request));
    fw_adapter_request *kept = &m->adapter.request;
    kept->target_modules = kept->modules_to_save = kept->layers_to_transform = NULL;
    kept->rank_pattern = kept->alpha_pattern = kept->exclude_modules = NULL;
    return FW_OK;
}

int64_t fw_plan_chunk_rows(int64_t asked, const fw_model *m, int64_t row_n) {
    int64_t row_bytes = m->config.V * (int64_t)(sizeof(float) + (m->t == FW_F32 ? 0 : fw_dtype_bytes(m->t)));
    int64_t rows = CHUNK_BYTES / row_bytes;
    if (rows < CHUNK_ROWS_MIN) rows = CHUNK_ROWS_MIN;
    if (rows > CHUNK_ROWS_MAX) rows = CHUNK_ROWS_MAX;
    if (asked > 0) rows = asked;
    if (rows > row_n) rows = row_n;
    return rows > 0 ? rows : 1;
}
