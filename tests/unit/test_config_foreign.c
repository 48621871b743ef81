/* config: files of accelerate, DeepSpeed and FSDP, read as they are. */
#include "base/alloc.h"
#include "config/foreign.h"
#include "config/options_sharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What `accelerate config` writes for FSDP, with the keys that it and the guides put there. */
static const char fsdp_yaml[] = "compute_environment: LOCAL_MACHINE\n"
                                "debug: false\n"
                                "distributed_type: FSDP\n"
                                "downcast_bf16: 'no'\n"
                                "enable_cpu_affinity: false\n"
                                "fsdp_config:\n"
                                "  fsdp_activation_checkpointing: false\n"
                                "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                                "  fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\n"
                                "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"
                                "  fsdp_cpu_ram_efficient_loading: true\n"
                                "  fsdp_forward_prefetch: false\n"
                                "  fsdp_offload_params: false\n"
                                "  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
                                "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
                                "  fsdp_sync_module_states: true\n"
                                "  fsdp_use_orig_params: true\n"
                                "machine_rank: 0\n"
                                "main_training_function: main\n"
                                "mixed_precision: bf16\n"
                                "num_machines: 1\n"
                                "num_processes: 2\n"
                                "rdzv_backend: static\n"
                                "same_network: true\n"
                                "tpu_env: []\n"
                                "tpu_use_cluster: false\n"
                                "tpu_use_sudo: false\n"
                                "use_cpu: false\n";

/* The kind of file that goes with the Trainer: "auto" wherever the training options know better. */
static const char zero3_json[] =
    "{\n\t\"bf16\": {\"enabled\": \"auto\"},\n\t\"fp16\": {\"enabled\": false, \"loss_scale\": 0},\n"
    "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-5, \"betas\": [0.8, 0.95], \"eps\": 1e-7,"
    " \"weight_decay\": 0.1}},\n"
    "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": 0, \"warmup_max_lr\": 3e-5,"
    " \"warmup_num_steps\": 50, \"total_num_steps\": \"auto\"}},\n"
    "\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true, \"contiguous_gradients\": true, \"sub_group_size\": "
    "1e9,"
    " \"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\","
    " \"offload_optimizer\": {\"device\": \"none\", \"pin_memory\": true},"
    " \"stage3_param_persistence_threshold\": \"auto\", \"stage3_gather_16bit_weights_on_model_save\": true},\n"
    "\"gradient_accumulation_steps\": 4, \"gradient_clipping\": 0.5, \"steps_per_print\": 2000,"
    " \"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": \"auto\", \"wall_clock_breakdown\": false}";

typedef fw_status (*reader)(fw_leaves *l, const char *text, size_t text_bytes, const char *where);
typedef fw_status (*applier)(fw_options *o, const fw_leaves *l, const char *where, fw_option_origin from);

static fw_status apply_text(fw_options *o, const char *text, const char *where, reader read, applier apply) {
    fw_leaves leaves = {0};
    fw_status status = read(&leaves, text, strlen(text), where);
    if (status == FW_OK) status = apply(o, &leaves, where, FW_FROM_COMMAND_LINE);
    fw_leaves_fini(&leaves);
    return status;
}

static fw_status accelerate(fw_options *o, const char *text) {
    FW_TRY(fw_options_init(o, FW_COMMAND_TRAIN));
    FW_TRY(apply_text(o, text, "a.yaml", fw_leaves_read_yaml, fw_foreign_accelerate));
    return fw_options_resolve_sharding(o);
}

static fw_status deepspeed(fw_options *o, const char *text) {
    FW_TRY(fw_options_init(o, FW_COMMAND_TRAIN));
    FW_TRY(apply_text(o, text, "d.json", fw_leaves_read_json, fw_foreign_deepspeed));
    return fw_options_resolve_sharding(o);
}

