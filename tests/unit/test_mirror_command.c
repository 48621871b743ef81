/* What is written after --mirror, and the commands that come of it: words, placeholders, exit codes, time, and that nothing of
 * a command outlives the process that runs it. */
#include "base/alloc.h"
#include "base/file.h"
#include "mirror/mirror_form.h"
#include "mirror/mirror_run.h"
#include "support/scratch.h"
#include "support/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(root);
    return 0;
}

static void expect(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status), fw_trail_message(),
                 fw_status_name(want), part);
}

/* The words with their placeholders filled, each in brackets. */
static const char *filled(const char *text) {
    static char out[1024];
    fw_mirror_form f;
    char **argv;
    const fw_mirror_values values = {"source", "/a b/\"c\"; rm -rf $HOME", "step-00000007"};
    out[0] = 0;
    if (fw_mirror_form_read(&f, text, "source", "--mirror") != FW_OK) fail_msg("%s: %s", text, fw_trail_message());
    assert_int_equal(f.kind, FW_MIRROR_COMMAND);
    assert_int_equal(fw_mirror_form_fill(&argv, &f, &values), FW_OK);
    for (size_t i = 0; argv[i] != NULL; i++) snprintf(out + strlen(out), sizeof out - strlen(out), "[%s]", argv[i]);
    fw_mirror_words_free(argv);
    fw_mirror_form_fini(&f);
    return out;
}

static void test_words(void **state) {
    (void)state;
    assert_string_equal(filled("cp -r {source} x"), "[cp][-r][/a b/\"c\"; rm -rf $HOME][x]");
    assert_string_equal(filled("  rsync {source}/\t'host:/b c/{name}/' \n"),
                        "[rsync][/a b/\"c\"; rm -rf $HOME/][host:/b c/step-00000007/]");
    assert_string_equal(filled("a \"b 'c'\\\"\" d\\ e '\\' '' {source}"),
                        "[a][b 'c'\"][d e][\\][][/a b/\"c\"; rm -rf $HOME]");
    assert_string_equal(filled("awk '{{print}}' {} {1} {X} {source}{name}"),
                        "[awk][{print}][{}][{1}][{X}][/a b/\"c\"; rm -rf $HOMEstep-00000007]");
    assert_string_equal(filled("x$(y) `z` {source} ; & |"), "[x$(y)][`z`][/a b/\"c\"; rm -rf $HOME][;][&][|]");
}

