/* config: strategies, units and prefetch in the words of finewire, FSDP, accelerate and DeepSpeed. */
#include "base/alloc.h"
#include "config/lookup.h"
#include "config/options_sharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

/* Read a recipe, then arguments separated by '|', then resolve; *o is always valid for fini. */
static fw_status resolve(fw_options *o, const char *recipe, const char *line) {
    static char text[1024];
    char *argv[16];
    int argc = 0;
    FW_TRY(fw_options_init(o, FW_COMMAND_TRAIN));
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text; line[0] != 0 && rest != NULL && argc < 16;) {
        argv[argc++] = rest;
        rest = strchr(rest, '|');
        if (rest != NULL) *rest++ = 0;
    }
    FW_TRY(fw_options_parse(o, argc, argv));
    if (recipe[0] != 0) FW_TRY(fw_options_parse_recipe(o, recipe, strlen(recipe), "r.yaml"));
    FW_TRY(fw_options_resolve_sharding(o));
    return fw_options_resolve_sharding(o); /* a second time changes nothing */
}

static void test_strategies(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        fw_strategy strategy;
    } cases[] = {
        {"seed: 1", FW_STRATEGY_AUTO},
        {"strategy: auto", FW_STRATEGY_AUTO},
        {"strategy: ddp", FW_STRATEGY_DDP},
        {"strategy: DDP", FW_STRATEGY_DDP},
        {"strategy: zero1", FW_STRATEGY_ZERO1},
        {"strategy: zero2", FW_STRATEGY_ZERO2},
        {"strategy: zero3", FW_STRATEGY_ZERO3},
        {"strategy: hsdp", FW_STRATEGY_HSDP},
        {"strategy: hsdp-zero2", FW_STRATEGY_HSDP_ZERO2},
        {"strategy: fsdp", FW_STRATEGY_ZERO3},
        {"strategy: FSDP2", FW_STRATEGY_ZERO3},
        {"strategy: ZeRO-1", FW_STRATEGY_ZERO1},
        {"strategy: zero_2", FW_STRATEGY_ZERO2},
        {"strategy: ZeRO-3", FW_STRATEGY_ZERO3},
        {"strategy: zero-0", FW_STRATEGY_DDP},
        {"strategy: FULL_SHARD", FW_STRATEGY_ZERO3},
        {"strategy: shard-grad-op", FW_STRATEGY_ZERO2},
        {"strategy: No_Shard", FW_STRATEGY_DDP},
        {"strategy: HYBRID_SHARD", FW_STRATEGY_HSDP},
        {"strategy: hybrid-shard-zero2", FW_STRATEGY_HSDP_ZERO2},
        {"zero_stage: 0", FW_STRATEGY_DDP},
        {"zero_stage: 1", FW_STRATEGY_ZERO1},
        {"zero_stage: 2", FW_STRATEGY_ZERO2},
        {"zero-stage: 3", FW_STRATEGY_ZERO3},
        {"fsdp_sharding_strategy: FULL_SHARD", FW_STRATEGY_ZERO3},
        {"fsdp_sharding_strategy: 1", FW_STRATEGY_ZERO3},
        {"fsdp_sharding_strategy: SHARD_GRAD_OP", FW_STRATEGY_ZERO2},
        {"fsdp_sharding_strategy: 2", FW_STRATEGY_ZERO2},
        {"fsdp_sharding_strategy: NO_SHARD", FW_STRATEGY_DDP},
        {"fsdp_sharding_strategy: 3", FW_STRATEGY_DDP},
        {"fsdp_sharding_strategy: HYBRID_SHARD", FW_STRATEGY_HSDP},
        {"fsdp_sharding_strategy: 4", FW_STRATEGY_HSDP},
        {"fsdp_sharding_strategy: hybrid_shard_zero2", FW_STRATEGY_HSDP_ZERO2},
        {"fsdp_sharding_strategy: 5", FW_STRATEGY_HSDP_ZERO2},
        {"fsdp: full_shard", FW_STRATEGY_ZERO3},
        {"fsdp: true", FW_STRATEGY_ZERO3},
        {"fsdp: False", FW_STRATEGY_AUTO},
        {"fsdp: ''", FW_STRATEGY_AUTO},
        {"fsdp: auto_wrap", FW_STRATEGY_ZERO3},
        {"fsdp: \"full_shard auto_wrap\"", FW_STRATEGY_ZERO3},
        {"fsdp: auto_wrap, shard_grad_op", FW_STRATEGY_ZERO2},
        {"fsdp: no_shard", FW_STRATEGY_DDP},
        {"fsdp: Hybrid_Shard  auto_wrap ", FW_STRATEGY_HSDP},
        {"fsdp: hybrid_shard_zero2", FW_STRATEGY_HSDP_ZERO2},
        /* reshard_after_forward */
        {"reshard_after_forward: true", FW_STRATEGY_ZERO3},
        {"fsdp_reshard_after_forward: false", FW_STRATEGY_ZERO2},
        {"fsdp_reshard_after_forward: FULL_SHARD", FW_STRATEGY_ZERO3},
        {"reshard_after_forward: shard_grad_op", FW_STRATEGY_ZERO2},
        {"fsdp: full_shard\nfsdp_reshard_after_forward: false", FW_STRATEGY_ZERO2},
        {"fsdp: full_shard\nfsdp_reshard_after_forward: true", FW_STRATEGY_ZERO3},
        {"fsdp: hybrid_shard\nfsdp_reshard_after_forward: false", FW_STRATEGY_HSDP_ZERO2},
        {"strategy: zero3\nfsdp_reshard_after_forward: no", FW_STRATEGY_ZERO2},
        {"strategy: zero2\nfsdp_reshard_after_forward: false", FW_STRATEGY_ZERO2},
        {"strategy: auto\nfsdp_reshard_after_forward: true", FW_STRATEGY_ZERO3},
        {"strategy: fsdp\nfsdp: full_shard\nfsdp_reshard_after_forward: false", FW_STRATEGY_ZERO2},
        {"strategy: auto\nfsdp: shard_grad_op", FW_STRATEGY_ZERO2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        if (resolve(&o, cases[i].recipe, "") != FW_OK) fail_msg("%s: %s", cases[i].recipe, fw_trail_message());
        if (o.strategy != cases[i].strategy)
            fail_msg("%s: strategy %s", cases[i].recipe, fw_strategy_words[o.strategy]);
        fw_options_fini(&o);
    }
}