static void test_accelerate(void **state) {
    (void)state;
    fw_options o;
    assert_int_equal(accelerate(&o, fsdp_yaml), FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO2);
    assert_int_equal(o.wrap, FW_WRAP_BLOCK);
    assert_string_equal(o.fsdp_transformer_layer_cls_to_wrap, "Qwen2DecoderLayer");
    assert_int_equal(o.prefetch, 1);
    assert_int_equal(o.num_processes, 2);
    assert_true(o.bf16 && o.gradient_checkpointing);
    char origin[64];
    assert_string_equal(fw_options_origin(&o, FW_OPTION_num_processes, origin, sizeof origin), "a.yaml:22");
    fw_options_fini(&o);

    static const struct {
        const char *text;
        fw_strategy strategy;
    } cases[] = {
        {"distributed_type: 'NO'", FW_STRATEGY_AUTO},
        {"distributed_type: MULTI_GPU\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}", FW_STRATEGY_DDP},
        {"distributed_type: MULTI_CPU\nfsdp_config: {}\ndeepspeed_config: {}", FW_STRATEGY_DDP},
        {"distributed_type: FSDP", FW_STRATEGY_ZERO3},
        {"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false}",
         FW_STRATEGY_ZERO2},
        {"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}", FW_STRATEGY_ZERO3},
        {"distributed_type: FSDP\nfsdp_config: {reshard_after_forward: HYBRID_SHARD}", FW_STRATEGY_HSDP},
        {"distributed_type: FSDP\nfsdp_config: {sharding_strategy: 3}", FW_STRATEGY_DDP},
        {"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1, zero3_init_flag: true}", FW_STRATEGY_ZERO1},
        {"parallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_dp_replicate_size: 2}",
         FW_STRATEGY_HSDP},
        {"parallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_tp_size: 1}", FW_STRATEGY_ZERO3},
        {"parallelism_config: {parallelism_config_dp_replicate_size: 4}", FW_STRATEGY_DDP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_status status = accelerate(&o, cases[i].text);
        if (status != FW_OK) fail_msg("%s: %s", cases[i].text, fw_trail_message());
        if (o.strategy != cases[i].strategy) fail_msg("%s: %s", cases[i].text, fw_strategy_words[o.strategy]);
        fw_options_fini(&o);
    }
    assert_int_equal(accelerate(&o, "mixed_precision: 'no'\nuse_cpu: true\nnum_processes: 3\n"), FW_OK);
    assert_false(o.bf16);
    assert_int_equal(o.device, FW_DEVICE_CPU);
    fw_options_fini(&o);
    assert_int_equal(accelerate(&o, "distributed_type: FSDP\nfsdp_config: {activation_checkpointing: true}"), FW_OK);
    assert_true(fw_options_given(&o, FW_OPTION_gradient_checkpointing));
    fw_options_fini(&o);
}

static void test_deepspeed(void **state) {
    (void)state;
    fw_options o;
    assert_int_equal(deepspeed(&o, zero3_json), FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO3);
    assert_true(o.learning_rate == 3e-5 && o.adam_beta1 == 0.8 && o.adam_beta2 == 0.95 && o.adam_epsilon == 1e-7);
    assert_true(o.weight_decay == 0.1 && o.max_grad_norm == 0.5 && o.warmup_steps == 50);
    assert_int_equal(o.lr_scheduler_type, FW_LR_LINEAR);
    assert_int_equal(o.warmup_type, FW_WARMUP_LOG); /* DeepSpeed's default */
    assert_int_equal(o.gradient_accumulation_steps, 4);
    assert_true(o.bf16 && !fw_options_given(&o, FW_OPTION_bf16));
    assert_int_equal(fw_options_resolve_batch(&o, 2), FW_OK); /* 64 = 8 x 4 x 2 */
    assert_int_equal(o.per_device_train_batch_size, 8);
    fw_options_fini(&o);
    assert_int_equal(deepspeed(&o, "{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_type\": "
                                   "\"linear\"}}, \"bf16\": {\"enabled\": false}}"),
                     FW_OK);
    assert_int_equal(o.lr_scheduler_type, FW_LR_COSINE);
    assert_int_equal(o.warmup_type, FW_WARMUP_LINEAR);
    assert_false(o.bf16);
    fw_options_fini(&o);
}

/* Optimizers and what they take, by DeepSpeed's names. */
static void test_optimizers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        fw_optim optim;
        const char *arguments;
    } cases[] = {{"{\"type\": \"Adam8bit\"}", FW_OPTIM_ADAMW_8BIT, NULL},
                 {"{\"type\": \"AdamW8bit\"}", FW_OPTIM_ADAMW_8BIT, NULL},
                 {"{\"type\": \"Adam\", \"params\": {\"torch_adam\": true}}", FW_OPTIM_ADAMW, NULL},
                 {"{\"type\": \"FusedLion\"}", FW_OPTIM_LION, NULL},
                 {"{\"type\": \"Adafactor\"}", FW_OPTIM_ADAFACTOR, NULL},
                 {"{\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}", FW_OPTIM_SGD, "momentum=0.9"},
                 {"{\"type\": \"SGD\", \"params\": {\"nesterov\": true, \"momentum\": 0.9}}", FW_OPTIM_SGD,
                  "momentum=0.9,nesterov=true"},
                 {"{\"type\": \"SGD\", \"params\": {\"dampening\": 0.1, \"momentum\": 0.5}}", FW_OPTIM_SGD,
                  "momentum=0.5,dampening=0.1"},
                 {"{\"type\": \"Lamb\", \"params\": {\"max_coeff\": 10, \"min_coeff\": 0.01}}", FW_OPTIM_LAMB,
                  "min_coeff=0.01,max_coeff=10"},
                 {"{\"type\": \"Lamb\", \"params\": {\"max_coeff\": 10}}", FW_OPTIM_LAMB, "max_coeff=10"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        char text[256];
        snprintf(text, sizeof text, "{\"optimizer\": %s}", cases[i].text);
        assert_int_equal(deepspeed(&o, text), FW_OK);
        assert_int_equal(o.optim, cases[i].optim);
        assert_int_equal(o.optim_args == NULL, cases[i].arguments == NULL);
        if (o.optim_args != NULL) assert_string_equal(o.optim_args, cases[i].arguments);
        fw_options_fini(&o);
    }
}

