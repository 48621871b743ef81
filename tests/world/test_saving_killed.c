/* A run of two ranks that saves after every step, in front of the training or behind it, and keeps two checkpoints is killed again and again, at instants drawn with
 * seed 5: one rank or all, inside of saves and of deletes. Each time a complete checkpoint is there, not older than the one
 * before the last, the same command goes on from it, and the whole is the run that was never killed.
 * FW_TEST_KILLS=200 for more of them. */
#include "base/file.h"
#include "store/checkpoint.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KILL_N = 16 };
static const char *const common = "--num_processes 2 --save_steps 1 --save_total_limit 2 --lr_scheduler_type constant "
                                  "--learning_rate 1e-4 --max_steps";

static int64_t newest_step(const char *run) {
    fw_checkpoint_list list;
    char dir[FW_TEST_PATH_BYTES];
    snprintf(dir, sizeof dir, "%s", fw_test_path(fw_run_dir, run));
    if (fw_checkpoint_list_init(&list, dir) != FW_OK) fail_msg("%s", fw_trail_message());
    int64_t step = 0;
    for (size_t i = 0; i < list.entry_n; i++) {
        if (fw_checkpoint_verify(list.entry[i].path, true) != FW_OK) fail_msg("%s", fw_trail_message());
        step = list.entry[i].step;
    }
    fw_checkpoint_list_fini(&list);
    return step;
}

static void kill_one_or_all(pid_t launcher, int how) {
    const pid_t rank[2] = {fw_test_run_rank(launcher, 0), fw_test_run_rank(launcher, 1)};
    if (rank[0] == 0 || rank[1] == 0) fail_msg("the ranks of %d are not to be found", (int)launcher);
    if (how == 2) kill(launcher, SIGKILL); /* its ranks die with it */
    for (int r = 0; r < 2; r++)
        if ((how == r || how == 2) && rank[r] > 0) kill(rank[r], SIGKILL);
}

/* late_n: so many steps at most are newer than what is kept, not counting the one that is being done. */
static void kill_again_and_again(const char *name, const char *words, int least_n, int late_n) {
    const char *more = getenv("FW_TEST_KILLS");
    const int kill_n = more == NULL ? least_n : atoi(more);
    char line[256], whole[64];
    fw_test_run_args a;
    snprintf(whole, sizeof whole, "whole-%s", name);
    snprintf(line, sizeof line, "%s%s 1000000", words, common);
    fw_test_run_make_args(&a, name, line);
    srand(5);
    int64_t before = 0;
    for (int k = 0; k < kill_n; k++) {
        fw_test_command c;
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        const int lines = fw_test_run_lines(name); /* one may be of a step that was not saved */
        const bool started = fw_test_run_wait_for_steps(&c, name, lines + 1 + rand() % 3);
        usleep((useconds_t)(rand() % 30000));
        kill_one_or_all(c.pid, k % 3);
        if (fw_test_command_finish(&c, 60) == 0) fail_msg("kill %d (%d) did not end it", k, k % 3);
        if (!started) fail_msg("it did not go on: %s", fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
        usleep(20000); /* the ranks of a launcher that was killed */
        const int64_t trained = fw_test_run_lines(name), kept = newest_step(name);
        if (kept < trained - 1 - late_n || kept < before)
            fail_msg("kill %d: steps to %d were trained, the newest checkpoint is of step %d, before it was %d", k,
                     (int)trained, (int)kept, (int)before);
        before = kept;
    }
    snprintf(line, sizeof line, "%s%s %d", words, common, (int)before + 2);
    assert_int_equal(fw_test_run_train(name, 0, line), 0);
    assert_int_equal(fw_test_run_train(whole, 0, line), 0);
    fw_test_run_same_final(whole, name);
}

static void test_killed(void **state) {
    (void)state;
    kill_again_and_again("killed", "", KILL_N, 0);
}

/* A save that is under way when the next step is done is one step late. */
static void test_killed_behind(void **state) {
    (void)state;
    kill_again_and_again("killed-behind", "--save_async ", KILL_N / 2, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed), cmocka_unit_test(test_killed_behind)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
