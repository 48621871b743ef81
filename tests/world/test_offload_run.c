/* finewire train with optimizer state and weights elsewhere: the same losses and the same model as where all stays, under
 * every strategy; checkpoints, resuming, the files of other programs; what is left behind; a disk that is full. */
#include "base/file.h"
#include "plan/memory_plan.h"
#include "support/run_lab.h"
#include "support/sanitized.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual = "--max_steps 6 --save_strategy no --per_device_train_batch_size 2";

static void train(const char *name, const char *more) {
    char words[2048];
    snprintf(words, sizeof words, "%s %s", usual, more);
    assert_int_equal(fw_test_run_train(name, 0, words), 0);
}

static void expect_same(const char *name, const char *plain) {
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    const int n = fw_test_run_losses(plain, a);
    assert_int_equal(fw_test_run_losses(name, b), n);
    for (int step = 1; step <= n; step++)
        if (a[step] != b[step]) fail_msg("%s, step %d: loss %.9g, not %.9g", name, step, b[step], a[step]);
    fw_test_run_same_final(name, plain);
}

/* Each lever, alone and together, from one to four ranks; with accumulation gradients are held, as without it. */
static void test_same_losses(void **state) {
    (void)state;
    static const struct {
        int world;
        const char *strategy, *more;
    } runs[] = {{1, "ddp", "--offload_optimizer nvme"},
                {1, "ddp", "--offload_optimizer nvme --offload_params nvme --bf16 false"},
                {1, "zero3", "--offload_optimizer cpu --offload_params cpu --prefetch 2"},
                {2, "ddp", "--offload_optimizer nvme --gradient_accumulation_steps 2"},
                {2, "zero1", "--offload_optimizer nvme"},
                {2, "zero3", "--offload_optimizer nvme --offload_params nvme --gradient_accumulation_steps 2"},
                {3, "zero2", "--offload_optimizer cpu"},
                {4, "hsdp", "--offload_optimizer nvme --offload_params cpu --shard_group_size 2"},
                {4, "zero3", "--offload_optimizer nvme --offload_params nvme --prefetch 2"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char plain[64], name[64], words[512];
        const char *accumulation = strstr(runs[i].more, "--gradient_accumulation_steps 2");
        const char *group = strstr(runs[i].more, "--shard_group_size 2"), *fp32 = strstr(runs[i].more, "--bf16 false");
        snprintf(plain, sizeof plain, "plain-%d", (int)i);
        snprintf(name, sizeof name, "away-%d", (int)i);
        snprintf(words, sizeof words, "--num_processes %d --strategy %s %s %s %s", runs[i].world, runs[i].strategy,
                 accumulation != NULL ? accumulation : "", group != NULL ? group : "", fp32 != NULL ? fp32 : "");
        train(plain, words);
        snprintf(words, sizeof words, "--num_processes %d --strategy %s %s", runs[i].world, runs[i].strategy,
                 runs[i].more);
        train(name, words);
        expect_same(name, plain);
    }
}

/* State of every optimizer, paged where it has that name, on a model of more blocks than there are buffers. */
static void test_optimizers(void **state) {
    (void)state;
    static const char *const runs[][3] = {
        {"adamw_torch", "--optim paged_adamw_32bit", "--strategy zero2 --num_processes 2"},
        {"adamw_8bit", "--optim paged_adamw_8bit", "--strategy zero3 --num_processes 2"},
        {"adamw_8bit", "--optim adamw_8bit --offload_optimizer nvme", "--strategy zero3 --num_processes 2"},
        {"lion_32bit", "--optim lion_32bit --offload_optimizer nvme --offload_params nvme", "--strategy ddp"},
        {"lamb", "--optim lamb --offload_optimizer nvme", "--strategy zero2 --num_processes 2"},
        {"adafactor", "--optim adafactor --offload_optimizer nvme", "--strategy zero3 --num_processes 2"},
        {"sgd", "--optim sgd --optim_args momentum=0.9 --offload_optimizer nvme", "--strategy ddp"}};
    const char *deep = fw_test_path(fw_run_dir, "deep");
    assert_int_equal(fw_test_write_model(deep, "llama_deep", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(deep, FW_TEST_SMOLLM2), FW_OK);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char plain[64], name[64], words[FW_TEST_PATH_BYTES + 512];
        snprintf(plain, sizeof plain, "optim-%d", (int)i);
        snprintf(name, sizeof name, "optim-away-%d", (int)i);
        const char *arguments = strstr(runs[i][1], "--optim_args momentum=0.9");
        snprintf(words, sizeof words, "--model %s --max_steps 3 --optim %s %s %s", deep, runs[i][0], runs[i][2],
                 arguments != NULL ? "--optim_args momentum=0.9" : "");
        train(plain, words);
        snprintf(words, sizeof words, "--model %s --max_steps 3 %s %s", deep, runs[i][1], runs[i][2]);
        train(name, words);
        expect_same(name, plain);
    }
}

/* Checkpoints know nothing of places: a run goes on with other ones, on another number of ranks' shares. */
static void test_resume(void **state) {
    (void)state;
    const char *straight = "--num_processes 2 --strategy zero3 --save_strategy steps --save_steps 3";
    train("straight", straight);
    static const char *const ways[] = {"--offload_optimizer nvme --offload_params nvme", "--offload_optimizer cpu",
                                       "--offload_optimizer nvme --save_async true"};
    for (int i = 0; i < 3; i++) {
        char name[32], words[512];
        snprintf(name, sizeof name, "resumed-%d", i);
        snprintf(words, sizeof words, "%s %s --max_steps 3 --lr_scheduler_type constant", straight, ways[i]);
        train(name, words);
        snprintf(words, sizeof words, "%s %s --lr_scheduler_type constant", straight, ways[(i + 1) % 3]);
        train(name, words);
        if (i == 0) train("constant", "--num_processes 2 --strategy zero3 --lr_scheduler_type constant");
        expect_same(name, "constant");
    }
}

/* The state of an adapter lies elsewhere as that of a model does, and so do the weights beside it that are frozen. */
static void test_adapter(void **state) {
    (void)state;
    train("adapter", "--num_processes 2 --strategy zero3 --use_peft true --learning_rate 1e-2");
    train("adapter-away",
          "--num_processes 2 --strategy zero3 --use_peft true --learning_rate 1e-2 --offload_optimizer nvme "
          "--offload_params nvme");
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("adapter", a), 6);
    assert_int_equal(fw_test_run_losses("adapter-away", b), 6);
    for (int step = 1; step <= 6; step++) assert_true(a[step] == b[step]);
}

