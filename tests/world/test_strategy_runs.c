/* finewire train under every strategy, as a user runs it: what is left on the disk does not tell which strategy ran, a
 * run goes on under another, and signals end it the same way under each. */
#include "base/file.h"
#include "base/host.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The words for a strategy in a world; hybrid: two ranks to a group where that is less than all. */
static const char *words_of(char *out, size_t out_bytes, const char *strategy, int world, const char *more) {
    const char *group = strncmp(strategy, "hsdp", 4) != 0 ? "" : world == 4 ? "--shard_group_size 2" : "";
    snprintf(out, out_bytes, "--num_processes %d --strategy %s %s %s", world, strategy, group, more);
    return out;
}

static void train(const char *name, const char *strategy, int world, const char *more) {
    char words[512];
    assert_int_equal(fw_test_run_train(name, 0, words_of(words, sizeof words, strategy, world, more)), 0);
}

/* Everything in a checkpoint but its manifest, which has the options of the run. */
static void same_checkpoint(const char *a, const char *b, const char *step) {
    char **names[2];
    size_t name_n[2];
    const char *run[2] = {a, b};
    for (int k = 0; k < 2; k++)
        if (fw_dir_list(&names[k], &name_n[k], fw_test_run_path(run[k], step)) != FW_OK)
            fail_msg("%s", fw_trail_message());
    assert_int_equal(name_n[0], name_n[1]);
    assert_true(name_n[0] > 4);
    for (size_t i = 0; i < name_n[0]; i++) {
        assert_string_equal(names[0][i], names[1][i]);
        if (strcmp(names[0][i], "manifest.json") == 0) continue;
        fw_test_same_file(fw_test_path(fw_test_run_path(a, step), names[0][i]),
                          fw_test_path(fw_test_run_path(b, step), names[0][i]));
    }
    for (int k = 0; k < 2; k++) fw_dir_list_free(names[k], name_n[k]);
}

/* B24: from one start, in one world, all strategies leave the same bytes. */
static void test_files(void **state) {
    (void)state;
    static const struct {
        int world;
        const char *strategies[6];
    } plan[] = {{1, {"ddp", "zero2", "zero3"}},
                {2, {"ddp", "zero1", "zero2", "zero3", "hsdp", "hsdp_zero2"}},
                {3, {"ddp", "zero1", "zero3"}},
                {4, {"ddp", "zero2", "zero3"}}};
    for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
        char first[32], name[32];
        for (int s = 0; s < 6 && plan[i].strategies[s] != NULL; s++) {
            snprintf(name, sizeof name, "%s-%d", plan[i].strategies[s], plan[i].world);
            train(name, plan[i].strategies[s], plan[i].world, "--max_steps 3 --save_steps 2");
            if (s == 0) snprintf(first, sizeof first, "%s", name);
            fw_test_run_same_final(first, name);
            same_checkpoint(first, name, "step-00000002");
        }
    }
    /* Two groups of two add in another order; with nothing learnt there is nothing to add. */
    train("still-1", "ddp", 1, "--max_steps 2 --learning_rate 0 --save_strategy no");
    static const char *const still[] = {"zero3", "hsdp", "hsdp_zero2"};
    for (int s = 0; s < 3; s++) {
        char name[32];
        snprintf(name, sizeof name, "still-%s", still[s]);
        train(name, still[s], 4, "--max_steps 2 --learning_rate 0 --save_strategy no");
        fw_test_run_same_final("still-1", name);
    }
}

/* One run in five pieces, each under another strategy, is bit for bit the run under one: run.json names model, data and
 * batch, not how the work was shared out. */
static void test_going_on_under_another(void **state) {
    (void)state;
    static const char *const strategies[] = {"ddp", "zero3", "zero2", "hsdp", "zero1"};
    const char *common = "--lr_scheduler_type constant --gradient_accumulation_steps 2 --sync_each_batch true "
                         "--per_device_train_batch_size 4 --max_steps";
    char words[256];
    snprintf(words, sizeof words, "%s 10", common);
    train("of_one_piece", "ddp", 2, words);
    for (int k = 0; k < 5; k++) {
        snprintf(words, sizeof words, "%s %d --save_steps 1000", common, 2 * (k + 1));
        train("in_pieces", strategies[k], 2, words);
    }
    double one[FW_TEST_STEPS_MAX], pieces[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("of_one_piece", one), 10);
    assert_int_equal(fw_test_run_losses("in_pieces", pieces), 10);
    for (int step = 1; step <= 10; step++) assert_true(one[step] == pieces[step]);
    fw_test_run_same_final("of_one_piece", "in_pieces");
    same_checkpoint("of_one_piece", "in_pieces", "step-00000010");
}

