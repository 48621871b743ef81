/* A run of an adapter stops and goes on: bit by bit at the same world, from a checkpoint of another cut, and not on another
 * base; its checkpoints hold what was trained, and commands know them. */
#include "store/checkpoint_tools.h"
#include "support/run_lab.h"

#include "base/alloc.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char LORA[] = "--use_peft --lora_r 2 --use_dora --lora_dropout 0.1 --lora_modules_to_save norm";

static void train(const char *name, const char *more) {
    char words[1280];
    snprintf(words, sizeof words, "%s --lr_scheduler_type constant %s", LORA, more);
    assert_int_equal(fw_test_run_train(name, 0, words), 0);
}

/* finewire WORDS; the output is in *c. */
static void run(fw_test_command *c, int code, const char *words) {
    char copy[2048];
    const char *argv[FW_TEST_ARGS_MAX] = {FW_BINARY};
    size_t n = 1;
    assert_true(strlen(words) < sizeof copy);
    strcpy(copy, words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) argv[n++] = word;
    argv[n] = NULL;
    assert_int_equal(fw_test_command_run(c, argv, code, 240), code);
}

static void expect(int code, const char *part, const char *words) {
    fw_test_command c;
    run(&c, code, words);
    if (strstr(fw_strbuf_text(&c.out), part) == NULL && strstr(fw_strbuf_text(&c.err), part) == NULL)
        fail_msg("%s: no \"%s\" in: %s%s", words, part, fw_strbuf_text(&c.out), fw_strbuf_text(&c.err));
    fw_test_command_fini(&c);
}

/* The strategy may change with each stop; the world does not. */
static void test_same_world(void **state) {
    (void)state;
    train("straight", "--max_steps 6 --num_processes 2 --strategy ddp --save_strategy no");
    train("pieces", "--max_steps 2 --num_processes 2 --strategy zero3");
    train("pieces", "--max_steps 3 --num_processes 2 --strategy ddp");
    train("pieces", "--max_steps 6 --num_processes 2 --strategy zero2");
    fw_test_run_same_final("straight", "pieces");
}

/* The same batch on other ranks: what was trained and its moments arrive bit by bit, and the losses go on. */
static void test_other_world(void **state) {
    (void)state;
    const char *common = "--bf16 false";
    char words[512];
    snprintf(words, sizeof words, "%s --max_steps 6 --num_processes 1 --per_device_train_batch_size 12", common);
    train("whole", words);
    snprintf(words, sizeof words, "%s --max_steps 3 --num_processes 4 --strategy zero3 --per_device_train_batch_size 3",
             common);
    train("moved", words);
    snprintf(words, sizeof words, "ckpt reshard %s --output %s --ranks 3", fw_test_run_path("moved", ""),
             fw_test_path(fw_run_dir, "cut"));
    expect(0, "checkpoint = ", words);
    snprintf(words, sizeof words, "ckpt diff %s --against %s --moments", fw_test_run_path("moved", "step-00000003"),
             fw_test_path(fw_run_dir, "cut"));
    expect(0, "\n0 of ", words);
    snprintf(words, sizeof words, "%s --max_steps 6 --num_processes 2 --strategy zero1 --per_device_train_batch_size 6",
             common);
    train("moved", words);
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("whole", a), 6);
    assert_int_equal(fw_test_run_losses("moved", b), 6);
    for (int step = 1; step <= 6; step++)
        if (fabs(a[step] - b[step]) > 2e-5 * a[step]) fail_msg("step %d: loss %.9f and %.9f", step, a[step], b[step]);
}

