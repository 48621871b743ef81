/* finewire train as a user runs it: ranks, resume, signals, failures, on a tiny model made on the spot. */
#include "base/file.h"
#include "base/host.h"
#include "support/run_lab.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ranks 1, 2, 4 at one global batch of 8: the same losses within fp32 rounding over 20 steps, on a data set whose last
 * window of an epoch is short (37 = 4 * 8 + 5) and leaves ranks without data. */
static void test_world_sizes(void **state) {
    (void)state;
    const char *one = "--bf16 false --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --num_processes 1 "
                      "--max_steps 20 --save_strategy no";
    const char *two = "--bf16 false --per_device_train_batch_size 2 --gradient_accumulation_steps 2 --num_processes 2 "
                      "--max_steps 20 --save_strategy no";
    const char *four = "--bf16 false --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --num_processes 4 "
                       "--max_steps 20 --save_strategy no";
    assert_int_equal(fw_test_run_train("world1", 0, one), 0);
    assert_int_equal(fw_test_run_train("world2", 0, two), 0);
    assert_int_equal(fw_test_run_train("world4", 0, four), 0);
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX], c[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("world1", a), 20);
    assert_int_equal(fw_test_run_losses("world2", b), 20);
    assert_int_equal(fw_test_run_losses("world4", c), 20);
    for (int step = 1; step <= 20; step++) {
        assert_true(fabs(b[step] - a[step]) <= 1e-5 * a[step]);
        assert_true(fabs(c[step] - a[step]) <= 1e-5 * a[step]);
    }
    assert_true(a[20] < a[1] - 0.5); /* it learns */
}

/* Recomputing blocks changes memory, not numbers; neither does the size of the loss chunk within rounding. */
static void test_recompute_and_chunks(void **state) {
    (void)state;
    const char *with = "--max_steps 6 --save_strategy no";
    const char *without = "--max_steps 6 --save_strategy no --gradient_checkpointing false";
    const char *chunks = "--max_steps 6 --save_strategy no --bf16 false --loss_chunk_size 7";
    const char *whole = "--max_steps 6 --save_strategy no --bf16 false --loss_chunk_size 4096";
    assert_int_equal(fw_test_run_train("recompute", 0, with), 0);
    assert_int_equal(fw_test_run_train("keep", 0, without), 0);
    fw_test_run_same_final("recompute", "keep");
    static const char *const ways[] = {"selective", "selective --gradient_checkpointing_every 2",
                                       "true --gradient_checkpointing_every 3"};
    for (int i = 0; i < 3; i++) {
        char name[32], words[160];
        snprintf(name, sizeof name, "way%d", i);
        snprintf(words, sizeof words, "%s --gradient_checkpointing %s", with, ways[i]);
        assert_int_equal(fw_test_run_train(name, 0, words), 0);
        fw_test_run_same_final("recompute", name);
    }
    assert_int_equal(fw_test_run_train("chunks", 0, chunks), 0);
    assert_int_equal(fw_test_run_train("whole", 0, whole), 0);
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("chunks", a), 6);
    assert_int_equal(fw_test_run_losses("whole", b), 6);
    for (int step = 1; step <= 6; step++) assert_true(fabs(a[step] - b[step]) <= 1e-5 * b[step]);
}

