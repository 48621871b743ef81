/* Mirrors of real runs: killed in the middle of copies, stuck, gone, on a disk that is too small for what is held; nothing of it
 * stops a run, and what has a name in the mirror is whole. */
#include "base/file.h"
#include "store/checkpoint.h"
#include "support/run_lab.h"
#include "support/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static char at[FW_TEST_PATH_BYTES]; /* the folder of this test's mirror */

static const char *there(const char *name) { return fw_test_path(at, name); }

/* A run with --mirror, whose text may have blanks. */
static void make_args(fw_test_run_args *a, const char *name, const char *more, const char *mirror) {
    fw_test_run_make_args(a, name, more);
    size_t n = 0;
    while (a->argv[n] != NULL) n++;
    a->argv[n++] = "--mirror";
    a->argv[n++] = mirror;
    a->argv[n] = NULL;
}

static void new_place(const char *name) {
    snprintf(at, sizeof at, "%s", fw_test_path(fw_run_dir, name));
    assert_int_equal(fw_dir_make(at), FW_OK);
}

/* "sh SCRIPT {source} {name}", where $there is the place of this test. */
static const char *script(const char *text) {
    static char command[2 * FW_TEST_PATH_BYTES];
    char whole[4096];
    const int n = snprintf(whole, sizeof whole, "there='%s'\n%s\n", at, text);
    fw_test_write(there("script"), whole, (size_t)n);
    snprintf(command, sizeof command, "sh %s/script {source} {name}", at);
    return command;
}

static void wait_for(const char *name) {
    for (int i = 0; i < 12000; i++, nap(0.01))
        if (access(there(name), F_OK) == 0) return;
    fail_msg("%s did not come", name);
}

static int has_temporary(const char *dir) {
    char **names;
    size_t n;
    int found = 0;
    assert_int_equal(fw_dir_list(&names, &n, dir), FW_OK);
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], ".tmp") != NULL) print_message("%s is left in %s\n", names[i], dir), found++;
    fw_dir_list_free(names, n);
    return found;
}

/* All of a folder's checkpoints are sound; returns how many. */
static size_t all_sound(const char *dir) {
    fw_checkpoint_list list;
    char **names;
    size_t n, named = 0;
    if (!fw_dir_exists(dir)) return 0;
    assert_int_equal(fw_dir_list(&names, &n, dir), FW_OK);
    for (size_t i = 0; i < n; i++) named += strncmp(names[i], "step-", 5) == 0;
    fw_dir_list_free(names, n);
    assert_int_equal(fw_checkpoint_list_init(&list, dir), FW_OK);
    assert_int_equal(list.entry_n, named);
    for (size_t i = 0; i < list.entry_n; i++)
        if (fw_checkpoint_verify(list.entry[i].path, true) != FW_OK) fail_msg("%s", fw_trail_message());
    fw_checkpoint_list_fini(&list);
    return named;
}

/* Killed at instants drawn with seed 7. The same command goes on, cleans up, and ends with a mirror like any other. */
static void test_killed(void **state) {
    (void)state;
    fw_test_run_args a;
    new_place("killed-mirror");
    const char *words =
        "--num_processes 2 --save_steps 1 --save_total_limit 1 --lr_scheduler_type constant --max_steps";
    char line[256];
    snprintf(line, sizeof line, "%s 1000000 --mirror_total_limit 2", words);
    make_args(&a, "killed", line, at);
    srand(7);
    for (int k = 0; k < 5; k++) {
        fw_test_command c;
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        const bool started = fw_test_run_wait_for_steps(&c, "killed", fw_test_run_lines("killed") + 2 + rand() % 3);
        usleep((useconds_t)(rand() % 30000));
        kill(c.pid, SIGKILL); /* its ranks die with it */
        fw_test_command_finish(&c, 60);
        if (!started) fail_msg("it did not go on: %s", fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
        usleep(50000);
        all_sound(at);
    }
    const int last = fw_test_run_lines("killed") + 2;
    snprintf(line, sizeof line, "%s %d --mirror_total_limit 2", words, last);
    make_args(&a, "killed", line, at);
    fw_test_command c;
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 240), 0);
    fw_test_command_fini(&c);
    snprintf(line, sizeof line, "%s %d", words, last);
    assert_int_equal(fw_test_run_train("whole", 0, line), 0);
    fw_test_same_folder(there("final"), fw_test_run_path("whole", "final"));
    assert_true(all_sound(at) >= 1 && all_sound(at) <= 2);
    assert_int_equal(has_temporary(at), 0);
    assert_int_equal(has_temporary(fw_test_path(fw_run_dir, "killed")), 0);
}

/* save_total_limit removes what is being copied; the copy is whole all the same. */
static void test_removed_meanwhile(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    char first[64], name[64];
    new_place("removed-mirror");
    make_args(&a, "removed", "--max_steps 100000 --save_steps 1 --save_total_limit 1",
              script("if mkdir $there/first 2>/dev/null; then\n"
                     "  while [ ! -e $there/go ]; do sleep 0.02; done\n"
                     "  cp -r \"$1\" $there/$2; echo $2 >$there/name; touch $there/copied\n"
                     "fi"));
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    wait_for("first");
    assert_true(fw_test_run_wait_for_steps(&c, "removed", fw_test_run_lines("removed") + 4));
    fw_test_write(there("go"), "", 0);
    wait_for("copied");
    kill(c.pid, SIGTERM);
    assert_int_equal(fw_test_command_finish(&c, 120), 130);
    fw_test_command_fini(&c);
    snprintf(first, sizeof first, "%s", read_text_in(at, "name", name, sizeof name));
    first[strcspn(first, "\n")] = 0;
    assert_false(fw_dir_exists(fw_test_run_path("removed", first)));
    if (fw_checkpoint_verify(there(first), true) != FW_OK) fail_msg("%s", fw_trail_message());
    assert_int_equal(has_temporary(fw_test_path(fw_run_dir, "removed")), 0);
}

