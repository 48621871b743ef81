/* What `finewire plan` says of this machine's ranks, against what `finewire train` takes: equal to the byte, for every
 * strategy, recomputing or not, holding gradients or not, in worlds of 1 to 8.
 *
 * Conversations are cut to one length and all of them is learnt, so that every batch is the longest there can be. */
#include "base/json.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct planned {
    long long arena_bytes, wire_bytes;
} planned;

static planned ask_plan(const char *strategy, const char *words) {
    char all[1024];
    const char *argv[FW_TEST_ARGS_MAX] = {FW_BINARY, "plan", "--json", "--device", "cpu", "--model", fw_run_model};
    int argc = 7;
    snprintf(all, sizeof all, "%s", words);
    for (char *word = strtok(all, " "); word != NULL; word = strtok(NULL, " ")) argv[argc++] = word;
    fw_test_command c;
    argv[argc] = NULL;
    assert_int_equal(fw_test_command_run(&c, argv, 0, 60), 0);
    json_t *plan;
    assert_int_equal(fw_json_parse(&plan, fw_strbuf_text(&c.out), c.out.len_bytes, "plan", 1), FW_OK);
    const json_t *row = json_object_get(json_object_get(plan, "strategies"), strategy);
    assert_non_null(row);
    assert_true(json_is_true(json_object_get(row, "fits")));
    const planned p = {json_integer_value(json_object_get(row, "arena_bytes")),
                       json_integer_value(json_object_get(row, "wire_bytes"))};
    json_decref(plan);
    fw_test_command_fini(&c);
    return p;
}

static long long number_after(const fw_test_command *c, const char *text) {
    const char *found = strstr(fw_strbuf_text(&c->out), text);
    assert_non_null(found);
    return strtoll(found + strlen(text), NULL, 10);
}

static const char *const recompute_words[] = {"false", "true", "selective",
                                              "selective --gradient_checkpointing_every 2",
                                              "true --gradient_checkpointing_every 2"};
enum { RECOMPUTE_N = sizeof recompute_words / sizeof *recompute_words };

static void compare(int world, const char *strategy, int recompute, int micro_n, const char *sync,
                    const char *adapter) {
    char words[512], more[768], name[64];
    snprintf(words, sizeof words,
             "--num_processes %d --num_threads 1 --per_device_train_batch_size 2 --max_length 24 --strategy %s "
             "--gradient_checkpointing %s --gradient_accumulation_steps %d --sync_each_batch %s%s %s",
             world, strategy, recompute_words[recompute], micro_n, sync,
             strncmp(strategy, "hsdp", 4) == 0 && world % 2 == 0 ? " --shard_group_size 2" : "", adapter);
    snprintf(name, sizeof name, "%s-%d-%d-%d-%s%.3s", strategy, world, recompute, micro_n, sync,
             adapter + strspn(adapter, "-"));
    const planned p = ask_plan(strategy, words);
    snprintf(more, sizeof more, "%s --max_steps 1 --save_strategy no --assistant_only_loss false", words);
    fw_test_run_args a;
    fw_test_command c;
    fw_test_run_make_args(&a, name, more);
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 120), 0);
    assert_non_null(strstr(fw_strbuf_text(&c.out), "all taken and no more"));
    const long long taken = number_after(&c, "planned_memory = ");
    if (taken != p.arena_bytes) fail_msg("%s: %lld bytes planned before, %lld taken", name, p.arena_bytes, taken);
    if (world > 1) {
        const char *sent = strstr(fw_strbuf_text(&c.out), "sent_per_step"); /* ... (N bytes) */
        assert_non_null(sent);
        sent = strchr(sent, '(');
        assert_non_null(sent);
        const long long bytes = strtoll(sent + 1, NULL, 10);
        if (bytes != p.wire_bytes) fail_msg("%s: %lld bytes to be sent, %lld sent", name, p.wire_bytes, bytes);
    }
    fw_test_command_fini(&c);
}

static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3", "hsdp"};

/* Everything there is, on two ranks. */
static void test_every_way(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        for (int recompute = 0; recompute < 2; recompute++) {
            compare(2, strategies[i], recompute, 1, "auto", "");
            compare(2, strategies[i], recompute, 2, "true", "");
            compare(2, strategies[i], recompute, 2, "false", "");
        }
}

/* Every strategy in every world; recomputing and holding in turn. */
static void test_every_world(void **state) {
    (void)state;
    for (int world = 1; world <= 8; world++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            if (world == 2 || (world == 1 && i > 0)) continue; /* on one rank all are one */
            const int recompute = (world + (int)i) % RECOMPUTE_N;
            compare(world, strategies[i], recompute, 2, (world / 2 + (int)i) % 2 == 0 ? "true" : "false", "");
        }
}

/* Adapters beside frozen weights, also in 4 bits: every strategy in worlds of 1 to 4, whatever an adapter keeps and works with in turn. */
static void test_adapters(void **state) {
    (void)state;
    static const char *const adapters[] = {
        "--use_peft --lora_r 4",
        "--use_peft --lora_r 3 --lora_dropout 0.1 --lora_target_modules q_proj,down_proj",
        "--use_peft --lora_r 2 --use_dora --lora_layers_to_transform 0",
        "--use_peft --lora_r 4 --lora_target_modules q_proj --lora_modules_to_save up_proj,embed_tokens",
        "--use_peft --lora_r 4 --load_in_4bit",
        "--use_peft --lora_r 2 --use_dora --load_in_4bit --use_bnb_nested_quant"};
    for (int world = 1; world <= 4; world++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
            if (world == 1 && i > 0) continue;
            const int recompute = (world + (int)i) % RECOMPUTE_N;
            compare(world, strategies[i], recompute, 2, i % 2 == 0 ? "true" : "false", adapters[(world + (int)i) % 6]);
        }
}

/* Every other lever under every strategy in worlds of 1 to 4: what optimizers keep, and where it is kept; in turn. */
static void test_levers(void **state) {
    (void)state;
    static const char *const optimizers[] = {"adamw_8bit", "paged_adamw_8bit", "lamb", "lion", "adafactor",
                                             "sgd",        "lion_8bit"};
    static const char *const places[] = {"--offload_optimizer nvme", "--offload_optimizer cpu --optim adamw_8bit",
                                         "--optim paged_adamw_32bit", "--offload_optimizer nvme --optim adafactor",
                                         "--offload_optimizer nvme --use_peft --load_in_4bit"};
    static const char *const shares[] = {
        "--offload_optimizer nvme --offload_params nvme --use_peft --lora_r 4 --load_in_4bit",
        "--offload_optimizer cpu --offload_params cpu --optim lion --prefetch 2",
        "--offload_optimizer nvme --offload_params cpu --use_peft --lora_r 4",
        "--offload_optimizer cpu --offload_params nvme --wrap model --use_peft --lora_r 4 --use_dora"};
    int turn = 0;
    for (int world = 1; world <= 4; world++)
        for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++, turn++) {
            char words[128];
            const bool shared = strcmp(strategies[i], "zero3") == 0 || strcmp(strategies[i], "hsdp") == 0;
            snprintf(words, sizeof words, "--optim %s", optimizers[turn % 7]);
            compare(world, strategies[i], turn % RECOMPUTE_N, 2, "auto", words);
            compare(world, strategies[i], turn % RECOMPUTE_N, 1, "auto", places[turn % 5]);
            if (shared || world == 1) compare(world, strategies[i], turn % RECOMPUTE_N, 2, "auto", shares[turn % 4]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way), cmocka_unit_test(test_every_world),
                                       cmocka_unit_test(test_adapters), cmocka_unit_test(test_levers)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
