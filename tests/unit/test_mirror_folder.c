/* A mirror that is a folder: every write and sync that fails, a disk that is full, files that change under way, a folder that
 * goes away; and checkpoints that are removed while they are copied. */
#include "base/alloc.h"
#include "base/file.h"
#include "mirror/mirror_fetch.h"
#include "mirror/mirror_links.h"
#include "mirror/mirror_target.h"
#include "support/checkpoint_lab.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static json_t *identity, *other;
static fw_mirror_work work;

static int setup(void **state) {
    fw_test_checkpoint_setup(state);
    identity = json_pack("{s:s}", "data_hash", "1");
    other = json_pack("{s:s}", "data_hash", "2");
    return 0;
}

static int teardown(void **state) {
    json_decref(identity);
    json_decref(other);
    return fw_test_checkpoint_teardown(state);
}

static const char *in_lab(const char *name) { return fw_test_path(fw_lab.root, name); }

/* Copies OUTPUT_DIR/step-..., as the thread does it. */
static fw_status copy(const char *out, const char *to, int step, const fw_mirror_options *more) {
    fw_mirror_options o = *more;
    fw_mirror_target t;
    char name[32];
    o.to = to;
    o.output_dir = out;
    o.identity = o.identity != NULL ? o.identity : identity;
    o.from_step = 1000;
    snprintf(name, sizeof name, "step-%08d", step);
    const fw_mirror_item item = {fw_test_path(out, name), name, false};
    fw_status status = fw_mirror_target_init(&t, &o);
    if (status == FW_OK) status = fw_mirror_target_copy(&t, &item, &work);
    fw_mirror_target_fini(&t);
    return status;
}

static const fw_mirror_options plain = {0};

static void test_copies(void **state) {
    (void)state;
    const char *out = in_lab("run"), *to = in_lab("there");
    for (int step = 1; step <= 4; step++) fw_test_must(fw_test_save(out, step));
    const fw_mirror_options two = {.rules = {.keep_n = 2}};
    for (int step = 1; step <= 4; step++) {
        fw_test_must(copy(out, to, step, &two));
        fw_test_same_folder(fw_test_step_path(out, step), fw_test_step_path(to, step));
    }
    assert_false(fw_dir_exists(fw_test_step_path(to, 2)));
    assert_true(fw_dir_exists(fw_test_step_path(to, 3)));
    /* there already: not written again; damaged there: written again */
    fw_file_fail_write_at(1);
    fw_test_must(copy(out, to, 4, &two));
    fw_file_fail_write_at(0);
    fw_test_resize(fw_test_path(fw_test_step_path(to, 4), "config.json"), 3);
    fw_test_must(copy(out, to, 4, &two));
    fw_test_same_folder(fw_test_step_path(out, 4), fw_test_step_path(to, 4));
    char *newest;
    fw_test_must(fw_mirror_newest(&newest, to, INT64_MAX));
    assert_string_equal(newest, fw_test_step_path(to, 4));
    fw_free(newest);
    /* another run's folder */
    const fw_mirror_options stranger = {.identity = other};
    fw_test_expect(copy(out, to, 4, &stranger), FW_ERR_OPTION, "holds another run");
    fw_test_expect(fw_mirror_check_place(to, out, other), FW_ERR_OPTION, " was \"1\" and is \"2\"");
    fw_test_expect(copy(out, out, 4, &plain), FW_ERR_OPTION, "is the --output_dir itself");
    fw_test_expect(copy(out, in_lab("not/there"), 4, &plain), FW_ERR_IO, "cannot make folder");
}

/* The n-th write, and the n-th sync: an error, nothing half-written, what was there before is whole, the next attempt works. */
static void test_faults(void **state) {
    (void)state;
    static void (*const fail_at[])(uint64_t) = {fw_file_fail_write_at, fw_file_fail_sync_at};
    const char *out = in_lab("run");
    for (int kind = 0; kind < 2; kind++) {
        const char *to = in_lab(kind == 0 ? "writes" : "syncs");
        fw_test_must(copy(out, to, 3, &plain));
        int failed_n = 0;
        for (uint64_t n = 1;; n++) {
            fail_at[kind](n);
            fw_status status = copy(out, to, 4, &plain);
            fail_at[kind](0);
            if (status == FW_OK) break;
            failed_n++;
            assert_int_equal(status, FW_ERR_IO);
            fw_test_must(fw_checkpoint_verify(fw_test_step_path(to, 3), true));
            if (fw_dir_exists(fw_test_step_path(to, 4))) /* only the sync of the folder, after the rename */
                fw_test_must(fw_checkpoint_verify(fw_test_step_path(to, 4), true));
            fw_test_must(fw_dir_remove(fw_test_step_path(to, 4)));
            char **names;
            size_t name_n;
            fw_test_must(fw_dir_list(&names, &name_n, to));
            assert_int_equal(name_n, 3); /* .lock, run.json, step 3 */
            fw_dir_list_free(names, name_n);
        }
        assert_true(failed_n >= 5); /* files, and for syncs folders too */
        fw_test_same_folder(fw_test_step_path(out, 4), fw_test_step_path(to, 4));
    }
}