/* A run that is interrupted by a signal saves, exits 130, and goes on to the very same model. */
static void test_interrupt_and_resume(void **state) {
    (void)state;
    const char *more = "--num_processes 2 --per_device_train_batch_size 2 --max_steps 40 --save_steps 1000";
    assert_int_equal(fw_test_run_train("straight", 0, more), 0);
    double straight[FW_TEST_STEPS_MAX], resumed[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("straight", straight), 40);

    fw_test_run_args a;
    fw_test_run_make_args(&a, "resumed", more);
    fw_test_command c;
    int interrupted_n = 0, code = -1;
    for (int attempt = 0; attempt < 8; attempt++) {
        int before = fw_test_run_lines("resumed");
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        /* let it do some steps, then Ctrl-C */
        if (interrupted_n < 2) {
            fw_test_run_wait_for_steps(&c, "resumed", before + 3);
            kill(c.pid, attempt % 2 == 0 ? SIGINT : SIGTERM);
        }
        code = fw_test_command_finish(&c, 240);
        if (code == 130)
            interrupted_n++;
        else if (code != 0)
            fprintf(stderr, "%s", fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
        assert_true(code == 130 || code == 0);
        if (code == 0) break;
    }
    assert_int_equal(code, 0);
    assert_true(interrupted_n >= 1);
    assert_int_equal(fw_test_run_losses("resumed", resumed), 40);
    for (int step = 1; step <= 40; step++) assert_true(resumed[step] == straight[step]);
    fw_test_run_same_final("straight", "resumed");
}

/* Every k-th step a checkpoint, old ones go, and the last one leads to the same end. */
static void test_checkpoints(void **state) {
    (void)state;
    const char *save = "--max_steps 10 --save_steps 3 --save_total_limit 2";
    assert_int_equal(fw_test_run_train("limited", 0, save), 0);
    char **names;
    size_t n, kept = 0;
    assert_int_equal(fw_dir_list(&names, &n, fw_test_path(fw_run_dir, "limited")), FW_OK);
    for (size_t i = 0; i < n; i++) kept += strncmp(names[i], "step-", 5) == 0;
    assert_int_equal(kept, 2);
    fw_dir_list_free(names, n);
    /* the same command again: everything is done already, the model is the same */
    assert_int_equal(fw_test_run_train("limited", 0, save), 0);
    /* a damaged newest checkpoint: the one before is taken, and the end is the same */
    const char *again = "--max_steps 10 --save_steps 3 --save_total_limit 0";
    assert_int_equal(fw_test_run_train("whole_list", 0, again), 0);
    fw_test_resize(fw_test_run_path("whole_list", "step-00000010/shard-00001-model-00001-of-00001.safetensors"), 1000);
    assert_int_equal(fw_test_run_train("whole_list", 0, again), 0);
    fw_test_run_same_final("limited", "whole_list");
}

/* Another run's folder, the wrong data, a folder in use: refused, exit code 2, nothing changed. */
static void test_foreign_folder(void **state) {
    (void)state;
    const char *first = "--max_steps 3";
    assert_int_equal(fw_test_run_train("owned", 0, first), 0);
    const char *never = "--max_steps 3 --resume_from_checkpoint never";
    assert_int_equal(fw_test_run_train("owned", 2, never), 2);
    const char *seed = "--max_steps 3 --data_seed 77";
    assert_int_equal(fw_test_run_train("owned", 2, seed), 2);
    /* the same shapes, other weights: its result would pass for this model's */
    const char *other = fw_test_path(fw_run_dir, "other");
    assert_int_equal(fw_test_write_model(other, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(other, FW_TEST_SMOLLM2), FW_OK);
    FILE *f = fopen(fw_test_path(other, "model.safetensors"), "r+");
    assert_non_null(f);
    fseek(f, -4, SEEK_END);
    fwrite("\x00\x00\x80\x3f", 1, 4, f);
    fclose(f);
    char base[2 * FW_TEST_PATH_BYTES];
    snprintf(base, sizeof base, "--max_steps 3 --model %s", other);
    assert_int_equal(fw_test_run_train("owned", 2, base), 2);
    const char *over = "--max_steps 3 --data_seed 77 --overwrite_output_dir";
    assert_int_equal(fw_test_run_train("owned", 0, over), 0);
}

/* One rank is killed: the others are gone in seconds, exit code 5, and the message names the rank. */
static void test_killed_rank(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_run_make_args(&a, "killed", "--num_processes 3 --max_steps 100000 --save_strategy no");
    fw_test_command c;
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    assert_true(fw_test_run_wait_for_steps(&c, "killed", 3)); /* in full swing */
    pid_t rank[3];
    for (int r = 0; r < 3; r++) assert_true((rank[r] = fw_test_run_rank(c.pid, r)) > 0);
    kill(rank[1], SIGKILL);
    uint64_t killed_ns = fw_host_now_ns();
    int code = fw_test_command_finish(&c, 60);
    assert_int_equal(code, 5);
    assert_true(fw_host_now_ns() - killed_ns < 30000000000u);
    const char *error = strstr(fw_strbuf_text(&c.err), "error");
    assert_non_null(error);
    assert_non_null(strstr(error, "rank 1"));
    assert_null(strstr(error + 1, "error")); /* one reason, said once */
    for (int r = 0; r < 3; r++) assert_int_equal(kill(rank[r], 0), -1);
    fw_test_command_fini(&c);
}

/* Stopped, or a rank killed, at some moment of the start: all are gone soon, and one line says why. */
static void test_early_ends(void **state) {
    (void)state;
    signal(SIGINT, SIG_DFL); /* a shell ignores it for what runs in the background */
    for (int k = 0; k < 12; k++) {
        const int kills = k % 2, r = k / 2 % 4;
        fw_test_run_args a;
        fw_test_command c;
        pid_t victim = 0;
        fw_test_run_make_args(&a, "early", "--num_processes 4 --max_steps 100000 --save_strategy no");
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        for (int i = 0; i < 20000 && (victim = fw_test_run_rank(c.pid, r)) == 0; i++) usleep(500);
        assert_true(victim > 0);
        usleep((useconds_t)(k * k * 300));
        uint64_t start_ns = fw_host_now_ns();
        if (kills)
            kill(victim, SIGKILL);
        else
            kill(c.pid, k % 4 == 0 ? SIGINT : SIGTERM);
        assert_int_equal(fw_test_command_finish(&c, 60), kills ? 5 : 130);
        assert_true(fw_host_now_ns() - start_ns < 30000000000u);
        const char *error = strstr(fw_strbuf_text(&c.err), "error");
        if (kills) {
            char name[16];
            snprintf(name, sizeof name, "rank %d", r);
            assert_non_null(error);
            assert_non_null(strstr(error, name));
            error = strstr(error + 1, "error");
        }
        if (error != NULL) fail_msg("one error too many: %s", fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
    }
}

/* What cannot work is said in one line, with the exit code of its kind. */
static void test_errors(void **state) {
    (void)state;
    const char *absent = "--model /nowhere --num_processes 2";
    fw_test_run_refused(3, "no model folder /nowhere", absent);
    const char *misspelt = "--learning_rat 1";
    fw_test_run_refused(2, "learning_rate", misspelt);
    const char *no_checkpoint = "--resume_from_checkpoint /nowhere";
    fw_test_run_refused(3, "/nowhere/manifest.json is missing", no_checkpoint);
    assert_false(
        fw_file_exists(fw_test_run_path("refused", "run.json"))); /* what has not begun does not claim the folder */
    /* a weight that is not a number: the loss says so at the first step, on all ranks, told once */
    const char *broken = fw_test_path(fw_run_dir, "broken"), *path = fw_test_path(fw_run_dir, "no_targets.jsonl");
    assert_int_equal(fw_test_write_model(broken, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(broken, FW_TEST_SMOLLM2), FW_OK);
    FILE *f = fopen(fw_test_path(broken, "model.safetensors"), "r+");
    assert_non_null(f);
    fseek(f, -4, SEEK_END);
    fwrite("\x00\x00\xc0\x7f", 1, 4, f);
    fclose(f);
    char wild[2 * FW_TEST_PATH_BYTES];
    snprintf(wild, sizeof wild, "--model %s --bf16 false --num_processes 2", broken);
    fw_test_run_refused(3, "step 1: the loss of", wild);
    const char *monologue = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n";
    assert_int_equal(fw_file_write(path, monologue, strlen(monologue)), FW_OK);
    char no_targets[2 * FW_TEST_PATH_BYTES];
    snprintf(no_targets, sizeof no_targets, "--dataset %s --num_processes 2", path);
    fw_test_run_refused(3, "no assistant turn", no_targets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world_sizes),    cmocka_unit_test(test_recompute_and_chunks),
        cmocka_unit_test(test_checkpoints),    cmocka_unit_test(test_interrupt_and_resume),
        cmocka_unit_test(test_foreign_folder), cmocka_unit_test(test_killed_rank),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_early_ends),
    };
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