/* Where state and weights are kept, by the names of others. */
static void test_offload(void **state) {
    (void)state;
    static const struct {
        bool json;
        const char *text;
        fw_offload optimizer, params;
        const char *dir;
    } cases[] = {
        {1, "{\"zero_optimization\": {\"offload_optimizer\": null}}", FW_OFFLOAD_NONE, FW_OFFLOAD_NONE, NULL},
        {1, "{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}", FW_OFFLOAD_CPU, FW_OFFLOAD_NONE, NULL},
        {1,
         "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/n\"}, "
         "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/n\", \"buffer_count\": 5}}}",
         FW_OFFLOAD_NVME, FW_OFFLOAD_NVME, "/n"},
        {0,
         "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3, offload_optimizer_device: nvme, "
         "offload_optimizer_nvme_path: /n, offload_param_device: cpu}",
         FW_OFFLOAD_NVME, FW_OFFLOAD_CPU, "/n"},
        {0, "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}", FW_OFFLOAD_CPU, FW_OFFLOAD_CPU, NULL},
        {0, "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: false}", FW_OFFLOAD_NONE, FW_OFFLOAD_NONE,
         NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        assert_int_equal(cases[i].json ? deepspeed(&o, cases[i].text) : accelerate(&o, cases[i].text), FW_OK);
        assert_int_equal(o.offload_optimizer, cases[i].optimizer);
        assert_int_equal(o.offload_params, cases[i].params);
        assert_int_equal(o.offload_dir == NULL, cases[i].dir == NULL);
        if (o.offload_dir != NULL) assert_string_equal(o.offload_dir, cases[i].dir);
        fw_options_fini(&o);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        int json;
        const char *text, *message; /* the message begins so */
    } cases[] = {
        {0, "distributed_type: TPU", "a.yaml:1: distributed_type is TPU; it must be NO, MULTI_CPU, MULTI_GPU, FSDP or"},
        {0, "distributed_type: FSDP\nfsdp_config:\n  fsdp_shardin_strategy: FULL_SHARD",
         "a.yaml:3: fsdp_config.fsdp_shardin_strategy is not known in a file of accelerate; did you mean "
         "sharding_strategy?"},
        {0, "num_process: 2",
         "a.yaml:1: num_process is not known in a file of accelerate; did you mean num_processes?"},
        {0, "num_processes: -1", "a.yaml:1: num_processes is -1; write how many ranks to start"},
        {0, "num_processes: two", "a.yaml:1: num_processes is \"two\": it is not a whole number"},
        {0, "distributed_type: 'NO'\nnum_processes: 2", "a.yaml:2: num_processes is 2; but distributed_type is NO"},
        {0, "mixed_precision: fp16", "a.yaml:1: mixed_precision is fp16; finewire computes in bf16 or fp32"},
        {0, "gpu_ids: 0,1", "a.yaml:1: gpu_ids is 0,1; choose GPUs by CUDA_VISIBLE_DEVICES"},
        {0, "num_machines: 2", "a.yaml:1: num_machines is 2; finewire starts ranks on one machine"},
        {0, "parallelism_config:\n  parallelism_config_tp_size: 2",
         "a.yaml:2: parallelism_config.parallelism_config_tp_size is 2; finewire shares out data and state"},
        {0, "distributed_type: FSDP\nfsdp_config:\n  min_num_params: 5\n  fsdp_min_num_params: 6",
         "a.yaml:4: fsdp_config.fsdp_min_num_params is 6, which contradicts fsdp_min_num_params (a.yaml:3)"},
        {0, "a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}", "a.yaml:1: nested deeper than 8 levels"},
        {0, "debug: &x 1", "a.yaml:1: an anchor (&) is not taken"},
        {0, "debug: 1\ndebug: 2", "a.yaml:2: debug is given twice; keep one"},
        {0, "- 1", "a.yaml:1: there are no names here"},
        {0, "", "a.yaml:1: the file is empty"},
        {0, "debug: [", "a.yaml:2:1: not valid YAML"},
        {1, "{\"zero_optimization\": {\"stage\": 4}}", "d.json: zero_optimization.stage is 4; it must be"},
        {1, "{\"zero_optimization\": {\"stge\": 3}}",
         "d.json: zero_optimization.stge is not known in a file of DeepSpeed; did you mean zero_optimization.stage?"},
        {1, "{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"disk\"}}}",
         "d.json: zero_optimization.offload_optimizer.device is disk; it must be none, cpu or nvme"},
        {1, "{\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": 0.5}}}",
         "d.json: zero_optimization.offload_optimizer.ratio is 0.5; all of the state is offloaded or none"},
        {1, "{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}",
         "d.json: activation_checkpointing.cpu_checkpointing is true; activations stay"},
        {1, "{\"activation_checkpointing\": {\"number_checkpoints\": 4}}",
         "d.json: activation_checkpointing.number_checkpoints is 4; see gradient_checkpointing_every"},
        {1, "{\"fp16\": {\"enabled\": true}}", "d.json: fp16.enabled is true; finewire computes in bf16 or fp32"},
        {1, "{\"optimizer\": {\"type\": \"OneBitAdam\"}}",
         "d.json: optimizer.type is OneBitAdam; finewire has AdamW, Adam (as AdamW), Adam8bit, Lamb"},
        {1, "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}",
         "d.json: optimizer.params.adam_w_mode is false; finewire's weight decay is decoupled"},
        {1, "{\"optimizer\": {\"params\": {\"lr\": 1e-5}}, \"scheduler\": {\"params\": {\"warmup_max_lr\": 2e-5}}}",
         "d.json: scheduler.params.warmup_max_lr is 2e-5, which contradicts learning_rate (d.json)"},
        {1, "{\"scheduler\": {\"type\": \"OneCycle\"}}", "d.json: scheduler.type is OneCycle; it must be WarmupLR"},
        {1, "{\"scheduler\": {\"params\": {\"total_num_steps\": 100}}}",
         "d.json: scheduler.params.total_num_steps is 100; the schedule ends with the run"},
        {1, "[1]", "d.json: there are no names here"},
        {1, "{\"a\": 1, \"a\": 2}", "reading the settings: d.json"},
        {1, "{\"train_batch_size\": 1.5}", "d.json: train_batch_size is \"1.5\": it is not a whole number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        fw_status status = cases[i].json ? deepspeed(&o, cases[i].text) : accelerate(&o, cases[i].text);
        if (status != FW_ERR_OPTION || strncmp(fw_trail_message(), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s\n  %s (status %d)", cases[i].text, status == FW_OK ? "accepted" : fw_trail_message(),
                     (int)status);
        fw_options_fini(&o);
    }
}