/* ---- signals */

enum { WORLD = 3 };
enum { LONG_RUN = 60 };
static const char *const long_run = "--max_steps 60 --save_steps 1000";

/* The ranks of a job, so that their end can be seen when the launcher is gone. */
static void find_ranks(const fw_test_command *c, pid_t *rank) {
    uint64_t start_ns = fw_host_now_ns();
    for (int r = 0; r < WORLD; r++)
        while ((rank[r] = fw_test_run_rank(c->pid, r)) == 0) {
            assert_true(fw_host_now_ns() - start_ns < 60000000000u);
            usleep(5000);
        }
}

/* C36: at most 10 s. */
static void assert_gone(const pid_t *rank) {
    uint64_t start_ns = fw_host_now_ns();
    for (int r = 0; r < WORLD; r++)
        while (kill(rank[r], 0) == 0) {
            assert_true(fw_host_now_ns() - start_ns < 10000000000u);
            usleep(5000);
        }
}

typedef enum how { CTRL_C, TERM_TO_ONE_RANK, LAUNCHER_KILLED } how;

/* Stops a run after some steps; returns its exit code. */
static int stop(const char *name, const char *words, how way) {
    fw_test_run_args a;
    fw_test_command c;
    pid_t rank[WORLD];
    fw_test_run_make_args(&a, name, words);
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    find_ranks(&c, rank);
    assert_true(fw_test_run_wait_for_steps(&c, name, 3));
    switch (way) {
    case CTRL_C: kill(-c.pid, SIGINT); break; /* as a terminal does: the whole group */
    case TERM_TO_ONE_RANK: kill(rank[1], SIGTERM); break;
    case LAUNCHER_KILLED: kill(c.pid, SIGKILL); break;
    }
    assert_gone(rank);
    int code = fw_test_command_finish(&c, 60);
    if (code == 130 || way == LAUNCHER_KILLED) assert_null(strstr(fw_strbuf_text(&c.err), "error"));
    fw_test_command_fini(&c);
    return code;
}

/* C36, C37: whoever is told to stop, all save the same step and leave together, and the run goes on to the same end. */
static void stop_and_go_on(const char *strategy, how way, const char *name, const char *straight) {
    char words[512];
    words_of(words, sizeof words, strategy, WORLD, long_run);
    int code = stop(name, words, way);
    if (way == LAUNCHER_KILLED)
        assert_int_equal(code, 128 + SIGKILL);
    else
        assert_int_equal(code, 130);
    assert_true(fw_test_run_lines(name) < LONG_RUN);
    assert_int_equal(fw_test_run_train(name, 0, words), 0);
    double one[FW_TEST_STEPS_MAX], two[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses(straight, one), LONG_RUN);
    assert_int_equal(fw_test_run_losses(name, two), LONG_RUN);
    for (int step = 1; step <= LONG_RUN; step++) assert_true(one[step] == two[step]);
    fw_test_run_same_final(straight, name);
}

static void test_signals(void **state) {
    (void)state;
    train("straight", "zero3", WORLD, long_run);
    stop_and_go_on("zero3", CTRL_C, "ctrl_c", "straight");
    stop_and_go_on("zero3", TERM_TO_ONE_RANK, "term_to_one", "straight");
    stop_and_go_on("hsdp", TERM_TO_ONE_RANK, "term_to_one_hsdp", "straight"); /* one group: the sums are the same */
    stop_and_go_on("zero3", LAUNCHER_KILLED, "launcher_killed", "straight");
}

/* C36: two jobs on one machine do not hear of each other. */
static void test_two_at_once(void **state) {
    (void)state;
    fw_test_run_args a[2];
    fw_test_command c[2];
    char words[2][256];
    static const char *const names[] = {"side_a", "side_b"}, *const strategies[] = {"zero3", "ddp"};
    for (int k = 0; k < 2; k++) {
        fw_test_run_make_args(&a[k], names[k], words_of(words[k], sizeof words[k], strategies[k], 2, "--max_steps 12"));
        assert_int_equal(fw_test_command_start(&c[k], a[k].argv, NULL), 0);
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(fw_test_command_finish(&c[k], 60), 0);
        fw_test_command_fini(&c[k]);
    }
    fw_test_run_same_final("side_a", "side_b");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_going_on_under_another),
                                       cmocka_unit_test(test_signals), cmocka_unit_test(test_two_at_once)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
