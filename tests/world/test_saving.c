/* When finewire train saves, what it keeps, and how it leaves in time. */
#include "base/file.h"
#include "base/json.h"
#include "support/run_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_step(const char *run, int step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return fw_dir_exists(fw_test_run_path(run, name));
}

/* The newest two, every fourth, and the best; the final model is the best one's. */
static void test_what_is_kept(void **state) {
    (void)state;
    char words[1024];
    snprintf(
        words, sizeof words,
        "--max_steps 11 --save_steps 1 --save_total_limit 2 --save_keep_every 4 --eval_strategy steps --eval_steps 1 "
        "--eval_dataset %s --load_best_model_at_end --learning_rate 1.0 --lr_scheduler_type constant",
        fw_run_data);
    assert_int_equal(fw_test_run_train("kept", 0, words), 0);
    /* evaluations by step */
    fw_strbuf text = {0};
    assert_int_equal(fw_file_read(&text, fw_test_run_path("kept", "metrics.jsonl"), 1 << 20), FW_OK);
    int best = 0;
    double least = 1e30;
    for (char *line = strtok(text.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *loss = json_object_get(row, "eval_loss");
        if (loss != NULL && json_number_value(loss) < least) {
            least = json_number_value(loss);
            best = (int)json_integer_value(json_object_get(row, "step"));
        }
        json_decref(row);
    }
    fw_strbuf_fini(&text);
    assert_true(best > 0 && best < 10); /* or this test would show nothing */
    for (int step = 1; step <= 11; step++)
        assert_int_equal(has_step("kept", step), step >= 10 || step % 4 == 0 || step == best);
    char from[32], out[FW_TEST_PATH_BYTES];
    snprintf(from, sizeof from, "step-%08d", best);
    snprintf(out, sizeof out, "%s", fw_test_path(fw_run_dir, "best"));
    const char *argv[] = {FW_BINARY, "ckpt", "export", fw_test_run_path("kept", from), "--output", out, NULL};
    fw_test_command c;
    assert_int_equal(fw_test_command_run(&c, argv, 0, 60), 0);
    fw_test_command_fini(&c);
    fw_test_same_folder(out, fw_test_run_path("kept", "final"));
}

/* Behind the training: the same files as in front of it, also when the run is stopped while one is on its way. */
static void test_async(void **state) {
    (void)state;
    static const char *const strategies[] = {"ddp", "zero2", "zero3"};
    for (int s = 0; s < 3; s++) {
        char words[256], front[32], behind[32];
        const char *common = "--num_processes 2 --max_steps 7 --save_steps 2 --strategy";
        snprintf(front, sizeof front, "front-%d", s);
        snprintf(behind, sizeof behind, "behind-%d", s);
        snprintf(words, sizeof words, "%s %s", common, strategies[s]);
        assert_int_equal(fw_test_run_train(front, 0, words), 0);
        snprintf(words, sizeof words, "%s %s --save_async --save_total_limit 0", common, strategies[s]);
        assert_int_equal(fw_test_run_train(behind, 0, words), 0);
        for (int step = 2; step <= 8; step += 2) {
            char name[32];
            snprintf(name, sizeof name, "step-%08d", step == 8 ? 7 : step);
            char **names;
            size_t n;
            assert_int_equal(fw_dir_list(&names, &n, fw_test_run_path(front, name)), FW_OK);
            assert_true(n > 4);
            for (size_t i = 0; i < n; i++)
                if (strcmp(names[i], "manifest.json") != 0)
                    fw_test_same_file(fw_test_path(fw_test_run_path(front, name), names[i]),
                                      fw_test_path(fw_test_run_path(behind, name), names[i]));
            fw_dir_list_free(names, n);
        }
        fw_test_run_same_final(front, behind);
    }
    fw_test_run_args a;
    fw_test_command c;
    fw_test_run_make_args(&a, "stopped",
                          "--num_processes 2 --max_steps 100000 --save_steps 1 --save_async "
                          "--save_total_limit 2");
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    assert_true(fw_test_run_wait_for_steps(&c, "stopped", 4));
    kill(c.pid, SIGTERM);
    assert_int_equal(fw_test_command_finish(&c, 60), 130);
    fw_test_command_fini(&c);
    assert_true(has_step("stopped", (int)fw_test_run_last_metric("stopped", "step")));
}

/* Out of time: saved, exit code 130, and the same command goes on. */
static void test_max_time(void **state) {
    (void)state;
    const char *words = "--max_steps 100000 --max_time 3s --num_processes 2";
    assert_int_equal(fw_test_run_train("timed", 130, words), 130);
    int first = (int)fw_test_run_last_metric("timed", "step");
    assert_true(first > 0 && has_step("timed", first));
    assert_int_equal(fw_test_run_train("timed", 130, words), 130);
    assert_true((int)fw_test_run_last_metric("timed", "step") > first);
    fw_test_run_refused(2, "write a time with its unit", "--max_time 90");
    fw_test_run_refused(2, "write a time with its unit", "--max_time 1:60:00");
}

/* A batch system's warning, and its SIGTERM at once behind it: the save is not cut short. */
static void test_usr1(void **state) {
    (void)state;
    for (int world = 1; world <= 3; world += 2) {
        char name[32], words[128];
        snprintf(name, sizeof name, "warned-%d", world);
        snprintf(words, sizeof words, "--max_steps 100000 --save_steps 1000000 --num_processes %d", world);
        fw_test_run_args a;
        fw_test_command c;
        fw_test_run_make_args(&a, name, words);
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        assert_true(fw_test_run_wait_for_steps(&c, name, 2));
        kill(c.pid, SIGUSR1);
        usleep(1000);
        kill(c.pid, SIGTERM);
        assert_int_equal(fw_test_command_finish(&c, 60), 130);
        fw_test_command_fini(&c);
        assert_true(has_step(name, (int)fw_test_run_last_metric(name, "step")));
    }
}

/* Before the first step: a place where nothing can be written. */
static void test_no_place(void **state) {
    (void)state;
    fw_test_run_refused(6, "/proc/", "--max_steps 2 --output_dir /proc/finewire");
    fw_test_run_refused(2, "needs an evaluation at each checkpoint",
                        "--load_best_model_at_end --eval_strategy epoch "
                        "--eval_dataset /dev/null");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_async),
                                       cmocka_unit_test(test_max_time), cmocka_unit_test(test_usr1),
                                       cmocka_unit_test(test_no_place)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