/* A file in a folder of its own; returns its path. */
static const char *write_file(const char *name, const char *text) {
    static char path[4][128];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "/tmp/fw_foreign_%d_%s", (int)getpid(), name);
    FILE *file = fopen(path[at], "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path[at];
}

/* Through the command line and a recipe: who wins over whom. */
static void test_precedence(void **state) {
    (void)state;
    fw_options o;
    const char *yaml = write_file("a.yaml", fsdp_yaml), *json = write_file("d.json", zero3_json);
    char recipe_text[512];
    snprintf(recipe_text, sizeof recipe_text, "config_file: %s\nnum_processes: 4\nlearning_rate: 1e-4\n", yaml);
    const char *recipe = write_file("r.yaml", recipe_text);

    char *accelerate_only[] = {"--config_file", (char *)yaml, "--strategy", "zero1"};
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_equal(fw_options_parse(&o, 4, accelerate_only), FW_OK);
    assert_int_equal(fw_options_resolve_sharding(&o), FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO1);
    assert_int_equal(o.num_processes, 2);
    fw_options_fini(&o);

    char *with_recipe[] = {(char *)recipe};
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_equal(fw_options_parse(&o, 1, with_recipe), FW_OK);
    assert_int_equal(fw_options_resolve_sharding(&o), FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO2);
    assert_int_equal(o.num_processes, 4); /* accelerate's words give way */
    fw_options_fini(&o);

    char *same_place[] = {"--deepspeed", (char *)json, "--learning_rate", "1e-4"};
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_equal(fw_options_parse(&o, 4, same_place), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "optimizer.params.lr is 3e-5, which contradicts learning_rate (the "
                                               "command line); make them equal"));
    fw_options_fini(&o);

    snprintf(recipe_text, sizeof recipe_text, "deepspeed: %s\nlearning_rate: 3e-5\n", json);
    char *command_line_wins[] = {(char *)write_file("r2.yaml", recipe_text), "--max_grad_norm", "2"};
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_equal(fw_options_parse(&o, 3, command_line_wins), FW_OK);
    assert_true(o.max_grad_norm == 2.0 && o.learning_rate == 3e-5 && o.weight_decay == 0.1);
    fw_options_fini(&o);

    char *missing[] = {"--deepspeed", "/nowhere/d.json"};
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_not_equal(fw_options_parse(&o, 2, missing), FW_OK);
    assert_non_null(strstr(fw_trail_message(), "deepspeed (the command line): "));
    fw_options_fini(&o);
    unlink(yaml), unlink(json), unlink(recipe), unlink(command_line_wins[0]);
}