/* DeepSpeed's and FSDP's words for it. */
static void test_foreign(void **state) {
    (void)state;
    char path[FW_TEST_PATH_BYTES + 32], file[1024], words[FW_TEST_PATH_BYTES + 256];
    snprintf(path, sizeof path, "%s/ds.json", fw_run_dir);
    snprintf(
        file, sizeof file,
        "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": "
        "\"%s/nvme\", "
        "\"pin_memory\": true, \"buffer_count\": 5}, \"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true}}}",
        fw_run_dir);
    assert_int_equal(fw_file_write(path, file, strlen(file)), FW_OK);
    train("zero3", "--num_processes 2 --strategy zero3");
    snprintf(words, sizeof words, "--num_processes 2 --deepspeed %s", path);
    train("deepspeed", words);
    expect_same("deepspeed", "zero3");
    snprintf(path, sizeof path, "%s/nvme", fw_run_dir); /* the folder was made, and the file in it had no name */
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, path), FW_OK);
    assert_int_equal(n, 0);
    fw_dir_list_free(names, n);
    snprintf(path, sizeof path, "%s/fsdp.yaml", fw_run_dir);
    const char *recipe = "fsdp: full_shard\nfsdp_config:\n  offload_params: true\n";
    assert_int_equal(fw_file_write(path, recipe, strlen(recipe)), FW_OK);
    snprintf(words, sizeof words, "--num_processes 2 --recipe %s", path);
    train("fsdp", words);
    expect_same("fsdp", "zero3");
}

