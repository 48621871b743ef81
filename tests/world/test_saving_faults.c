/* What goes wrong with the place where a run saves: a disk that is full, a limit on the size of files, the folder removed or
 * moved away under the run, and writes that fail behind the training. The run ends with one line that says what it is; what
 * was saved before is whole, and the same command goes on from it.
 *
 * This program is the finewire of one of its tests: called with "train" it does what the command line does, but that the
 * n-th write of a rank fails, as FW_TEST_FAULT says ("RANK N", counted from after step 2). */
#include "base/file.h"
#include "store/checkpoint.h"
#include "support/run_lab.h"
#include "support/train_main.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int own_rank;

static void on_place(void *context, int rank, int world) {
    (void)context, (void)world;
    own_rank = rank;
}

static void on_step(void *context, const fw_train_report *r) {
    (void)context;
    int rank, n;
    const char *text = getenv("FW_TEST_FAULT");
    if (r->step == 2 && text != NULL && sscanf(text, "%d %d", &rank, &n) == 2 && rank == own_rank)
        fw_file_fail_write_at((uint64_t)n);
}

/* Steps of all checkpoints of a run, every byte of which is checked; *last: of the newest. */
static size_t sound(const char *dir, int64_t *last) {
    fw_checkpoint_list list;
    *last = 0;
    if (fw_checkpoint_list_init(&list, dir) != FW_OK) fail_msg("%s", fw_trail_message());
    for (size_t i = 0; i < list.entry_n; i++) {
        if (fw_checkpoint_verify(list.entry[i].path, true) != FW_OK) fail_msg("%s", fw_trail_message());
        *last = list.entry[i].step;
    }
    const size_t n = list.entry_n;
    fw_checkpoint_list_fini(&list);
    return n;
}

/* One error, and it says `part` (NULL: whatever it says). */
static void expect_one(fw_test_command *c, int code, const char *part) {
    const char *error = strstr(fw_strbuf_text(&c->err), "error: ");
    if (c->exit_code != code || error == NULL || strstr(error + 1, "error: ") != NULL ||
        (part != NULL && strstr(error, part) == NULL))
        fail_msg("exit code %d, not %d; expected one error with \"%s\": %s", c->exit_code, code,
                 part == NULL ? "" : part, fw_strbuf_text(&c->err));
    fw_test_command_fini(c);
}

static int step_path_exists(const char *run, int step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return fw_dir_exists(fw_test_run_path(run, name));
}

/* A real disk of its own, filled by checkpoints that nobody removes. */
static void test_full_disk(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    char out[FW_TEST_PATH_BYTES];
    int64_t last;
    snprintf(out, sizeof out, "%s", fw_test_path(fw_run_dir, "full"));
    assert_int_equal(fw_dir_make(out), FW_OK);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", out, "tmpfs", 0, "size=4m") != 0) {
        print_message("no disk of its own can be made here: skipped\n");
        skip();
    }
    const char *words = "--num_processes 2 --max_steps 100 --save_steps 1 --lr_scheduler_type constant";
    fw_test_run_make_args(&a, "full", words);
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    fw_test_command_finish(&c, 240);
    expect_one(&c, 6, "no space for");
    const size_t n = sound(out, &last);
    assert_true(n >= 2 && (int64_t)n == last);
    /* room again: the same command, with older ones removed from now on */
    for (int step = 1; step < last; step++) {
        char name[32];
        snprintf(name, sizeof name, "step-%08d", step);
        assert_int_equal(fw_dir_remove(fw_test_path(out, name)), FW_OK);
    }
    char again[256];
    snprintf(again, sizeof again, "%s --save_total_limit 1 --max_steps %d", words, (int)last + 3);
    fw_test_run_make_args(&a, "full", again);
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 240), 0);
    fw_test_command_fini(&c);
    assert_int_equal(sound(out, &last), 1);
    assert_int_equal(umount2(out, MNT_DETACH), 0);
}

