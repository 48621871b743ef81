/* Adapters as a user trains them: every strategy and world writes the same folder (A18), a bf16 base trains fp32 adapters
 * sharded as on one rank (A16), recomputing changes nothing and leaves no adapter untrained (A17). */
#include "store/peft_folder.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char LORA[] = "--use_peft --lora_r 3 --lora_alpha 12 --lora_target_modules all-linear --save_strategy no";

static void train(const char *name, const char *more) {
    char words[1280];
    snprintf(words, sizeof words, "%s %s", LORA, more);
    assert_int_equal(fw_test_run_train(name, 0, words), 0);
}

/* What a fresh adapter is, is known before the first step: a rate of 0 leaves it. */
static void test_beginning(void **state) {
    (void)state;
    static const char *const worlds[] = {"--num_processes 2 --strategy ddp", "--num_processes 2 --strategy zero3",
                                         "--num_processes 4 --strategy zero2",
                                         "--num_processes 4 --strategy hsdp --shard_group_size 2"};
    train("start", "--max_steps 1 --learning_rate 0 --num_processes 1");
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        char words[256], name[32];
        snprintf(words, sizeof words, "--max_steps 1 --learning_rate 0 %s", worlds[i]);
        snprintf(name, sizeof name, "start%zu", i);
        train(name, words);
        fw_test_run_same_final("start", name);
    }
    train("other_seed", "--max_steps 1 --learning_rate 0 --seed 43");
    fw_mapping a, b;
    assert_int_equal(fw_file_map(&a, fw_test_run_path("start", "final/adapter_model.safetensors")), FW_OK);
    assert_int_equal(fw_file_map(&b, fw_test_run_path("other_seed", "final/adapter_model.safetensors")), FW_OK);
    assert_true(a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) != 0);
    fw_file_unmap(&a);
    fw_file_unmap(&b);
}

/* Ten steps at one world size: the same bytes under each strategy, dropout and all. */
static void test_strategies(void **state) {
    (void)state;
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char words[256];
        snprintf(words, sizeof words,
                 "--max_steps 10 --num_processes 2 --strategy %s --lora_dropout 0.1 "
                 "--per_device_train_batch_size 2",
                 strategies[i]);
        train(strategies[i], words);
        if (i > 0) fw_test_run_same_final(strategies[0], strategies[i]);
    }
}

static void same_losses(const char *a, const char *b, int steps, double bound) {
    double x[FW_TEST_STEPS_MAX], y[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses(a, x), steps);
    assert_int_equal(fw_test_run_losses(b, y), steps);
    for (int step = 1; step <= steps; step++)
        if (fabs(x[step] - y[step]) > bound * x[step])
            fail_msg("step %d: loss %.9f in %s and %.9f in %s", step, x[step], a, y[step], b);
    assert_true(x[steps] < x[1]);
}

/* The batch is 12 conversations, on one rank or several: frozen bf16 and trained fp32 lie in one unit, sharded. */
static void test_mixed_types(void **state) {
    (void)state;
    static const char common[] = "--max_steps 8 --lr_scheduler_type constant --use_dora --lora_modules_to_save norm";
    static const char *const worlds[] = {"--num_processes 1 --per_device_train_batch_size 12",
                                         "--num_processes 2 --strategy zero3 --per_device_train_batch_size 6",
                                         "--num_processes 3 --strategy zero2 --per_device_train_batch_size 4"};
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
            char words[384], name[32], first[32];
            snprintf(words, sizeof words, "%s --bf16 %s %s", common, bf16 ? "true" : "false", worlds[i]);
            snprintf(name, sizeof name, "mixed%d_%zu", bf16, i);
            snprintf(first, sizeof first, "mixed%d_0", bf16);
            train(name, words);
            if (i > 0) same_losses(first, name, 8, bf16 ? 2e-3 : 2e-5); /* bf16 rounds what fp32 sums differ by */
        }
}

/* Returns how many matrices B there are; each has moved away from zero. */
static int check_moved(const char *name) {
    fw_peft_folder folder;
    int b_n = 0;
    assert_int_equal(fw_peft_folder_open(&folder, fw_test_run_path(name, "final")), FW_OK);
    const fw_safetensors *file = &folder.weights.shard[0];
    for (size_t i = 0; i < file->tensor_n; i++) {
        const fw_stored_tensor *t = &file->tensor[i];
        float value[64 * 16];
        double sum = 0;
        if (strstr(t->name, ".lora_B.") == NULL) continue;
        assert_true(t->n <= (int64_t)(sizeof value / sizeof *value));
        assert_int_equal(fw_safetensors_read_f32(value, file, t, 0, t->n), FW_OK);
        for (int64_t k = 0; k < t->n; k++) sum += fabs((double)value[k]);
        if (!(sum > 0)) fail_msg("%s: %s has not moved", name, t->name);
        b_n++;
    }
    fw_peft_folder_close(&folder);
    return b_n;
}

static void test_recompute(void **state) {
    (void)state;
    static const char *const ways[] = {"false", "true", "selective"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[128], one[32], five[32];
        snprintf(one, sizeof one, "one_%s", ways[i]);
        snprintf(five, sizeof five, "five_%s", ways[i]);
        snprintf(words, sizeof words, "--max_steps 1 --gradient_checkpointing %s", ways[i]);
        train(one, words);
        assert_int_equal(check_moved(one), 3 * 7); /* llama_tied has three blocks */
        snprintf(words, sizeof words, "--max_steps 5 --lora_dropout 0.2 --gradient_checkpointing %s", ways[i]);
        train(five, words);
        if (i == 0) continue;
        fw_test_run_same_final("one_false", one);
        fw_test_run_same_final("five_false", five);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beginning), cmocka_unit_test(test_strategies),
                                       cmocka_unit_test(test_mixed_types), cmocka_unit_test(test_recompute)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