/* The command line wins over the recipe, whatever program's words either of them speaks. */
static void test_command_line_wins(void **state) {
    (void)state;
    static const struct {
        const char *recipe, *line;
        fw_strategy strategy;
        fw_wrap wrap;
        int64_t prefetch;
    } cases[] = {
        {"strategy: zero3", "--zero_stage|1", FW_STRATEGY_ZERO1, FW_WRAP_BLOCK, 1},
        {"fsdp: full_shard", "--strategy|ddp", FW_STRATEGY_DDP, FW_WRAP_BLOCK, 1},
        {"fsdp: full_shard", "--strategy|auto", FW_STRATEGY_AUTO, FW_WRAP_BLOCK, 1},
        {"strategy: zero1", "--fsdp|shard_grad_op", FW_STRATEGY_ZERO2, FW_WRAP_BLOCK, 1},
        {"fsdp: full_shard", "--reshard-after-forward|false", FW_STRATEGY_ZERO2, FW_WRAP_BLOCK, 1},
        {"fsdp_reshard_after_forward: false", "--strategy|zero3", FW_STRATEGY_ZERO3, FW_WRAP_BLOCK, 1},
        {"fsdp_reshard_after_forward: true", "--strategy|ddp", FW_STRATEGY_DDP, FW_WRAP_BLOCK, 1},
        {"wrap: block", "--min_num_params|1000", FW_STRATEGY_AUTO, FW_WRAP_SIZE, 1},
        {"fsdp_min_num_params: 1000", "--wrap|model", FW_STRATEGY_AUTO, FW_WRAP_MODEL, 1},
        {"fsdp_transformer_layer_cls_to_wrap: X", "--wrap|no_wrap", FW_STRATEGY_AUTO, FW_WRAP_MODEL, 1},
        {"prefetch: 2", "--forward_prefetch|false", FW_STRATEGY_AUTO, FW_WRAP_BLOCK, 0},
        {"fsdp_backward_prefetch: NO_PREFETCH", "--prefetch|2", FW_STRATEGY_AUTO, FW_WRAP_BLOCK, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        if (resolve(&o, cases[i].recipe, cases[i].line) != FW_OK) fail_msg("%zu: %s", i, fw_trail_message());
        if (o.strategy != cases[i].strategy || o.wrap != cases[i].wrap || o.prefetch != cases[i].prefetch)
            fail_msg("%zu: %s %s %lld", i, fw_strategy_words[o.strategy], fw_wrap_words[o.wrap], (long long)o.prefetch);
        fw_options_fini(&o);
    }
}

static void test_units_and_prefetch(void **state) {
    (void)state;
    static const struct {
        const char *recipe;
        fw_wrap wrap;
        int64_t params, prefetch;
    } cases[] = {
        {"seed: 1", FW_WRAP_BLOCK, 0, 1},
        {"wrap: Block", FW_WRAP_BLOCK, 0, 1},
        {"wrap: size", FW_WRAP_SIZE, 100000000, 1},
        {"wrap: model", FW_WRAP_MODEL, 0, 1},
        {"fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP", FW_WRAP_BLOCK, 0, 1},
        {"auto_wrap_policy: SIZE_BASED_WRAP\nmin_num_params: 1e6", FW_WRAP_SIZE, 1000000, 1},
        {"fsdp_auto_wrap_policy: NO_WRAP", FW_WRAP_MODEL, 0, 1},
        {"min_num_params: 2000", FW_WRAP_SIZE, 2000, 1},
        {"fsdp_min_num_params: 0", FW_WRAP_BLOCK, 0, 1},
        {"fsdp_transformer_layer_cls_to_wrap: Qwen2DecoderLayer\nfsdp_min_num_params: 0", FW_WRAP_BLOCK, 0, 1},
        {"prefetch: 0", FW_WRAP_BLOCK, 0, 0},
        {"prefetch: 2", FW_WRAP_BLOCK, 0, 2},
        {"forward_prefetch: true", FW_WRAP_BLOCK, 0, 1},
        {"forward_prefetch: false", FW_WRAP_BLOCK, 0, 0},
        {"backward_prefetch: BACKWARD_PRE", FW_WRAP_BLOCK, 0, 1},
        {"fsdp_backward_prefetch_policy: BACKWARD_POST", FW_WRAP_BLOCK, 0, 1},
        {"fsdp_backward_prefetch: NO_PREFETCH", FW_WRAP_BLOCK, 0, 0},
        {"fsdp_backward_prefetch: BACKWARD_PRE\nfsdp_forward_prefetch: false", FW_WRAP_BLOCK, 0, 1},
        {"fsdp_backward_prefetch: no-prefetch\nfsdp_forward_prefetch: on", FW_WRAP_BLOCK, 0, 1},
        {"prefetch: 2\nfsdp_forward_prefetch: true", FW_WRAP_BLOCK, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        if (resolve(&o, cases[i].recipe, "") != FW_OK) fail_msg("%s: %s", cases[i].recipe, fw_trail_message());
        if (o.wrap != cases[i].wrap || o.fsdp_min_num_params != cases[i].params || o.prefetch != cases[i].prefetch)
            fail_msg("%s: %s %lld %lld", cases[i].recipe, fw_wrap_words[o.wrap], (long long)o.fsdp_min_num_params,
                     (long long)o.prefetch);
        fw_options_fini(&o);
    }
    fw_options o;
    assert_int_equal(resolve(&o,
                             "sync_each_batch: yes\ngradient_dtype: bfloat16\ndevice_memory: 20GB\ntrace: t.json\n"
                             "fsdp_activation_checkpointing: false",
                             ""),
                     FW_OK);
    assert_int_equal(o.sync_each_batch, FW_TOGGLE_ON);
    assert_int_equal(o.gradient_dtype, FW_GRADIENT_BF16);
    assert_int_equal(o.device_memory, 20000000000);
    assert_string_equal(o.trace, "t.json");
    assert_false(o.gradient_checkpointing);
    fw_options_fini(&o);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *recipe, *line, *message;
    } cases[] = {
        {"strategy: zero4", "",
         "r.yaml:1: strategy is zero4; it must be auto, ddp, zero1, zero2, zero3, hsdp or hsdp_zero2; did you mean "
         "zero1?"},
        {"", "--strategy|Full-Shar",
         "--strategy is Full-Shar; it must be auto, ddp, zero1, zero2, zero3, hsdp or hsdp_zero2; did you mean "
         "full_shard?"},
        {"", "--strategy|tensor_parallel",
         "--strategy is tensor_parallel; it must be auto, ddp, zero1, zero2, zero3, hsdp or hsdp_zero2"},
        {"", "--strategy|1", "--strategy is 1; it must be auto, ddp, zero1, zero2, zero3, hsdp or hsdp_zero2"},
        {"zero_stage: 4", "", "r.yaml:1: zero_stage is 4; it must be 0, 1, 2 or 3"},
        {"zero_stage: zero3", "", "r.yaml:1: zero_stage is zero3; it must be 0, 1, 2 or 3"},
        {"fsdp_sharding_strategy: hybrid_shard_zero", "",
         "r.yaml:1: fsdp_sharding_strategy is hybrid_shard_zero; it must be FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, "
         "HYBRID_SHARD, HYBRID_SHARD_ZERO2, 1, 2, 3, 4 or 5; did you mean HYBRID_SHARD_ZERO2?"},
        {"strategy: ddp\nzero_stage: 3", "", "r.yaml:2: zero_stage is given twice: line 1 says strategy; keep one"},
        {"offload_params: cpu", "",
         "offload_params is cpu, but offload_optimizer is none: the fp32 weights, which the others are rounded from, "
         "lie with the "
         "optimizer's state; give offload_optimizer cpu or nvme too"},
        {"offload_params: cpu\noffload_optimizer: cpu\nstrategy: zero2\nnum_processes: 2", "",
         "offload_params is cpu (the recipe:1) contradicts strategy is zero2 (the recipe:3); only zero3 and hsdp share "
         "out the weights, others keep all of them on every rank; write strategy zero3, or leave out offload_params"},
        {"offload_optimizer: nvme\noffload_dir: x", "--offload_params|nvme|--strategy|ddp|--num_processes|2",
         "offload_params is nvme (the command line) contradicts strategy is ddp (the command line); only zero3 and "
         "hsdp share out the weights, others keep all of them on every rank; write strategy zero3, or leave out "
         "offload_params"},
        {"fsdp: shard_grad_op offload\nnum_processes: 2", "",
         "\"offload\" in fsdp offloads weights too, and strategy zero2 keeps all of them on every rank; use full_shard "
         "or "
         "hybrid_shard (zero3, hsdp), or offload_optimizer cpu instead"},
        {"fsdp: full_shard offload\noffload_optimizer: none", "",
         "offload_optimizer is none (the recipe:2) contradicts fsdp is full_shard offload (the recipe:1); FSDP's "
         "offload means "
         "cpu; leave out one of them"},
        {"fsdp: full_shrad", "", "fsdp: \"full_shrad\" is not known; did you mean full_shard?"},
        {"fsdp: 17", "",
         "fsdp: \"17\" is not known; it takes full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 "
         "and "
         "auto_wrap"},
        {"fsdp: full_shard no_shard", "", "fsdp is \"full_shard no_shard\": it names two strategies; keep one"},
        {"strategy: ddp\nfsdp: full_shard", "",
         "strategy is ddp (the recipe:1) contradicts fsdp is full_shard (the recipe:2); leave out one of them"},
        {"", "--strategy|zero2|--fsdp|full_shard",
         "strategy is zero2 (the command line) contradicts fsdp is full_shard (the command line); leave out one of "
         "them"},
        {"strategy: ddp\nfsdp_reshard_after_forward: true", "",
         "fsdp_reshard_after_forward is true (the recipe:2) contradicts strategy is ddp (the recipe:1); it chooses "
         "between zero3 (true) and zero2 (false), or hsdp and hsdp_zero2"},
        {"fsdp: shard_grad_op\nfsdp_reshard_after_forward: true", "",
         "fsdp_reshard_after_forward is true (the recipe:2) contradicts fsdp is shard_grad_op (the recipe:1); it "
         "chooses between zero3 (true) and zero2 (false), or hsdp and hsdp_zero2"},
        {"zero_stage: 1", "--reshard_after_forward|false",
         "fsdp_reshard_after_forward is false (the command line) contradicts strategy is zero1 (the recipe:1); it "
         "chooses between zero3 (true) and zero2 (false), or hsdp and hsdp_zero2"},
        {"reshard_after_forward: maybe", "",
         "r.yaml:1: reshard_after_forward is maybe; it must be auto, true or false"},
        {"shard_group_size: 2\nstrategy: zero3", "",
         "shard_group_size is 2, but strategy is zero3; groups are for hsdp and hsdp_zero2"},
        {"shard_group_size: 2", "", "shard_group_size is 2, but strategy is auto; groups are for hsdp and hsdp_zero2"},
        {"wrap: block\nmin_num_params: 5", "",
         "wrap is block (the recipe:1) contradicts fsdp_min_num_params is 5 (the recipe:2); leave out one of them"},
        {"wrap: model\ntransformer_layer_cls_to_wrap: X", "",
         "wrap is model (the recipe:1) contradicts fsdp_transformer_layer_cls_to_wrap is X (the recipe:2); leave out "
         "one of them"},
        {"min_num_params: 5\ntransformer_layer_cls_to_wrap: X", "",
         "fsdp_transformer_layer_cls_to_wrap is X (the recipe:2) contradicts fsdp_min_num_params is 5 (the recipe:1); "
         "units are wrapped by class or by size, not by both"},
        {"prefetch: 0\nforward_prefetch: true", "",
         "prefetch is 0 (the recipe:1) contradicts fsdp_forward_prefetch is true (the recipe:2); leave out one of "
         "them"},
        {"prefetch: 3", "", "r.yaml:1: prefetch is 3; it must be from 0 to 2"},
        {"backward_prefetch: BACKWARD", "",
         "r.yaml:1: backward_prefetch is BACKWARD; it must be auto, backward_pre, backward_post or no_prefetch; did "
         "you mean backward_pre?"},
        {"fsdp_auto_wrap_policy: foo", "",
         "r.yaml:1: fsdp_auto_wrap_policy is foo; it must be TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP"},
        {"", "--auto_wrap_policy|no_warp",
         "--auto_wrap_policy is no_warp; it must be TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP; did you mean "
         "NO_WRAP?"},
        {"gradient_dtype: bf16\nbf16: false", "",
         "gradient_dtype is bf16, but bf16 is false, which computes all in fp32; leave out one of them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        if (resolve(&o, cases[i].recipe, cases[i].line) != FW_ERR_OPTION) fail_msg("%s is taken", cases[i].recipe);
        assert_string_equal(fw_trail_message(), cases[i].message);
        fw_options_fini(&o);
    }
}

static void test_words(void **state) {
    (void)state;
    assert_true(fw_words_equal("Hybrid-Shard", "hybrid_shard"));
    assert_true(fw_words_equal("", ""));
    assert_false(fw_words_equal("zero", "zero1"));
    assert_false(fw_words_equal("zero1", "zero"));
    /* no word of a set stands for two values, and each finds its value */
    for (int id = 0; id < FW_OPTION_N; id++) {
        const fw_option_info *info = fw_option_get((fw_option_id)id);
        if (info->type != FW_TYPE_CHOICE) continue;
        for (int value = 0; info->choices[value] != NULL; value++)
            assert_int_equal(fw_choice_by_word(info->choices, info->choices[value]), value);
        int value;
        const char *also;
        for (size_t i = 0; (also = fw_choice_also_at(i, info->choices, &value)) != NULL; i++)
            assert_int_equal(fw_choice_by_word(info->choices, also), value);
    }
    /* every FW_WORD belongs to a name, and what it means is taken by its option */
    const fw_option_word *word;
    for (size_t i = 0; (word = fw_option_word_at(i)) != NULL; i++) {
        fw_options o;
        fw_option_id id;
        const fw_option_spelling *spelling;
        assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
        assert_int_equal(fw_option_find(&id, &spelling, FW_COMMAND_TRAIN, word->name, (fw_option_place){0}), FW_OK);
        assert_int_equal(spelling != NULL, word->only);
        assert_int_equal(fw_option_set(&o, id, spelling, word->name, word->written, (fw_option_place){0}, true), FW_OK);
        fw_options_fini(&o);
    }
}

static void test_shard_group(void **state) {
    (void)state;
    fw_options o = {.command = FW_COMMAND_TRAIN};
    int size = 0;
    assert_int_equal(fw_options_shard_group(&size, &o, 8, 4), FW_OK); /* two hosts */
    assert_int_equal(size, 4);
    assert_int_equal(fw_options_shard_group(&size, &o, 6, 6), FW_OK); /* one host: all of it */
    assert_int_equal(size, 6);
    o.shard_group_size = 2;
    assert_int_equal(fw_options_shard_group(&size, &o, 6, 6), FW_OK);
    assert_int_equal(size, 2);
    o.shard_group_size = 4;
    assert_int_equal(fw_options_shard_group(&size, &o, 6, 6), FW_ERR_OPTION);
    assert_string_equal(fw_trail_message(),
                        "shard_group_size is 4, which does not divide the 6 ranks; shard_group_size may be 1, 2, 3 or "
                        "6");
    o.shard_group_size = 64;
    assert_int_equal(fw_options_shard_group(&size, &o, 1, 1), FW_ERR_OPTION);
    assert_string_equal(fw_trail_message(),
                        "shard_group_size is 64, which does not divide the 1 ranks; shard_group_size may be 1");
    o.shard_group_size = 0;
    assert_int_equal(fw_options_shard_group(&size, &o, 5, 3), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "the number of ranks on this host is 3"));
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    uint64_t n = 1;
    for (;; n++) {
        fw_options o;
        fw_alloc_fail_at(n);
        fw_status status = resolve(&o, "", "--fsdp|full_shard auto_wrap|--trace|t.json|--wrap|size");
        fw_alloc_fail_at(0);
        fw_options_fini(&o);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_true(n >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_command_line_wins),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_units_and_prefetch),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_shard_group),
        cmocka_unit_test(test_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