static void test_refusals(void **state) {
    (void)state;
    fw_test_run_refused(2, "offload_params is cpu, but offload_optimizer is none", "--offload_params cpu");
    fw_test_run_refused(2, "only zero3 and hsdp share out the weights",
                        "--offload_params cpu --offload_optimizer cpu --strategy zero2 --num_processes 2");
    fw_test_run_refused(6, "offload_dir", "--offload_optimizer nvme --offload_dir /proc/1/none");
}

static double number_after(const fw_test_command *c, const char *text) {
    const char *found = strstr(fw_strbuf_text(&c->out), text);
    assert_non_null(found);
    return strtod(found + strlen(text), NULL);
}

/* With everything in a file a rank holds the weights in bf16, the states of the largest unit and what the plan names beside
 * them: far from the sixteen bytes a parameter that it holds without. The plan's rows are what was taken. */
static void test_memory(void **state) {
    (void)state;
    if (FW_TEST_SANITIZED) skip();
    const char *big = fw_test_path(fw_run_dir, "big");
    assert_int_equal(fw_test_write_big_model(big), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(big, FW_TEST_SMOLLM2), FW_OK);
    static const char *const ways[] = {"", "--offload_optimizer nvme", "--offload_optimizer nvme --offload_params nvme",
                                       "--offload_optimizer nvme --gradient_accumulation_steps 2"};
    double peak[4];
    for (int i = 0; i < 4; i++) {
        char name[32], words[FW_TEST_PATH_BYTES + 256];
        snprintf(name, sizeof name, "memory-%d", i);
        snprintf(words, sizeof words,
                 "--model %s --per_device_train_batch_size 1 --max_steps 2 --save_strategy no "
                 "--max_length 24 --assistant_only_loss false %s",
                 big, ways[i]);
        fw_test_run_args a;
        fw_test_command c;
        fw_test_run_make_args(&a, name, words);
        assert_int_equal(fw_test_command_run(&c, a.argv, 0, 240), 0);
        assert_non_null(strstr(fw_strbuf_text(&c.out), "all taken and no more"));
        const double planned = number_after(&c, "planned_memory = ");
        peak[i] = fw_test_run_last_metric(name, "peak_bytes");
        if (peak[i] > 1.05 * (planned + FW_PLAN_PROCESS_BYTES))
            fail_msg("%s: peak %.1f MiB, planned %.1f", ways[i], peak[i] / 1048576, planned / 1048576);
        fw_test_command_fini(&c);
    }
    /* eight blocks are more than there are buffers; three of the ways divide the same batch alike */
    double plain[FW_TEST_STEPS_MAX], away[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("memory-0", plain), 2);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(fw_test_run_losses(i == 1 ? "memory-1" : "memory-2", away), 2);
        assert_true(away[1] == plain[1] && away[2] == plain[2]);
    }
    /* Weights in bf16, the edge's state and gradient, and a constant: three blocks of both, activations, the program. */
    const double n = FW_TEST_BIG_MODEL_N, edge_n = 384.0 * FW_TEST_BIG_VOCAB_N, block_n = (n - edge_n) / 8;
    const double constant = 3 * 16 * block_n + FW_PLAN_PROCESS_BYTES + 40 * 1048576.0;
    if (peak[0] < 15 * n || peak[1] > 2 * n + 16 * edge_n + constant || peak[3] > 2 * n + 16 * edge_n + constant ||
        peak[2] > peak[1])
        fail_msg("peaks %.1f, %.1f, %.1f, %.1f MiB; %.1f expected at most", peak[0] / 1048576, peak[1] / 1048576,
                 peak[2] / 1048576, peak[3] / 1048576, (2 * n + 16 * edge_n + constant) / 1048576);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_losses), cmocka_unit_test(test_optimizers),
                                       cmocka_unit_test(test_resume),      cmocka_unit_test(test_adapter),
                                       cmocka_unit_test(test_foreign),     cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