/* A limit on the size of a file, as batch systems and quotas have it. */
static void test_file_size_limit(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    int64_t last;
    assert_int_equal(fw_test_run_train("limited", 0, "--max_steps 2 --save_steps 1"), 0);
    fw_test_run_make_args(&a, "limited", "--max_steps 4 --save_steps 1");
    const struct rlimit small = {100000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int started = fw_test_command_start(&c, a.argv, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(started, 0);
    fw_test_command_finish(&c, 240);
    expect_one(&c, 6, "File too large");
    assert_int_equal(sound(fw_test_path(fw_run_dir, "limited"), &last), 2);
    assert_int_equal(fw_test_run_train("limited", 0, "--max_steps 4 --save_steps 1"), 0);
    assert_int_equal(sound(fw_test_path(fw_run_dir, "limited"), &last), 4);
}

/* The output folder is moved away (ways 0 to 2, in the last another is put in its place) or removed while steps are done and
 * saved: the run ends at its next save, with one line that says so. None is made anew, nothing is written into another,
 * and what was moved goes on where it is. */
static void test_folder_gone(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        char name[16], there[32], moved[FW_TEST_PATH_BYTES];
        fw_test_run_args a;
        fw_test_command c;
        int64_t last, later;
        snprintf(name, sizeof name, "gone-%d", way);
        snprintf(there, sizeof there, "%s-moved", name);
        const char *out = fw_test_path(fw_run_dir, name);
        fw_test_run_make_args(&a, name,
                              way & 1 ? "--num_processes 2 --max_steps 100000 --save_steps 2 --save_async"
                                      : "--num_processes 2 --max_steps 100000 --save_steps 2");
        snprintf(moved, sizeof moved, "%s-moved", out);
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        assert_true(fw_test_run_wait_for_steps(&c, name, 5));
        assert_int_equal(rename(out, moved), 0);
        if (way == 2) assert_int_equal(mkdir(out, 0777), 0);
        if (way == 3) /* what is on its way may still be written into it */
            for (int i = 0; i < 1000 && fw_dir_remove(moved) != FW_OK; i++) usleep(5000);
        fw_test_command_finish(&c, 240);
        expect_one(&c, 6, "is not the folder any more that this run began in");
        assert_int_equal(rmdir(out) == 0, way == 2); /* there only if it was put there, and empty */
        if (way == 3) continue;
        assert_true(sound(moved, &last) >= 1);
        if (way > 0) continue;
        char more[128];
        snprintf(more, sizeof more, "--num_processes 2 --save_steps 2 --max_steps %d", (int)last + 2);
        assert_int_equal(fw_test_run_train(there, 0, more), 0);
        assert_true(sound(moved, &later) >= 1 && later == last + 2);
    }
}

/* The n-th write of a rank fails while it saves behind the training. */
static void test_writes_behind(void **state) {
    (void)state;
    const char *words =
        "--num_processes 2 --strategy zero3 --save_async --save_steps 2 --max_steps 6 --lr_scheduler_type constant";
    char again[256];
    snprintf(again, sizeof again, "%s --save_total_limit 0", words);
    assert_int_equal(fw_test_run_train("sound", 0, words), 0);
    int failed_n = 0;
    for (int rank = 0; rank < 2; rank++)
        for (int n = 1; n <= 9; n += rank == 0 ? 2 : 1) {
            char name[32], fault[64];
            fw_test_run_args a;
            fw_test_command c;
            int64_t last;
            snprintf(name, sizeof name, "behind-%d-%d", rank, n);
            snprintf(fault, sizeof fault, "FW_TEST_FAULT=%d %d", rank, n);
            const char *environment[] = {fault, NULL};
            fw_test_run_make_args(&a, name, words);
            a.argv[0] = "/proc/self/exe";
            assert_int_equal(fw_test_command_start(&c, a.argv, environment), 0);
            const int code = fw_test_command_finish(&c, 120);
            if (code == 0) { /* it does not write so often */
                fw_test_command_fini(&c);
                assert_true(n > 1);
                break;
            }
            expect_one(&c, 6, "No space left on device");
            failed_n++;
            sound(fw_test_path(fw_run_dir, name), &last);
            assert_true(last < 6 && !step_path_exists(name, 6));
            assert_int_equal(fw_test_run_train(name, 0, words), 0);
            fw_test_run_same_final("sound", name);
        }
    assert_true(failed_n >= 4);
}

/* B22: three ranks, fifty saves, and something that is no checkpoint under the name of one of them. */
static void test_one_owner(void **state) {
    (void)state;
    fw_test_run_args a;
    fw_test_command c;
    int64_t last;
    const char *out = fw_test_path(fw_run_dir, "owner"), *in_the_way = fw_test_path(out, "step-00000030");
    fw_test_run_make_args(&a, "owner",
                          "--num_processes 3 --strategy zero3 --max_steps 50 --save_steps 1 "
                          "--per_device_train_batch_size 1");
    assert_int_equal(fw_dir_make(in_the_way), FW_OK);
    fw_test_write(fw_test_path(in_the_way, "manifest.json"), "{}", 2);
    fw_test_write(fw_test_path(in_the_way, "notes"), "x", 1);
    assert_int_equal(fw_test_command_run(&c, a.argv, 0, 240), 0);
    assert_non_null(strstr(fw_strbuf_text(&c.err), "step-00000030 does not count"));
    fw_test_command_fini(&c);
    assert_int_equal(sound(out, &last), 50);
    char **names;
    size_t name_n;
    assert_int_equal(fw_dir_list(&names, &name_n, out), FW_OK);
    for (size_t i = 0; i < name_n; i++)
        if (strncmp(names[i], ".tmp", 4) == 0) fail_msg("%s is left", names[i]);
    fw_dir_list_free(names, name_n);
}

/* B26: what one rank had of the optimizer is missing: named, exit code 3, and no run that goes on without it. */
static void test_missing_moments(void **state) {
    (void)state;
    const char *words = "--num_processes 2 --strategy zero3 --max_steps 2 --save_steps 2";
    char more[1024], file[64] = "";
    assert_int_equal(fw_test_run_train("missing", 0, words), 0);
    char **names;
    size_t name_n;
    const char *step = fw_test_run_path("missing", "step-00000002");
    assert_int_equal(fw_dir_list(&names, &name_n, step), FW_OK);
    for (size_t i = 0; i < name_n; i++)
        if (strncmp(names[i], "shard-00002-", 12) == 0) snprintf(file, sizeof file, "%s", names[i]);
    fw_dir_list_free(names, name_n);
    assert_true(file[0] != 0);
    assert_int_equal(fw_dir_remove(fw_test_path(step, file)), FW_OK);
    snprintf(more, sizeof more, "%s --resume_from_checkpoint %s", words, step);
    fw_test_run_refused(3, file, more);
    assert_int_equal(fw_test_run_train("missing", 3, "--max_steps 4 --resume_strict"), 3);
}

int main(int argc, char **argv) {
    fw_train_hooks hooks = {.place = on_place, .step = on_step};
    if (argc > 1) return fw_test_train_main(argc, argv, &hooks);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_disk),   cmocka_unit_test(test_file_size_limit),
                                       cmocka_unit_test(test_folder_gone), cmocka_unit_test(test_writes_behind),
                                       cmocka_unit_test(test_one_owner),   cmocka_unit_test(test_missing_moments)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
