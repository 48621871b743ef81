/* accelerate's YAML (accelerate config writes it; --config_file there and here). Source: accelerate's ClusterConfig. */
#include "config/foreign.h"

#include "config/lookup.h"

#include <stdio.h>
#include <string.h>

static bool is_text(const fw_leaf *leaf, const char *word) { return leaf != NULL && fw_words_equal(leaf->text, word); }

static fw_status set_cpu(fw_foreign *f, const fw_leaf *leaf) {
    bool truth;
    if (fw_value_read_bool(&truth, leaf->text) != NULL) return fw_foreign_refuse(f, leaf, "it must be true or false");
    return truth ? fw_foreign_set(f, leaf, "device", "cpu") : FW_OK;
}

static fw_status set_precision(fw_foreign *f, const fw_leaf *leaf) {
    bool truth;
    if (is_text(leaf, "bf16")) return fw_foreign_set(f, leaf, "bf16", "true");
    if (is_text(leaf, "no") || (fw_value_read_bool(&truth, leaf->text) == NULL && !truth))
        return fw_foreign_set(f, leaf, "bf16", "false");
    return fw_foreign_refuse(f, leaf, "finewire computes in bf16 or fp32; write bf16 or 'no'");
}

static fw_status set_processes(fw_foreign *f, const fw_leaf *leaf) {
    if (is_text(leaf, "-1")) return fw_foreign_refuse(f, leaf, "write how many ranks to start");
    return fw_foreign_set(f, leaf, "num_processes", leaf->text);
}

static const char one_host[] = "finewire starts ranks on one machine; write 1";
static const char tensor_parallel[] = "finewire shares out data and state, not single products; write 1";

static const fw_foreign_row rows[] = {
    {.path = "compute_environment", .allowed = "LOCAL_MACHINE", .remark = "it must be LOCAL_MACHINE"},
    {.path = "distributed_type",
     .allowed = "NO|MULTI_CPU|MULTI_GPU|FSDP|DEEPSPEED",
     .remark = "it must be NO, MULTI_CPU, MULTI_GPU, FSDP or DEEPSPEED"},
    {.path = "mixed_precision", .call = set_precision},
    {.path = "num_processes", .call = set_processes},
    {.path = "num_machines", .allowed = "1", .remark = one_host},
    {.path = "machine_rank", .allowed = "0", .remark = "finewire starts ranks on one machine; write 0"},
    {.path = "gpu_ids", .allowed = "all", .remark = "choose GPUs by CUDA_VISIBLE_DEVICES, and write all"},
    {.path = "use_cpu", .call = set_cpu},
    {.path = "gradient_accumulation_steps", .option = "gradient_accumulation_steps"},
    {.path = "fsdp_config.*"}, /* read afterwards, where distributed_type asks for it; else left from before */
    {.path = "deepspeed_config.*"},
    {.path = "parallelism_config.parallelism_config_dp_replicate_size"}, /* read afterwards */
    {.path = "parallelism_config.parallelism_config_dp_shard_size"},
    {.path = "parallelism_config.parallelism_config_tp_size", .allowed = "1", .remark = tensor_parallel},
    {.path = "parallelism_config.parallelism_config_cp_size", .allowed = "1", .remark = tensor_parallel},
    {.path = "parallelism_config.parallelism_config_sp_size", .allowed = "1", .remark = tensor_parallel},
    {.path = "parallelism_config.parallelism_config_cp_comm_strategy"},
    {.path = "parallelism_config", .allowed = "{}", .remark = "it must be a map"},
    {.path = "downcast_bf16", .allowed = "no|false", .remark = "it is for TPUs; write 'no'"},
    {.path = "dynamo_config.*", .allowed = "{}|NO", .remark = "there is nothing to compile here; leave it out"},
    {.path = "megatron_lm_config.*", .allowed = "{}", .remark = "Megatron-LM's ways are not known; leave it out"},
    /* How the processes of PyTorch meet, and what is for other machines or has no meaning in one program. */
    {.path = "rdzv_backend"},
    {.path = "same_network"},
    {.path = "main_training_function"},
    {.path = "main_process_ip"},
    {.path = "main_process_port"},
    {.path = "enable_cpu_affinity"},
    {.path = "debug"},
    {.path = "tpu_name.*"},
    {.path = "tpu_zone.*"},
    {.path = "tpu_env.*"},
    {.path = "tpu_use_cluster"},
    {.path = "tpu_use_sudo"},
    {.path = "tpu_vm.*"},
    {.path = "commands.*"},
    {.path = "command_file"},
    {.path = "ipex_config.*"},
    {.path = "mpirun_config.*"},
    {.path = "fp8_config.*", .allowed = "{}", .remark = "finewire computes in bf16 or fp32; leave it out"},
};