static fw_status read_recipe(fw_options *o, const char *text) {
    FW_TRY(fw_options_init(o, FW_COMMAND_TRAIN));
    FW_TRY(fw_options_parse_recipe(o, text, strlen(text), "r.yaml"));
    return fw_options_resolve_sharding(o);
}

static void test_maps_in_recipes(void **state) {
    (void)state;
    fw_options o;
    assert_int_equal(read_recipe(&o, "fsdp: full_shard auto_wrap\nfsdp_config:\n  backward_prefetch: backward_pre\n"
                                     "  transformer_layer_cls_to_wrap: [LlamaDecoderLayer]\nseed: 3\n"),
                     FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO3);
    assert_string_equal(o.fsdp_transformer_layer_cls_to_wrap, "LlamaDecoderLayer");
    assert_int_equal(o.seed, 3);
    fw_options_fini(&o);
    assert_int_equal(read_recipe(&o, "deepspeed:\n  zero_optimization:\n    stage: 2\nlearning_rate: 1e-3\n"), FW_OK);
    assert_int_equal(o.strategy, FW_STRATEGY_ZERO2);
    fw_options_fini(&o);
    assert_int_equal(read_recipe(&o, "deepspeed:\n  zero_optimization: {stage: 2}\nstrategy: zero3\n"), FW_ERR_OPTION);
    assert_string_equal(fw_trail_message(), "r.yaml:2: zero_optimization.stage is 2, which contradicts strategy "
                                            "(the recipe:3); make them equal, or leave out one");
    fw_options_fini(&o);
    assert_int_equal(read_recipe(&o, "fsdp_config: {a: 1}"), FW_ERR_OPTION);
    assert_string_equal(fw_trail_message(), "r.yaml:1: a is not known in a file of FSDP; leave it out");
    fw_options_fini(&o);
}