/* Every allocation of a copy. */
static void test_no_memory(void **state) {
    (void)state;
    const char *out = in_lab("run"), *to = in_lab("memory");
    for (uint64_t n = 1;; n += 1 + n / 8) {
        fw_alloc_fail_at(n);
        fw_status status = copy(out, to, 4, &plain);
        const bool reached = fw_alloc_count() >= n;
        fw_alloc_fail_at(0);
        if (!reached) {
            fw_test_must(status);
            break;
        }
        if (status != FW_OK) assert_int_equal(status, FW_ERR_NOMEM);
        fw_test_must(fw_dir_remove(to));
    }
    fw_test_must(fw_checkpoint_verify(fw_test_step_path(to, 4), true));
}

/* A source that was damaged is never named a copy. */
static void test_damaged_source(void **state) {
    (void)state;
    const char *out = in_lab("damaged"), *to = in_lab("sound");
    fw_test_must(fw_test_save(out, 7));
    char **names;
    size_t name_n;
    fw_test_must(fw_dir_list(&names, &name_n, fw_test_step_path(out, 7)));
    assert_int_equal(strncmp(names[name_n - 2], "shard-", 6), 0); /* the last is the tokenizer */
    fw_test_flip_bit(fw_test_path(fw_test_step_path(out, 7), names[name_n - 2]), 5000);
    fw_dir_list_free(names, name_n);
    fw_test_expect(copy(out, to, 7, &plain), FW_ERR_INPUT, "is damaged");
    assert_false(fw_dir_exists(fw_test_step_path(to, 7)));
    fw_test_resize(fw_test_path(fw_test_step_path(out, 7), "config.json"), 10);
    fw_test_expect(copy(out, to, 7, &plain), FW_ERR_INPUT, "config.json");
    atomic_store(&work.given_up, true);
    fw_test_expect(copy(in_lab("run"), to, 4, &plain), FW_ERR_INTERRUPTED, "given up");
    atomic_store(&work.given_up, false);
    assert_false(fw_dir_exists(fw_test_step_path(to, 4)));
}

/* The folder goes away, or is another one, after it was met. Nothing is made in its place. */
static void test_folder_gone(void **state) {
    (void)state;
    const char *out = in_lab("run"), *to = in_lab("goes");
    const fw_mirror_options o = {.to = to, .output_dir = out, .identity = identity, .from_step = 1000};
    fw_mirror_target t;
    const fw_mirror_item item = {fw_test_step_path(out, 3), "step-00000003", false};
    fw_test_must(fw_mirror_target_init(&t, &o));
    fw_test_must(fw_mirror_target_meet(&t));
    fw_test_must(fw_mirror_target_copy(&t, &item, &work));
    char moved[FW_TEST_PATH_BYTES];
    snprintf(moved, sizeof moved, "%s", in_lab("elsewhere"));
    assert_int_equal(rename(to, moved), 0);
    fw_test_expect(fw_mirror_target_copy(&t, &item, &work), FW_ERR_IO, "is gone");
    assert_false(fw_dir_exists(to));
    fw_test_must(fw_dir_make(to)); /* where it was mounted */
    fw_test_expect(fw_mirror_target_copy(&t, &item, &work), FW_ERR_IO, "still mounted?");
    assert_int_equal(fw_test_count_entries(to), 0);
    fw_test_must(fw_dir_remove(to));
    assert_int_equal(rename(moved, to), 0);
    fw_test_must(fw_mirror_target_copy(&t, &item, &work));
    fw_mirror_target_fini(&t);
}

/* Copied whole although it is removed meanwhile; and not there any more. */
static void test_links(void **state) {
    (void)state;
    const char *out = in_lab("linked"), *kept = in_lab("kept");
    char *dir;
    bool held, gone;
    for (int step = 1; step <= 2; step++) fw_test_must(fw_test_save(out, step));
    fw_test_must(fw_test_save(kept, 1));
    fw_test_must(fw_mirror_links_make(&dir, &held, &gone, out, "step-00000001"));
    assert_true(held && !gone);
    const fw_checkpoint_rules rules = {.keep_n = 1};
    fw_test_must(fw_checkpoint_prune(out, &rules));
    assert_false(fw_dir_exists(fw_test_step_path(out, 1)));
    fw_test_must(fw_checkpoint_verify(dir, true));
    fw_free(dir);
    fw_test_must(fw_mirror_links_make(&dir, &held, &gone, out, "step-00000001"));
    assert_true(gone && dir == NULL);
    char **names;
    size_t name_n;
    fw_test_must(fw_dir_list(&names, &name_n, out));
    assert_int_equal(name_n, 1); /* step 2 alone: links are gone too */
    fw_dir_list_free(names, name_n);
}

/* A disk of its own that is too small, where this machine lets us make one. */
static void test_full_disk(void **state) {
    (void)state;
    const char *to = in_lab("small"), *out = in_lab("run");
    fw_test_must(fw_dir_make(to));
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", to, "tmpfs", 0, "size=64k") != 0) {
        print_message("no disk of its own can be made here: skipped\n");
        skip();
    }
    fw_status status = copy(out, to, 4, &plain);
    const bool named = fw_dir_exists(fw_test_step_path(to, 4));
    const int entry_n = fw_test_count_entries(to);
    assert_int_equal(umount(to), 0);
    fw_test_expect(status, FW_ERR_IO, "no space");
    assert_false(named);
    assert_int_equal(entry_n, 2); /* .lock, run.json */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies),      cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_damaged_source),
                                       cmocka_unit_test(test_folder_gone), cmocka_unit_test(test_links),
                                       cmocka_unit_test(test_full_disk)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