/* A checkpoint has the adapter and its moments, and not the base; export makes the folder that the run writes at its end. */
static void test_commands(void **state) {
    (void)state;
    char words[1024];
    train("run", "--max_steps 2 --num_processes 3 --strategy zero3");
    const char *step = fw_test_run_path("run", "step-00000002"), *out = fw_test_path(fw_run_dir, "exported");
    snprintf(words, sizeof words, "ckpt ls %s", step);
    expect(0, "complete, adapter", words);
    snprintf(words, sizeof words, "ckpt ls %s --json", step);
    expect(0, "\"adapter\": true", words);
    snprintf(words, sizeof words, "ckpt verify %s", step);
    expect(0, ": sound", words);
    snprintf(words, sizeof words, "ckpt export %s --output %s", step, out);
    expect(0, "adapter = ", words);
    fw_test_same_folder(out, fw_test_run_path("run", "final"));

    fw_checkpoint_whole w;
    assert_int_equal(fw_checkpoint_whole_open(&w, step), FW_OK);
    for (int32_t i = 0; i < w.table.param_n; i++) assert_non_null(strstr(w.table.param[i].name, "base_model.model."));
    const char *hash = json_string_value(json_object_get(w.state.run, "weights_hash"));
    assert_true(hash != NULL && strlen(hash) == 16);
    fw_checkpoint_whole_close(&w);

    snprintf(words, sizeof words, "generate --model %s --prompt a", step);
    expect(3, "is a checkpoint, not a model; run finewire ckpt export", words);
    snprintf(words, sizeof words, "generate --adapter %s --prompt a", step);
    expect(3, "is a checkpoint", words);
}

/* Under ddp every rank holds all of the adapter, and each writes another part of the checkpoint: together they are what rank 0
 * holds, which writes the final folder. So the ranks hold the same (A18), at the start and after ten steps. */
static void test_same_on_all_ranks(void **state) {
    (void)state;
    static const char *const steps[] = {"1 --learning_rate 0", "10"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char words[1024], name[32];
        snprintf(name, sizeof name, "ranks%zu", i);
        snprintf(words, sizeof words, "--num_processes 4 --strategy ddp --per_device_train_batch_size 2 --max_steps %s",
                 steps[i]);
        train(name, words);
        const char *out = fw_test_path(fw_run_dir, i == 0 ? "of_all_0" : "of_all_10");
        snprintf(words, sizeof words, "ckpt export %s --output %s", fw_test_run_path(name, ""), out);
        expect(0, "adapter = ", words);
        fw_test_same_folder(out, fw_test_run_path(name, "final"));
    }
}

/* A model of the same shape with one other bit in its weights. */
static const char *other_base(void) {
    const char *dir = fw_test_path(fw_run_dir, "other_base");
    char **names;
    size_t n;
    assert_int_equal(fw_dir_make(dir), FW_OK);
    assert_int_equal(fw_dir_list(&names, &n, fw_run_model), FW_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fw_file_copy(fw_test_path(fw_run_model, names[i]), fw_test_path(dir, names[i])), FW_OK);
    fw_dir_list_free(names, n);
    const char *weights = fw_test_path(dir, "model.safetensors");
    fw_test_flip_bit(weights, fw_test_file_bytes(weights) - 4);
    return dir;
}

static void test_refused(void **state) {
    (void)state;
    char words[1024];
    train("refused", "--max_steps 2");
    const char *other = other_base();
    snprintf(words, sizeof words, "%s --max_steps 4 --lr_scheduler_type constant --model %s", LORA, other);
    fw_test_run_refused(2, "weights_hash (the weights of the model) was", words);
    /* another adapter, and none at all */
    fw_test_run_refused(2, "adapter's r was 2 and is 5", "--use_peft --lora_r 5 --max_steps 4");
    fw_test_run_refused(2, "adapter", "--max_steps 4");

    /* to go on from a folder, on its own base and on another */
    const char *folder = fw_test_run_path("refused", "final");
    snprintf(words, sizeof words, "--adapter_name_or_path %s --learning_rate 0 --max_steps 1", folder);
    assert_int_equal(fw_test_run_train("further", 0, words), 0);
    fw_test_run_same_final("refused", "further");
    snprintf(words, sizeof words, "--adapter_name_or_path %s --max_steps 1 --model %s", folder, other);
    assert_int_equal(fw_test_run_train("elsewhere", 3, words), 3);
    snprintf(words, sizeof words, "--adapter_name_or_path %s --max_steps 1 --lora_r 4", folder);
    assert_int_equal(fw_test_run_train("twice", 2, words), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_world), cmocka_unit_test(test_other_world),
                                       cmocka_unit_test(test_commands), cmocka_unit_test(test_same_on_all_ranks),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