/* The folder goes away while the run is at it: nothing takes its place, the run is whole, its end says so. */
static void test_gone(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    new_place("gone-mirror");
    make_args(&a, "gone", "--max_steps 100000 --save_steps 2 --mirror_timeout 5m", at);
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    wait_for("step-00000002");
    /* while it copies into it, removing may have to begin anew */
    for (int i = 0; i < 1000 && fw_dir_remove(at) != FW_OK; i++) nap(0.005);
    assert_true(fw_test_run_wait_for_steps(&c, "gone", fw_test_run_lines("gone") + 4));
    kill(c.pid, SIGTERM);
    const int code = fw_test_command_finish(&c, 240);
    if (code != 130 || strstr(fw_strbuf_text(&c.err), "is gone") == NULL)
        fail_msg("exit code %d: %s", code, fw_strbuf_text(&c.err));
    assert_non_null(strstr(fw_strbuf_text(&c.err), "error: the mirror "));
    fw_test_command_fini(&c);
    assert_false(fw_dir_exists(at));
    assert_true(all_sound(fw_test_path(fw_run_dir, "gone")) >= 3);
}

static int is_alive(const char *name) {
    char text[32];
    const pid_t pid = (pid_t)atoi(read_text_in(at, name, text, sizeof text));
    assert_true(pid > 0);
    for (int i = 0; i < 3000; i++, nap(0.01))
        if (kill(pid, 0) != 0 && errno == ESRCH) return 0;
    return 1;
}

/* A command that never ends: a signal leaves it, and takes it along. */
static void test_stuck(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    /* the run has ended by itself and waits */
    new_place("stuck-mirror");
    const char *never = script("echo $$ >$there/pid.new; mv $there/pid.new $there/pid; while :; do sleep 1; done");
    make_args(&a, "stuck", "--max_steps 2", never);
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    wait_for("pid");
    for (int i = 0; i < 12000 && !fw_dir_exists(fw_test_run_path("stuck", "final")); i++) nap(0.01);
    kill(c.pid, SIGINT);
    assert_int_equal(fw_test_command_finish(&c, 60), 6);
    assert_non_null(strstr(fw_strbuf_text(&c.err), "nobody wanted to wait"));
    fw_test_command_fini(&c);
    assert_int_equal(is_alive("pid"), 0);
    /* interrupted: saved, the copy is waited for but not for ever, and the exit code says what it always says */
    new_place("stuck-again");
    never = script("echo $$ >$there/pid.new; mv $there/pid.new $there/pid; while :; do sleep 1; done");
    make_args(&a, "stopped", "--num_processes 2 --max_steps 100000 --save_steps 1 --mirror_timeout 3s", never);
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    wait_for("pid");
    kill(c.pid, SIGTERM);
    assert_int_equal(fw_test_command_finish(&c, 120), 130);
    assert_non_null(strstr(fw_strbuf_text(&c.err), "does not have step-"));
    fw_test_command_fini(&c);
    assert_int_equal(is_alive("pid"), 0);
    assert_true(all_sound(fw_test_path(fw_run_dir, "stopped")) > 0);
}

/* A disk with room for two checkpoints: what is only held to be copied makes room for the next save. */
static void test_lets_go(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    char size[32], out[FW_TEST_PATH_BYTES];
    new_place("small-mirror");
    assert_int_equal(fw_test_run_train("measured", 0, "--max_steps 1"), 0);
    uint64_t bytes = 0;
    char **names;
    size_t n;
    const char *one = fw_test_run_path("measured", "step-00000001");
    assert_int_equal(fw_dir_list(&names, &n, one), FW_OK);
    for (size_t i = 0; i < n; i++) bytes += fw_test_file_bytes(fw_test_path(one, names[i])) + 4096;
    fw_dir_list_free(names, n);
    snprintf(out, sizeof out, "%s", fw_test_path(fw_run_dir, "small"));
    assert_int_equal(fw_dir_make(out), FW_OK);
    snprintf(size, sizeof size, "size=%llu", (unsigned long long)(2 * bytes + bytes / 2));
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", out, "tmpfs", 0, size) != 0) {
        print_message("no disk of its own can be made here: skipped\n");
        skip();
    }
    make_args(&a, "small", "--max_steps 100000 --save_steps 1 --save_total_limit 1",
              script("if mkdir $there/first 2>/dev/null; then while :; do sleep 1; done; fi\n"
                     "[ $2 = newest ] || { rm -rf $there/new; cp -r \"$1\" $there/new && mv $there/new $there/$2; }"));
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    wait_for("first");
    assert_true(fw_test_run_wait_for_steps(&c, "small", fw_test_run_lines("small") + 5));
    kill(c.pid, SIGTERM);
    const int code = fw_test_command_finish(&c, 240);
    if (code != 130 || strstr(fw_strbuf_text(&c.err), "is still being copied, is given up") == NULL)
        fail_msg("exit code %d: %s", code, fw_strbuf_text(&c.err));
    fw_test_command_fini(&c);
    assert_int_equal(all_sound(out), 1);
    assert_int_equal(umount2(out, MNT_DETACH), 0);
    assert_true(all_sound(at) >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed), cmocka_unit_test(test_removed_meanwhile),
                                       cmocka_unit_test(test_gone), cmocka_unit_test(test_stuck),
                                       cmocka_unit_test(test_lets_go)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