static void test_batch(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        int world;
        int64_t micro, steps; /* 0: refused */
    } cases[] = {
        {"train_batch_size: 64\nper_device_train_batch_size: 4", 2, 4, 8},
        {"train_batch_size: 64\ngradient_accumulation_steps: 4", 2, 8, 4},
        {"train_batch_size: 64\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 8", 2, 4, 8},
        {"train_batch_size: 64", 4, 16, 1},
        {"per_device_train_batch_size: 3", 4, 3, 1},
        {"train_batch_size: 64\nper_device_train_batch_size: 4\ngradient_accumulation_steps: 8", 4, 0, 0},
        {"train_batch_size: 64\nper_device_train_batch_size: 5", 2, 0, 0},
        {"train_batch_size: 1", 2, 0, 0},
        {"train_batch_size: 64", 3, 0, 0},
        {"train_batch_size: 64\nper_device_train_batch_size: 4\ngradient_dtype: bf16", 2, 0, 0}, /* accumulates */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        assert_int_equal(read_recipe(&o, cases[i].recipe), FW_OK);
        fw_status status = fw_options_resolve_batch(&o, cases[i].world);
        if ((status == FW_OK) != (cases[i].micro > 0))
            fail_msg("%s: %s", cases[i].recipe, status == FW_OK ? "accepted" : fw_trail_message());
        if (status == FW_OK &&
            (o.per_device_train_batch_size != cases[i].micro || o.gradient_accumulation_steps != cases[i].steps))
            fail_msg("%s: %lld x %lld", cases[i].recipe, (long long)o.per_device_train_batch_size,
                     (long long)o.gradient_accumulation_steps);
        fw_options_fini(&o);
    }
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (uint64_t n = 1; n < 2000; n++) {
            fw_options o = {0};
            fw_alloc_fail_at(n);
            fw_status status = kind == 0   ? accelerate(&o, fsdp_yaml)
                               : kind == 1 ? deepspeed(&o, zero3_json)
                                           : read_recipe(&o, "deepspeed: {zero_optimization: {stage: 2}, seed: 7}");
            bool reached = fw_alloc_count() >= n;
            fw_alloc_fail_at(0);
            fw_options_fini(&o);
            if (!reached) break;
            assert_int_equal(status, FW_ERR_NOMEM);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accelerate),
        cmocka_unit_test(test_deepspeed),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_maps_in_recipes),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_nth_allocation_fails),
    };
    return cmocka_run_group_tests_name("config_foreign", tests, NULL, NULL);
}