static void test_kinds(void **state) {
    (void)state;
    fw_mirror_form f;
    assert_int_equal(fw_mirror_form_read(&f, "/mnt/backup", "source", "--mirror"), FW_OK);
    assert_int_equal(f.kind, FW_MIRROR_FOLDER);
    assert_string_equal(f.text, "/mnt/backup");
    fw_mirror_form_fini(&f);
    const char *blank = fw_test_path(root, "with a blank");
    expect(fw_mirror_form_read(&f, blank, "source", "--mirror"), FW_ERR_OPTION, "needs {source}");
    assert_int_equal(fw_dir_make(blank), FW_OK);
    assert_int_equal(fw_mirror_form_read(&f, blank, "source", "--mirror"), FW_OK);
    assert_int_equal(f.kind, FW_MIRROR_FOLDER);
    fw_mirror_form_fini(&f);
    assert_int_equal(fw_mirror_form_read(&f, "hf://some-one/a.b_c@v2", "source", "--mirror"), FW_OK);
    assert_int_equal(f.kind, FW_MIRROR_HUB);
    assert_string_equal(f.repository, "some-one/a.b_c");
    assert_string_equal(f.branch, "v2");
    fw_mirror_form_fini(&f);
    static const char *const bad[][2] = {{"", "is empty"},
                                         {"cp {source} {sorce}", "{sorce} is not known"},
                                         {"cp '{source}", "the quote '"},
                                         {"cp x", "needs {source}"},
                                         {"cp {{source}} x", "needs {source}"},
                                         {"hf://a", "not a repository"},
                                         {"hf://a/b/c", "not a"},
                                         {"hf://a/b@", "not a repository"},
                                         {"hf://../b c", "not a repository"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(fw_mirror_form_read(&f, bad[i][0], "source", "--mirror"), FW_ERR_OPTION, bad[i][1]);
}

/* Every allocation may fail, and nothing leaks (under sanitizers). */
static void test_no_memory(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        fw_mirror_form f;
        char **argv = NULL;
        const fw_mirror_values values = {"source", "there", "name"};
        fw_alloc_fail_at(n);
        fw_status status = fw_mirror_form_read(&f, "cp -r {source} 'a b'/{name}", "source", "--mirror");
        if (status == FW_OK) status = fw_mirror_form_fill(&argv, &f, &values);
        const bool reached = fw_alloc_count() >= n;
        fw_alloc_fail_at(0);
        fw_mirror_words_free(argv);
        fw_mirror_form_fini(&f);
        if (!reached) {
            assert_int_equal(status, FW_OK);
            return;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
    }
}

static fw_status run(const char *script, const char *argument, fw_mirror_work *work) {
    const char *argv[] = {"sh", "-c", script, "sh", argument, NULL};
    return fw_mirror_run((char *const *)(uintptr_t)argv, fw_test_path(root, "log"), work);
}

static void test_exit_codes(void **state) {
    (void)state;
    fw_mirror_work work = {0};
    const char *missing[] = {"/no/such/program", NULL};
    assert_int_equal(run("exit 0", "", &work), FW_OK);
    assert_int_equal(run("test \"$1\" = 'a  b'", "a  b", &work), FW_OK);
    assert_int_equal(run("! read x", "", &work), FW_OK); /* nothing to read, and no waiting for it */
    expect(run("echo one; echo two >&2; exit 7", "", &work), FW_ERR_IO, "sh ended with exit code 7: two");
    expect(run("printf '\\033[1m\\033[31mError: full\\033[0m\\n\\nmore\\n\\033[90mHint: none\\033[0m\\n'; exit 1", "",
               &work),
           FW_ERR_IO, "exit code 1: Error: full");
    assert_null(strchr(fw_trail_message(), '\033'));
    expect(run("printf 'error: no end\\033['; exit 1", "", &work), FW_ERR_IO, "exit code 1: error: no end");
    expect(run("kill -s KILL $$", "", &work), FW_ERR_IO, "exit code 137");
    expect(fw_mirror_run((char *const *)(uintptr_t)missing, NULL, &work), FW_ERR_IO, "there is no such program");
    fw_strbuf log = {0};
    assert_int_equal(fw_file_read(&log, fw_test_path(root, "log"), 1 << 20), FW_OK);
    assert_non_null(strstr(log.data, "\none\n"));
    assert_non_null(strstr(log.data, "'a  b'"));
    fw_strbuf_fini(&log);
    /* more than a pipe holds */
    assert_int_equal(
        run("i=0; while [ $i -lt 3000 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done", "",
            &work),
        FW_OK);
    assert_true(fw_test_file_bytes(fw_test_path(root, "log")) > 120000);
}

static pid_t pid_in(const char *name) {
    char text[32];
    return (pid_t)atoi(read_text_in(root, name, text, sizeof text));
}

/* Ended, or a zombie that nobody has reaped. */
static bool is_gone(pid_t pid) {
    char path[64], state = 'R';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return true;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(f);
    return state == 'Z';
}

static void must_go(const char *name) {
    const pid_t pid = pid_in(name);
    assert_true(pid > 0);
    for (int i = 0; i < 6000 && !is_gone(pid); i++) nap(0.01);
    if (!is_gone(pid)) fail_msg("%s (%d) has outlived what started it", name, (int)pid);
}

/* A child in the background that ignores a polite signal. */
static const char stubborn[] = "cd \"$1\"; (trap '' TERM; sh -c 'echo $PPID >child'; while :; do sleep 1; done) & "
                               "echo $$ >parent; wait";

static void test_too_slow(void **state) {
    (void)state;
    fw_mirror_work work = {0};
    fw_mirror_work_begin(&work, 1);
    expect(run(stubborn, root, &work), FW_ERR_IO, "it took longer than 1 s");
    if (pid_in("parent") > 0) must_go("parent"); /* on a slow machine they had not begun */
    if (pid_in("child") > 0) must_go("child");
    atomic_store(&work.given_up, true);
    fw_mirror_work_begin(&work, 0);
    expect(run("while :; do sleep 1; done", root, &work), FW_ERR_INTERRUPTED, "given up");
}

/* The process that mirrors is killed, and can do nothing about it any more. */
static void test_killed(void **state) {
    (void)state;
    unlink(fw_test_path(root, "child"));
    unlink(fw_test_path(root, "parent"));
    const pid_t runner = fork();
    if (runner == 0) {
        fw_mirror_work work = {0};
        run(stubborn, root, &work);
        _exit(0);
    }
    assert_true(wait_for_in(root, "child", 2) && wait_for_in(root, "parent", 2));
    kill(runner, SIGKILL);
    assert_int_equal(waitpid(runner, NULL, 0), runner);
    must_go("parent");
    must_go("child");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words),     cmocka_unit_test(test_kinds),
                                       cmocka_unit_test(test_no_memory), cmocka_unit_test(test_exit_codes),
                                       cmocka_unit_test(test_too_slow),  cmocka_unit_test(test_killed)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
