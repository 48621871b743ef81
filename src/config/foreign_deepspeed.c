/* DeepSpeed's JSON (--deepspeed there and here). "auto" leaves a value to the training options, as in transformers.
 * Source: DeepSpeed's configuration reference and its schedulers (WarmupLR, WarmupDecayLR, WarmupCosineLR). */
#include "config/foreign.h"

#include "config/lookup.h"

#include <stdio.h>

static bool is_true(const fw_leaf *leaf) {
    bool truth;
    return leaf != NULL && fw_value_read_bool(&truth, leaf->text) == NULL && truth;
}

static fw_status set_bf16(fw_foreign *f, const fw_leaf *leaf) {
    if (is_true(leaf)) return fw_foreign_set(f, leaf, "bf16", "true");
    return fw_foreign_set(f, leaf, "bf16", "false");
}

static fw_status set_schedule(fw_foreign *f, const fw_leaf *leaf) {
    static const char *const schedules[][2] = {
        {"WarmupLR", "constant_with_warmup"}, {"WarmupDecayLR", "linear"}, {"WarmupCosineLR", "cosine"}};
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        if (!fw_words_equal(leaf->text, schedules[i][0])) continue;
        FW_TRY(fw_foreign_set(f, leaf, "lr_scheduler_type", schedules[i][1]));
        const fw_leaf *type = fw_foreign_find(f, "scheduler.params.warmup_type");
        return type != NULL ? FW_OK : fw_foreign_set(f, leaf, "warmup_type", "log"); /* the default there */
    }
    return fw_foreign_refuse(f, leaf, "it must be WarmupLR, WarmupDecayLR or WarmupCosineLR");
}

static fw_status set_optimizer(fw_foreign *f, const fw_leaf *leaf) {
    const fw_leaf *coupled = fw_foreign_find(f, "optimizer.params.adam_w_mode");
    static const char *const types[][2] = {
        {"AdamW", "adamw_torch"},    {"Adam", "adamw_torch"}, {"Adam8bit", "adamw_8bit"},
        {"AdamW8bit", "adamw_8bit"}, {"Lamb", "lamb"},        {"Lion", "lion_32bit"},
        {"FusedLion", "lion_32bit"}, {"SGD", "sgd"},          {"Adafactor", "adafactor"}};
    bool truth, known = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !known; i++) {
        known = fw_words_equal(leaf->text, types[i][0]);
        if (known) FW_TRY(fw_foreign_set(f, leaf, "optim", types[i][1]));
    }
    if (!known)
        return fw_foreign_refuse(
            f, leaf, "finewire has AdamW, Adam (as AdamW), Adam8bit, Lamb, Lion, SGD and Adafactor; write one of them");
    if (!fw_words_equal(leaf->text, "Adam") && !fw_words_equal(leaf->text, "Adam8bit")) return FW_OK;
    if (coupled == NULL || fw_value_read_bool(&truth, coupled->text) != NULL || truth) return FW_OK; /* it is AdamW */
    return fw_foreign_refuse(f, coupled, "finewire's weight decay is decoupled (AdamW); write true");
}

/* What only SGD or only Lamb takes: all of it becomes one option, by the first that is there. */
static fw_status set_optim_args(fw_foreign *f, const fw_leaf *leaf) {
    static const char *const keys[] = {"momentum", "dampening", "nesterov", "min_coeff", "max_coeff"};
    char text[256] = "", path[64];
    bool first = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(path, sizeof path, "optimizer.params.%s", keys[i]);
        const fw_leaf *found = fw_foreign_find(f, path);
        if (found == NULL) continue;
        if (first && found != leaf) return FW_OK;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s=%.30s", first ? "" : ",", keys[i], found->text);
        first = false;
    }
    return fw_foreign_set(f, leaf, "optim_args", text);
}

/* The schedule's length there, which is the run's here. */
static fw_status check_steps(fw_foreign *f, const fw_leaf *leaf) {
    int64_t steps;
    if (fw_value_read_int(&steps, leaf->text) == NULL && steps == f->o->max_steps) return FW_OK;
    return fw_foreign_refuse(f, leaf, "the schedule ends with the run; write \"auto\", or the same as max_steps");
}

