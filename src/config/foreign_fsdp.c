/* FSDP's map: fsdp_config of accelerate's YAML, of TrainingArguments (a JSON file), or of a recipe. The prefix fsdp_ may
 * stand before each name. Source: accelerate's FullyShardedDataParallelPlugin and transformers' fsdp_config. */
#include "config/foreign.h"

#include "config/lookup.h"

/* Version 1 has a strategy's name here, version 2 true or false. */
static fw_status reshard(fw_foreign *f, const fw_leaf *leaf) {
    bool truth;
    if (fw_value_read_bool(&truth, leaf->text) == NULL)
        return fw_foreign_set(f, leaf, "fsdp_reshard_after_forward", leaf->text);
    return fw_foreign_set(f, leaf, "fsdp_sharding_strategy", leaf->text);
}

/* Here false only says that FSDP's own way to recompute is not used; there is another (gradient_checkpointing). */
static fw_status recompute(fw_foreign *f, const fw_leaf *leaf) {
    bool truth;
    if (fw_value_read_bool(&truth, leaf->text) != NULL) return fw_foreign_refuse(f, leaf, "it must be true or false");
    return truth ? fw_foreign_set(f, leaf, "gradient_checkpointing", "true") : FW_OK;
}

static const fw_foreign_row rows[] = {
    {.path = "version", .allowed = "1|2", .remark = "it must be 1 or 2"},
    {.path = "sharding_strategy", .option = "fsdp_sharding_strategy"},
    {.path = "reshard_after_forward", .call = reshard},
    {.path = "auto_wrap_policy", .option = "fsdp_auto_wrap_policy"},
    {.path = "transformer_layer_cls_to_wrap", .option = "fsdp_transformer_layer_cls_to_wrap"},
    {.path = "transformer_layer_cls_to_wrap.0", .option = "fsdp_transformer_layer_cls_to_wrap"}, /* a list of one */
    {.path = "min_num_params", .option = "fsdp_min_num_params"},
    {.path = "backward_prefetch", .option = "fsdp_backward_prefetch"},
    {.path = "backward_prefetch_policy", .option = "fsdp_backward_prefetch"},
    {.path = "forward_prefetch", .option = "fsdp_forward_prefetch"},
    {.path = "activation_checkpointing", .call = recompute},
    {.path = "offload_params", .option = "fsdp_cpu_offload"},
    {.path = "cpu_offload", .option = "fsdp_cpu_offload"},
    {.path = "ignored_modules", .allowed = "[]|none", .remark = "all of the model is shared out; leave it out"},
    {.path = "mixed_precision_policy", .allowed = "bf16|no|none", .remark = "computing is in bf16 or fp32; see bf16"},
    {.path = "limit_all_gathers"},
    {.path = "state_dict_type", /* a checkpoint here is read by any number of ranks, the final model is always whole */
     .allowed = "FULL_STATE_DICT|SHARDED_STATE_DICT|LOCAL_STATE_DICT",
     .remark = "it must be FULL_STATE_DICT or SHARDED_STATE_DICT"},
    /* how PyTorch's modules are wrapped and filled; the same weights everywhere whatever they say */
    {.path = "use_orig_params"},
    {.path = "sync_module_states"},
    {.path = "cpu_ram_efficient_loading"},
};

static fw_status apply(fw_foreign *f) { return fw_foreign_apply(f, rows, sizeof rows / sizeof rows[0]); }

fw_status fw_foreign_fsdp(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from) {
    return apply(&(fw_foreign){
        .o = o, .leaves = leaves, .where = where, .below = "", .prefix = "fsdp_", .what = "FSDP", .from = from});
}

fw_status fw_foreign_fsdp_below(const fw_foreign *f, const char *below) {
    fw_foreign part = *f;
    part.below = below;
    part.prefix = "fsdp_";
    return apply(&part);
}
