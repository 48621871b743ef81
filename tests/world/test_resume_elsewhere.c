/* A run goes on at another number of ranks and under another strategy, as a user does it: with the same batch the losses are
 * those of the run that never stopped, within rounding; with another one, each sample is still trained once an epoch; what
 * changed is said; what would be wrong is refused by name. */
#include "base/file.h"
#include "support/run_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void train(const char *name, const char *words) { assert_int_equal(fw_test_run_train(name, 0, words), 0); }

/* 37 conversations, 12 a step: 4 steps an epoch. */
static void test_same_batch(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "--max_steps 2 --num_processes 4 --strategy hsdp --shard_group_size 2 --per_device_train_batch_size 3",
        "--max_steps 4 --num_processes 1 --strategy ddp --per_device_train_batch_size 12",
        "--max_steps 7 --num_processes 3 --strategy zero3 --per_device_train_batch_size 4",
        "--max_steps 9 --num_processes 2 --strategy zero1 --per_device_train_batch_size 6",
        "--max_steps 10 --num_processes 2 --strategy zero2 --train_batch_size 12 --per_device_train_batch_size 3"};
    const char *common = "--bf16 false --lr_scheduler_type constant";
    char words[512];
    snprintf(words, sizeof words, "%s --max_steps 10 --num_processes 1 --per_device_train_batch_size 12", common);
    train("straight", words);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        snprintf(words, sizeof words, "%s %s", common, pieces[i]);
        train("elsewhere", words);
    }
    double straight[FW_TEST_STEPS_MAX], elsewhere[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("straight", straight), 10);
    assert_int_equal(fw_test_run_losses("elsewhere", elsewhere), 10);
    for (int step = 1; step <= 10; step++)
        if (fabs(straight[step] - elsewhere[step]) > 2e-5 * straight[step])
            fail_msg("step %d: loss %.9f and %.9f", step, straight[step], elsewhere[step]);
    assert_true(fw_test_run_last_metric("straight", "num_tokens") ==
                fw_test_run_last_metric("elsewhere", "num_tokens"));
}

/* Other batches: 8 a step for 3 steps, then 9, then 5; at the end of the epochs every token was seen as often. */
static void test_other_batch(void **state) {
    (void)state;
    train("even", "--num_train_epochs 2 --num_processes 1 --per_device_train_batch_size 37");
    train("uneven", "--max_steps 3 --num_processes 2 --per_device_train_batch_size 4");
    train("uneven", "--max_steps 4 --num_processes 3 --strategy zero3 --per_device_train_batch_size 3");
    train("uneven", "--num_train_epochs 2 --num_processes 5 --strategy zero2 --per_device_train_batch_size 1");
    assert_true(fw_test_run_last_metric("even", "num_tokens") == fw_test_run_last_metric("uneven", "num_tokens"));
    assert_true(fw_test_run_last_metric("uneven", "epoch") == 2);
    assert_true(fw_test_run_last_metric("uneven", "step") == 4 + 1 + 8); /* 4 are left of 37, then 37 in steps of 5 */
}

static void test_what_is_said(void **state) {
    (void)state;
    fw_test_command c;
    fw_test_run_args a;
    train("said", "--max_steps 2 --learning_rate 1e-3");
    fw_test_run_make_args(&a, "said", "--max_steps 3 --learning_rate 5e-4 --num_processes 2 --strategy zero1");
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 60), 0);
    assert_non_null(strstr(fw_strbuf_text(&c.err), "changed since the checkpoint: learning_rate was 0.001, is 0.0005"));
    assert_non_null(strstr(fw_strbuf_text(&c.err), "changed since the checkpoint: num_processes was 1, is 2"));
    assert_null(strstr(fw_strbuf_text(&c.err), "since the checkpoint: output_dir"));
    fw_test_command_fini(&c);
}

/* Another tokenizer, named; in a folder of its own from another's checkpoint too. */
static void test_refused(void **state) {
    (void)state;
    train("one", "--max_steps 2");
    const char *model = fw_test_path(fw_run_dir, "retokenized");
    assert_int_equal(fw_dir_make(model), FW_OK);
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, fw_run_model), FW_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fw_file_copy(fw_test_path(fw_run_model, names[i]), fw_test_path(model, names[i])), FW_OK);
    fw_dir_list_free(names, n);
    fw_strbuf text = {0};
    const char *path = fw_test_path(model, "tokenizer.json");
    assert_int_equal(fw_file_read(&text, path, 1 << 24), FW_OK);
    assert_int_equal(fw_strbuf_putc(&text, '\n'), FW_OK); /* the same meaning: only the file tells */
    assert_int_equal(fw_file_write(path, text.data, text.len_bytes), FW_OK);
    fw_strbuf_fini(&text);
    char words[1024];
    snprintf(words, sizeof words, "--max_steps 3 --model %s", model);
    assert_int_equal(fw_test_run_train("one", 2, words), 2);
    snprintf(words, sizeof words, "--max_steps 3 --model %s --resume_from_checkpoint %s", model,
             fw_test_run_path("one", "step-00000002"));
    fw_test_run_refused(2, "tokenizer_hash (tokenizer.json) was", words);
}

/* A damaged newest one: the one before, or with --resume_strict an error that names it. */
static void test_strict(void **state) {
    (void)state;
    train("strict", "--max_steps 4 --save_steps 2");
    const char *victim = fw_test_run_path("strict", "step-00000004/config.json");
    fw_test_flip_bit(victim, 3);
    assert_int_equal(fw_test_run_train("strict", 3, "--max_steps 5 --resume_strict"), 3);
    train("strict", "--max_steps 5");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_batch), cmocka_unit_test(test_other_batch),
                                       cmocka_unit_test(test_what_is_said), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_strict)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
