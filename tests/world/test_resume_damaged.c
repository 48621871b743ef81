/* A bit flipped in what one rank alone reads, its last moment: all ranks pass over the checkpoint together, and what follows
 * is what it would have been without it, to the bit; with no sound one left, the run from its first step. */
#include "base/file.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { RANK_N = 3 };

/* Runs to step 6, and wants a warning for each of the damaged ones. */
static void finish(const char *name, const char *strategy, int damaged_n) {
    fw_test_command c;
    fw_test_run_args a;
    char words[256];
    snprintf(words, sizeof words,
             "--max_steps 6 --save_steps 2 --lr_scheduler_type constant --strategy %s --num_processes %d", strategy,
             RANK_N);
    fw_test_run_make_args(&a, name, words);
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 120), 0);
    int said_n = 0;
    for (const char *at = fw_strbuf_text(&c.err); (at = strstr(at, "does not count")) != NULL; at++) said_n++;
    if (said_n != damaged_n) fail_msg("%s: %d warnings of %d: %s", strategy, said_n, damaged_n, fw_strbuf_text(&c.err));
    const char *said = strstr(fw_strbuf_text(&c.err), "changed since the checkpoint: max_steps"); /* of what counts */
    assert_true((said != NULL) == (damaged_n == 1));
    if (said != NULL) assert_null(strstr(said + 1, "changed since the checkpoint: max_steps"));
    if (damaged_n > 0) assert_non_null(strstr(fw_strbuf_text(&c.err), "exp_avg_sq, bytes "));
    fw_test_command_fini(&c);
}

static void same_losses(const char *name, const char *want) {
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses(name, a), 6);
    assert_int_equal(fw_test_run_losses(want, b), 6);
    for (int step = 1; step <= 6; step++)
        if (memcmp(&a[step], &b[step], sizeof a[step]) != 0)
            fail_msg("%s, step %d: loss %.17g, not %.17g", name, step, a[step], b[step]);
}

static void test_strategies(void **state) {
    (void)state;
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char words[256], straight[32], name[32];
        snprintf(straight, sizeof straight, "straight-%s", strategies[i]);
        finish(straight, strategies[i], 0);
        for (int damaged_n = 1; damaged_n <= 2; damaged_n++) { /* of two */
            snprintf(name, sizeof name, "%s-%d", strategies[i], damaged_n);
            snprintf(words, sizeof words,
                     "--max_steps 4 --save_steps 2 --lr_scheduler_type constant --strategy %s --num_processes %d",
                     strategies[i], RANK_N);
            assert_int_equal(fw_test_run_train(name, 0, words), 0);
            fw_test_run_damage(name, 4, RANK_N);
            if (damaged_n == 2) fw_test_run_damage(name, 2, RANK_N);
            finish(name, strategies[i], damaged_n);
            same_losses(name, straight);
        }
    }
}

static void refused_strictly(const char *name, const char *part) {
    fw_test_command c;
    fw_test_run_args a;
    fw_test_run_make_args(&a, name, "--max_steps 6 --num_processes 3 --resume_strict");
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 120), 3);
    if (strstr(fw_strbuf_text(&c.err), part) == NULL) fail_msg("no \"%s\": %s", part, fw_strbuf_text(&c.err));
    fw_test_command_fini(&c);
}

/* No checkpoint is sound, whether that is found in its frame or while it is loaded: the run says that it starts anew, and the
 * damaged ones do not have a checkpoint's name any more. Strictly, it is said that there is none before the last. */
static void test_none_sound(void **state) {
    (void)state;
    static const char *const kept[] = {"set-aside-step-00000002", "set-aside-step-00000004"};
    fw_test_command c;
    fw_test_run_args a;
    assert_int_equal(fw_test_run_train("none", 0, "--max_steps 4 --save_steps 2 --num_processes 3"), 0);
    fw_test_run_damage("none", 2, RANK_N);
    assert_int_equal(fw_dir_remove(fw_test_run_path("none", "step-00000004")), FW_OK);
    refused_strictly("none", "there is no checkpoint before it");
    assert_int_equal(fw_dir_make(fw_test_run_path("none", "step-00000004")), FW_OK);
    fw_test_write(fw_test_run_path("none", "step-00000004/manifest.json"), "{", 1);
    fw_test_run_make_args(&a, "none", "--max_steps 1 --save_steps 2 --num_processes 3");
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 120), 0);
    assert_non_null(strstr(fw_strbuf_text(&c.err), "the run starts anew: no checkpoint of "));
    fw_test_command_fini(&c);
    for (size_t i = 0; i < 2; i++) {
        assert_true(fw_dir_exists(fw_test_run_path("none", kept[i])));
        assert_false(fw_dir_exists(fw_test_run_path("none", kept[i] + strlen("set-aside-"))));
    }
}

/* Where it was asked for by name, or nothing is to be passed over, the run ends and says where the damage is. */
static void test_refused(void **state) {
    (void)state;
    char words[1024];
    assert_int_equal(fw_test_run_train("named", 0, "--max_steps 4 --save_steps 2 --num_processes 3"), 0);
    fw_test_run_damage("named", 4, RANK_N);
    refused_strictly("named", "without --resume_strict the checkpoint before it would be taken");
    snprintf(words, sizeof words, "--max_steps 6 --num_processes 2 --resume_from_checkpoint %s",
             fw_test_run_path("named", "step-00000004"));
    fw_test_run_refused(3, "is damaged: the checksum of optimizer.state.", words);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strategies), cmocka_unit_test(test_none_sound),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