/* deepspeed_config of the YAML itself; deepspeed_config_file names a JSON file instead. */
static const fw_foreign_row deepspeed_rows[] = {
    {.path = "deepspeed_config_file", .option = "deepspeed"},
    {.path = "zero_stage", .option = "zero_stage"},
    {.path = "gradient_accumulation_steps", .option = "gradient_accumulation_steps"},
    {.path = "gradient_clipping", .option = "max_grad_norm", .allowed = "none"},
    {.path = "offload_optimizer_device", .option = "offload_optimizer"},
    {.path = "offload_param_device", .option = "offload_params"},
    {.path = "offload_optimizer_nvme_path", .allowed = "none", .option = "offload_dir"},
    {.path = "offload_param_nvme_path", .allowed = "none", .option = "offload_dir"},
    {.path = "zero3_init_flag"}, /* weights are never whole on one rank here, and always saved in 16 bits */
    {.path = "zero3_save_16bit_model"},
    {.path = "deepspeed_multinode_launcher"},
    {.path = "deepspeed_moe_layer_cls_names", .allowed = "none", .remark = "finewire knows no such layers"},
};

/* dp_replicate copies of dp_shard parts: hsdp, or one of its two ends. */
static fw_status set_parallelism(fw_foreign *f) {
    const fw_leaf *part[2] = {fw_foreign_find(f, "parallelism_config.parallelism_config_dp_replicate_size"),
                              fw_foreign_find(f, "parallelism_config.parallelism_config_dp_shard_size")};
    int64_t n[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        if (part[i] == NULL || part[i]->null) continue;
        if (fw_value_read_int(&n[i], part[i]->text) != NULL || n[i] < 1)
            return fw_foreign_refuse(f, part[i], "it must be a whole number from 1 on");
    }
    if (n[0] == 1 && n[1] == 1) return FW_OK;
    if (n[1] == 1) return fw_foreign_set(f, part[0], "strategy", "ddp");
    FW_TRY(fw_foreign_set(f, part[1], "strategy", n[0] == 1 ? "zero3" : "hsdp"));
    return n[0] == 1 ? FW_OK : fw_foreign_set(f, part[1], "shard_group_size", part[1]->text);
}

/* What distributed_type means where the sections below it did not name a strategy. */
static fw_status set_type(fw_foreign *f) {
    const fw_leaf *type = fw_foreign_find(f, "distributed_type");
    const fw_leaf *ranks = fw_foreign_find(f, "num_processes");
    if (type == NULL) return FW_OK;
    if (is_text(type, "NO") && ranks != NULL && !ranks->null && !is_text(ranks, "1"))
        return fw_foreign_refuse(f, ranks, "but distributed_type is NO; write MULTI_GPU, MULTI_CPU or FSDP there");
    if (f->o->origin[FW_OPTION_strategy].from != FW_FROM_DEFAULT) return FW_OK;
    if (is_text(type, "FSDP")) return fw_foreign_set(f, type, "strategy", "zero3");
    if (is_text(type, "MULTI_GPU") || is_text(type, "MULTI_CPU")) return fw_foreign_set(f, type, "strategy", "ddp");
    return FW_OK;
}

static fw_status apply(fw_foreign *f) {
    FW_TRY(fw_foreign_apply(f, rows, sizeof rows / sizeof rows[0]));
    const fw_leaf *type = fw_foreign_find(f, "distributed_type");
    if (is_text(type, "FSDP")) FW_TRY(fw_foreign_fsdp_below(f, "fsdp_config."));
    if (is_text(type, "DEEPSPEED")) {
        f->below = "deepspeed_config.";
        FW_TRY(fw_foreign_apply(f, deepspeed_rows, sizeof deepspeed_rows / sizeof deepspeed_rows[0]));
        f->below = "";
    }
    FW_TRY(set_parallelism(f));
    return set_type(f);
}

fw_status fw_foreign_accelerate(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from) {
    return apply(&(fw_foreign){
        .o = o, .leaves = leaves, .where = where, .below = "", .what = "accelerate", .from = from, .gives_way = true});
}
