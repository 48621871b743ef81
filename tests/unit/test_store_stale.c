/* What killed processes left in an output folder: all of it goes, and nothing else. */
#include "base/alloc.h"
#include "base/file.h"
#include "store/stale.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
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

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void test_stale(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "stale");
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    /* %ld is the number of that process; before a slash is a folder. */
    static const struct {
        const char *format;
        bool goes;
    } entries[] = {
        {"final.tmp-%ld/model.safetensors", true},
        {".tmp-step-00000010-%ld/anything", true},
        {".tmp-mirror-%ld/step-00000010", true},
        {"run.json.tmp-%ld", true},
        {".tmp-step-00000020-%ld-old/manifest.json", true},  /* step 20 has its name back */
        {".tmp-step-00000030-%ld-old/manifest.json", false}, /* step 30 has not: this is all there is of it */
        {"final.tmp-%ld-old/model.safetensors", false},
        {"final.tmp-0%ld0000000000/config.json", false},
        {"finale.tmp-%ld/config.json", false},
        {"notes.tmp-%ld", false},
        {".tmp-mine-%ld/x", false},
        {".tmp-step-3-%ld/x", false},
        {".tmp-step-0000001x-%ld/x", false},
        {"tmp-step-00000010-%ld/x", false},
        {"final-%ld/config.json", false},
    };
    enum { ENTRY_N = sizeof entries / sizeof *entries };
    char name[ENTRY_N][128];
    for (size_t i = 0; i < ENTRY_N; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name[i], sizeof name[i], entries[i].format, (long)gone);
#pragma GCC diagnostic pop
        char *slash = strchr(name[i], '/');
        if (slash != NULL) {
            *slash = 0;
            must(fw_dir_make(fw_test_path(out, name[i])));
            *slash = '/';
        }
        fw_test_write(fw_test_path(out, name[i]), "x", 1);
    }
    must(fw_dir_make(fw_test_path(out, "step-00000020")));
    char living[2][64], own[64], link_name[64];
    snprintf(living[0], sizeof living[0], "final.tmp-%ld", (long)getppid());
    snprintf(living[1], sizeof living[1], ".tmp-step-00000010-%ld", (long)getppid());
    snprintf(own, sizeof own, ".tmp-step-00000040-%ld", (long)getpid()); /* a predecessor with our number */
    for (int i = 0; i < 2; i++) must(fw_dir_make(fw_test_path(out, living[i])));
    must(fw_dir_make(fw_test_path(out, own)));
    snprintf(link_name, sizeof link_name, ".tmp-step-00000050-%ld", (long)gone);
    assert_int_equal(symlink(fw_test_path(out, "step-00000020"), fw_test_path(out, link_name)), 0);
    int before_n = fw_test_count_entries(out);

    fw_output_lock lock = {.fd = -1};
    must(fw_stale_remove(out, &lock)); /* without the lock: nothing */
    assert_int_equal(fw_test_count_entries(out), before_n);
    must(fw_output_lock_take(&lock, out));
    lock.exclusive = false; /* as where the file system cannot lock */
    must(fw_stale_remove(out, &lock));
    assert_int_equal(fw_test_count_entries(out), before_n + 1); /* .lock */
    lock.exclusive = true;
    must(fw_stale_remove(out, &lock));
    for (size_t i = 0; i < ENTRY_N; i++)
        if (fw_file_exists(fw_test_path(out, name[i])) == entries[i].goes)
            fail_msg("%s is %s", name[i], entries[i].goes ? "still there" : "gone");
    for (int i = 0; i < 2; i++) assert_true(fw_dir_exists(fw_test_path(out, living[i])));
    assert_false(fw_dir_exists(fw_test_path(out, own)));
    char target[FW_TEST_PATH_BYTES];
    assert_true(readlink(fw_test_path(out, link_name), target, sizeof target) > 0);
    /* a folder of that name with a file that no export writes is somebody's */
    snprintf(name[0], sizeof name[0], "final.tmp-%ld", (long)gone);
    must(fw_dir_make(fw_test_path(out, name[0])));
    fw_test_write(fw_test_path(fw_test_path(out, name[0]), "notes"), "x", 1);
    must(fw_stale_remove(out, &lock));
    assert_true(fw_dir_exists(fw_test_path(out, name[0])));
    must(fw_dir_remove(fw_test_path(fw_test_path(out, name[0]), "notes")));
    char half[64];
    snprintf(half, sizeof half, "model.safetensors.tmp-%ld", (long)gone);
    fw_test_write(fw_test_path(fw_test_path(out, name[0]), half), "x", 1);
    for (uint64_t n = 1;; n++) { /* the n-th allocation fails: an error, and another try */
        fw_alloc_fail_at(n);
        fw_status status = fw_stale_remove(out, &lock);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_false(fw_dir_exists(fw_test_path(out, name[0])));
    fw_output_lock_release(&lock);
}

/* Ended, but nobody has asked for its exit code: as under a first process that reaps none. */
static void test_zombie(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "zombie");
    char name[64];
    siginfo_t ended;
    pid_t zombie = fork();
    if (zombie == 0) _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)zombie, &ended, WEXITED | WNOWAIT), 0);
    snprintf(name, sizeof name, ".tmp-mirror-%ld", (long)zombie);
    must(fw_dir_make(fw_test_path(out, name)));
    fw_output_lock lock;
    must(fw_output_lock_take(&lock, out));
    must(fw_stale_remove(out, &lock));
    assert_false(fw_dir_exists(fw_test_path(out, name)));
    fw_output_lock_release(&lock);
    assert_int_equal(waitpid(zombie, NULL, 0), zombie);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_zombie),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