/* Before offload_optimizer and offload_param there was one switch, for both to memory of the host. */
static fw_status set_cpu_offload(fw_foreign *f, const fw_leaf *leaf) {
    return is_true(leaf) ? fw_foreign_set(f, leaf, "offload_optimizer", "cpu") : FW_OK;
}

static const char no_ratio[] = "all of the state is offloaded or none; write 1.0";
static const char no_fp16[] = "finewire computes in bf16 or fp32; use bf16";
static const char no_quantized[] = "weights and gradients are gathered as they are; write false";
static const char no_elastic[] = "the batch here is fixed; leave it out";
static const char no_activations_away[] = "activations stay where they are computed with; write false";
static const char no_parallel[] = "finewire shares out data and state, not single products; leave it out";

static const fw_foreign_row rows[] = {
    /* batch */
    {.path = "train_batch_size", .option = "train_batch_size"},
    {.path = "train_micro_batch_size_per_gpu", .option = "per_device_train_batch_size"},
    {.path = "gradient_accumulation_steps", .option = "gradient_accumulation_steps"},
    /* precision */
    {.path = "bf16.enabled", .call = set_bf16},
    {.path = "bfloat16.enabled", .call = set_bf16},
    {.path = "fp16.enabled", .allowed = "false", .remark = no_fp16},
    {.path = "fp16.*"},
    {.path = "bf16.bf16_master_weights_and_grads", .allowed = "false", .remark = "weights and moments are fp32 here"},
    {.path = "bf16.bf16_optimizer_states", .allowed = "false", .remark = "weights and moments are fp32 here"},
    {.path = "bf16.check_grad_overflow"}, /* a gradient that is not finite always ends a run here */
    {.path = "bf16.immediate_grad_update"},
    {.path = "amp.enabled", .allowed = "false", .remark = no_fp16},
    {.path = "amp.*"},
    {.path = "torch_autocast.enabled", .allowed = "false", .remark = "see bf16"},
    {.path = "torch_autocast.*"},
    {.path = "data_types.grad_accum_dtype", .option = "gradient_dtype"},
    {.path = "communication_data_type",
     .allowed = "fp32|none",
     .remark = "gradients travel in the type they are held in; see gradient_dtype"},
    /* optimizer and schedule */
    {.path = "gradient_clipping", .option = "max_grad_norm"},
    {.path = "optimizer.type", .call = set_optimizer},
    {.path = "optimizer.params.lr", .option = "learning_rate"},
    {.path = "optimizer.params.betas", .allowed = "[]"},
    {.path = "optimizer.params.betas.0", .option = "adam_beta1"},
    {.path = "optimizer.params.betas.1", .option = "adam_beta2"},
    {.path = "optimizer.params.eps", .option = "adam_epsilon"},
    {.path = "optimizer.params.weight_decay", .option = "weight_decay"},
    {.path = "optimizer.params.adam_w_mode"},
    {.path = "optimizer.params.momentum", .call = set_optim_args},
    {.path = "optimizer.params.dampening", .call = set_optim_args},
    {.path = "optimizer.params.nesterov", .call = set_optim_args},
    {.path = "optimizer.params.min_coeff", .call = set_optim_args},
    {.path = "optimizer.params.max_coeff", .call = set_optim_args},
    {.path = "optimizer.params.torch_adam"},
    {.path = "optimizer.params.fused"},
    {.path = "optimizer.params.bias_correction", .allowed = "true", .remark = "AdamW here corrects the bias"},
    {.path = "optimizer.params.amsgrad", .allowed = "false", .remark = "AdamW here is the plain one"},
    {.path = "optimizer.legacy_fusion"},
    {.path = "scheduler.type", .call = set_schedule},
    {.path = "scheduler.params.warmup_min_lr", .allowed = "0|0.0", .remark = "the warm-up here begins at 0"},
    {.path = "scheduler.params.warmup_min_ratio", .allowed = "0|0.0", .remark = "the warm-up here begins at 0"},
    {.path = "scheduler.params.cos_min_ratio", .allowed = "0|0.0|0.0001", .remark = "the cosine here ends at 0"},
    {.path = "scheduler.params.warmup_max_lr", .option = "learning_rate"},
    {.path = "scheduler.params.warmup_num_steps", .option = "warmup_steps"},
    {.path = "scheduler.params.warmup_type", .option = "warmup_type"},
    {.path = "scheduler.params.total_num_steps", .call = check_steps},
    {.path = "scheduler.params.last_batch_iteration",
     .allowed = "-1",
     .remark = "a resume knows its step; leave it out"},
    /* sharding */
    {.path = "zero_optimization.stage", .option = "zero_stage"},
    {.path = "zero_optimization.offload_optimizer.device", .option = "offload_optimizer"},
    {.path = "zero_optimization.offload_optimizer.nvme_path", .option = "offload_dir"},
    {.path = "zero_optimization.offload_optimizer.ratio", .allowed = "1|1.0", .remark = no_ratio},
    {.path = "zero_optimization.offload_param.device", .option = "offload_params"},
    {.path = "zero_optimization.offload_param.nvme_path", .option = "offload_dir"},
    {.path = "zero_optimization.cpu_offload", .call = set_cpu_offload},
    {.path = "zero_optimization.cpu_offload_params", .allowed = "false", .remark = "write offload_param"},
    {.path = "zero_optimization.cpu_offload_use_pin_memory"},
    /* Sizes and switches of DeepSpeed's own buffers: here they are planned from the units of the model. */
    {.path = "zero_optimization.offload_optimizer.pin_memory"},
    {.path = "zero_optimization.offload_optimizer.buffer_count"},
    {.path = "zero_optimization.offload_optimizer.pipeline_read"},
    {.path = "zero_optimization.offload_optimizer.pipeline_write"},
    {.path = "zero_optimization.offload_optimizer.fast_init"},
    {.path = "zero_optimization.offload_param.pin_memory"},
    {.path = "zero_optimization.offload_param.buffer_count"},
    {.path = "zero_optimization.offload_param.buffer_size"},
    {.path = "zero_optimization.offload_param.max_in_cpu"},
    {.path = "zero_optimization.offload_optimizer", .allowed = "{}|none", .remark = "it must be a map"},
    {.path = "zero_optimization.offload_param", .allowed = "{}|none", .remark = "it must be a map"},
    {.path = "zero_optimization.zero_hpz_partition_size", .allowed = "1", .remark = "see strategy hsdp; write 1"},
    {.path = "zero_optimization.mics_shard_size", .allowed = "-1", .remark = "see strategy hsdp; write -1"},
    {.path = "zero_optimization.mics_hierarchical_params_gather"},
    {.path = "zero_optimization.zero_quantized_weights", .allowed = "false", .remark = no_quantized},
    {.path = "zero_optimization.zero_quantized_nontrainable_weights", .allowed = "false", .remark = no_quantized},
    {.path = "zero_optimization.zero_quantized_gradients", .allowed = "false", .remark = no_quantized},
    /* Sizes and switches of DeepSpeed's own buffers. Here a unit (wrap) is what moves, all memory is planned before the
     * first step, and communication overlaps with computing whenever it can. */
    {.path = "zero_optimization.contiguous_gradients"},
    {.path = "zero_optimization.reduce_scatter"},
    {.path = "zero_optimization.reduce_bucket_size"},
    {.path = "zero_optimization.allgather_partitions"},
    {.path = "zero_optimization.allgather_bucket_size"},
    {.path = "zero_optimization.overlap_comm"},
    {.path = "zero_optimization.load_from_fp32_weights"},
    {.path = "zero_optimization.elastic_checkpoint"},
    {.path = "zero_optimization.sub_group_size"},
    {.path = "zero_optimization.round_robin_gradients"},
    {.path = "zero_optimization.ignore_unused_parameters"},
    {.path = "zero_optimization.legacy_stage1"},
    {.path = "zero_optimization.stage3_max_live_parameters"},
    {.path = "zero_optimization.stage3_max_reuse_distance"},
    {.path = "zero_optimization.stage3_prefetch_bucket_size"},
    {.path = "zero_optimization.stage3_param_persistence_threshold"},
    {.path = "zero_optimization.stage3_module_granularity_threshold"},
    {.path = "zero_optimization.stage3_gather_16bit_weights_on_model_save"},
    {.path = "zero_optimization.stage3_gather_fp16_weights_on_model_save"},
    {.path = "zero_optimization.stage3_use_all_reduce_for_fetch_params"},
    {.path = "zero_optimization.use_all_reduce_for_fetch_params"},
    {.path = "zero_optimization.log_trace_cache_warnings"},
    {.path = "zero_optimization.memory_efficient_linear"},
    {.path = "zero_optimization.pipeline_loading_checkpoint"},
    {.path = "zero_optimization.override_module_apply"},
    {.path = "zero_optimization", .allowed = "{}", .remark = "it must be a map"},
    {.path = "zero_allow_untested_optimizer"},
    {.path = "zero_force_ds_cpu_optimizer"},
    {.path = "prescale_gradients"}, /* against overflow in fp16; sums here are fp32 */
    {.path = "gradient_predivide_factor"},
    {.path = "sparse_gradients", .allowed = "false", .remark = "gradients here are dense; write false"},
    /* reports and helpers */
    {.path = "steps_per_print"},
    {.path = "wall_clock_breakdown"},
    {.path = "memory_breakdown"},
    {.path = "dump_state"},
    {.path = "seed", .option = "seed"},
    {.path = "flops_profiler.*"},
    {.path = "comms_logger.*"},
    {.path = "tensorboard.*"},
    {.path = "wandb.*"},
    {.path = "csv_monitor.*"},
    {.path = "aio.*"},
    {.path = "checkpoint.*"},
    /* For models whose code calls it; here it is gradient_checkpointing that says what is computed again. */
    {.path = "activation_checkpointing.number_checkpoints",
     .allowed = "none",
     .remark = "see gradient_checkpointing_every; leave it out"},
    {.path = "activation_checkpointing.cpu_checkpointing", .allowed = "false", .remark = no_activations_away},
    {.path = "activation_checkpointing.partition_activations", .allowed = "false", .remark = no_parallel},
    {.path = "activation_checkpointing.contiguous_memory_optimization"}, /* memory is one piece here */
    {.path = "activation_checkpointing.synchronize_checkpoint_boundary"},
    {.path = "activation_checkpointing.profile"},
    {.path = "activation_checkpointing", .allowed = "{}", .remark = "it must be a map"},
    {.path = "disable_allgather"},
    {.path = "compile.*"},
    {.path = "autotuning.enabled", .allowed = "false", .remark = "finewire bench step tries the strategies"},
    {.path = "autotuning.*"},
    {.path = "elasticity.enabled", .allowed = "false", .remark = no_elastic},
    {.path = "elasticity.*"},
    {.path = "curriculum_learning.enabled", .allowed = "false", .remark = "finewire has no curriculum; leave it out"},
    {.path = "curriculum_learning.*"},
    {.path = "data_efficiency.enabled", .allowed = "false", .remark = "finewire has no such thing; leave it out"},
    {.path = "data_efficiency.*"},
    {.path = "tensor_parallel.autotp_size", .allowed = "0|1", .remark = no_parallel},
    {.path = "tensor_parallel.*"},
    {.path = "sequence_parallel_size", .allowed = "1", .remark = no_parallel},
    {.path = "pipeline.*", .allowed = "{}", .remark = no_parallel},
};

fw_status fw_foreign_deepspeed(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from) {
    fw_foreign f = {.o = o, .leaves = leaves, .where = where, .below = "", .what = "DeepSpeed", .from = from};
    return fw_foreign_apply(&f, rows, sizeof rows / sizeof rows[0]);
}
