/* Checkpoints: back bit by bit, damage found and passed over, nothing half-written. */
#include "base/alloc.h"
#include "base/file.h"
#include "store/manifest.h"
#include "store/run_folder.h"
#include "store/stale.h"
#include "support/checkpoint_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_names(const char *dir) {
    char **names;
    size_t name_n;
    fw_test_must(fw_dir_list(&names, &name_n, dir));
    fw_dir_list_free(names, name_n);
    return (int)name_n;
}

/* Elements of the table are the same bits, padding is zero. */
static void compare(const float *got, const float *want) {
    float *expected;
    fw_test_must(FW_NEW_ARRAY(expected, (size_t)fw_lab.model.table.total_n));
    for (int32_t i = 0; i < fw_lab.model.table.param_n; i++) {
        const fw_param *p = &fw_lab.model.table.param[i];
        int64_t at = fw_lab.model.table.unit_offset_n[p->unit] + p->offset_n;
        memcpy(expected + at, want + at, (size_t)p->n * sizeof *want);
    }
    assert_memory_equal(got, expected, (size_t)fw_lab.model.table.total_n * sizeof *got);
    fw_free(expected);
}

static void test_round_trip(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "round");
    fw_checkpoint_state state = {.step = 50,
                                 .optimizer_step = 49,
                                 .epoch = 0.1,
                                 .epoch_i = 1,
                                 .position = 17,
                                 .seed = UINT64_MAX,
                                 .data_seed = 7,
                                 .world_size = 2,
                                 .data_hash = 0x8123456789abcdefu};
    state.metrics = json_pack("{s:i}", "best", 3);
    char *path;
    fw_test_must(
        fw_checkpoint_save(&path, out, fw_lab.source, &fw_lab.model.table, 3, fw_test_from_memory, NULL, &state));
    json_decref(state.metrics);
    assert_string_equal(path, fw_test_step_path(out, 50));
    fw_test_must(fw_checkpoint_verify(path, true));
    float *block;
    fw_test_must(FW_NEW_ARRAY(block, (size_t)(3 * fw_lab.model.table.total_n)));
    memset(block, 0x55, (size_t)(3 * fw_lab.model.table.total_n) * sizeof *block);
    fw_checkpoint_files files;
    fw_checkpoint_state found;
    fw_test_must(fw_checkpoint_open(&files, path, &fw_lab.model.table, &found));
    const float *want[] = {fw_lab.model.flat, fw_lab.moment[0], fw_lab.moment[1]};
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++) {
        float *got = block + k * fw_lab.model.table.total_n;
        fw_test_must(fw_test_load_array(&files, (fw_checkpoint_array)k, got));
        compare(got, want[k]);
    }
    fw_checkpoint_close(&files);
    assert_true(found.step == 50 && found.optimizer_step == 49 && found.epoch_i == 1 && found.position == 17);
    assert_true(found.seed == UINT64_MAX && found.data_seed == 7 && found.data_hash == state.data_hash);
    assert_true(found.world_size == 2 && found.epoch == 0.1);
    assert_int_equal(json_integer_value(json_object_get(found.metrics, "best")), 3);
    fw_checkpoint_state_fini(&found);
    fw_free(block);
    fw_free(path);
    assert_int_equal(fw_test_count_entries(out), 1 + count_names(fw_test_step_path(out, 50)));
}

/* B21, B26: a bit flipped in any file, a file cut, a file gone: named, and the checkpoint before is taken. */
static void damage(const char *name, int kind) {
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    fw_test_must(fw_test_save(out, 40));
    fw_test_must(fw_test_save(out, 50));
    const char *victim = fw_test_path(fw_test_step_path(out, 50), name);
    uint64_t bytes = fw_test_file_bytes(victim);
    if (kind == 0) fw_test_flip_bit(victim, bytes / 2);
    if (kind == 1) fw_test_resize(victim, bytes - 2);
    if (kind == 2) fw_test_must(fw_dir_remove(victim));
    fw_test_expect(fw_checkpoint_verify(fw_test_step_path(out, 50), true), FW_ERR_INPUT, name);
    fw_lab.warnings[0] = 0;
    char *newest;
    fw_test_must(fw_test_load_newest(&newest, out));
    assert_string_equal(newest, fw_test_step_path(out, 40));
    assert_non_null(strstr(fw_lab.warnings, name));
    fw_free(newest);
    if (kind > 0) { /* size or absence is noticed without reading the bytes */
        fw_checkpoint_files files;
        fw_test_expect(fw_checkpoint_open(&files, fw_test_step_path(out, 50), &fw_lab.model.table, NULL), FW_ERR_INPUT,
                       name);
    }
    fw_test_scratch_remove(out);
}

static void test_damage(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "sound");
    fw_test_must(fw_test_save(out, 1));
    char **names;
    size_t name_n;
    fw_test_must(fw_dir_list(&names, &name_n, fw_test_step_path(out, 1)));
    assert_true(name_n > 4); /* two ranks, config.json, tokenizer.json, manifest.json */
    for (int kind = 0; kind < 3; kind++)
        for (size_t f = 0; f < name_n; f++) damage(names[f], kind);
    fw_dir_list_free(names, name_n);
}

static void test_other_model(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "other"), *other = fw_test_path(fw_lab.root, "othermodel");
    fw_test_must(fw_test_save(out, 1));
    fw_test_must(fw_test_write_model(other, "qwen2_untied", 0));
    fw_test_memory_model m;
    fw_test_must(fw_test_memory_model_init(&m, other));
    fw_checkpoint_files files;
    fw_test_expect(fw_checkpoint_open(&files, fw_test_step_path(out, 1), &m.table, NULL), FW_ERR_INPUT,
                   "of another model");
    fw_test_memory_model_fini(&m);
    fw_test_expect(fw_checkpoint_open(&files, fw_lab.source, &fw_lab.model.table, NULL), FW_ERR_INPUT,
                   "not a complete checkpoint");
}

static void test_list_and_prune(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "list");
    char *newest;
    fw_test_must(fw_test_load_newest(&newest, out)); /* no folder yet */
    assert_null(newest);
    fw_test_must(fw_checkpoint_prune(out, &(fw_checkpoint_rules){.keep_n = 2}));
    for (int step = 10; step <= 50; step += 10) fw_test_must(fw_test_save(out, step));
    fw_test_must(fw_test_save(out, 50)); /* again: replaced */
    fw_test_must(fw_dir_make(fw_test_path(out, ".tmp-step-00000060-1")));
    fw_test_must(fw_dir_make(fw_test_path(out, "step-00000070"))); /* torn: no manifest */
    fw_test_must(fw_dir_make(fw_test_path(out, "step-7x")));
    fw_test_must(fw_dir_make(fw_test_path(out, "step-99999999999999999999999")));
    fw_lab.warnings[0] = 0;
    fw_checkpoint_list list;
    fw_test_must(fw_checkpoint_list_init(&list, out));
    assert_int_equal(list.entry_n, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(list.entry[i].step, 10 * (i + 1));
    fw_checkpoint_list_fini(&list);
    assert_non_null(strstr(fw_lab.warnings, "step-00000070"));
    fw_test_must(fw_checkpoint_prune(out, &(fw_checkpoint_rules){.keep_n = 0}));
    assert_true(fw_dir_exists(fw_test_step_path(out, 10)));
    assert_true(fw_dir_exists(fw_test_path(out, ".tmp-step-00000060-1")));       /* that is stale.h's */
    fw_test_resize(fw_test_path(fw_test_step_path(out, 50), "config.json"), 10); /* B23: damaged: does not count */
    fw_test_must(fw_checkpoint_prune(out, &(fw_checkpoint_rules){.keep_n = 2}));
    assert_false(fw_dir_exists(fw_test_step_path(out, 20)));
    assert_true(fw_dir_exists(fw_test_step_path(out, 30)) && fw_dir_exists(fw_test_step_path(out, 40)));
    fw_test_must(fw_test_load_newest(&newest, out));
    assert_string_equal(newest, fw_test_step_path(out, 40));
    fw_free(newest);
    /* a run that goes on from 30: what came after it never counts again */
    fw_lab.warnings[0] = 0;
    fw_test_must(fw_checkpoint_set_aside_after(out, 30));
    assert_non_null(strstr(fw_lab.warnings, "set-aside-step-00000040"));
    assert_true(fw_dir_exists(fw_test_path(out, "set-aside-step-00000050")));
    fw_test_must(fw_test_save(out, 35));
    fw_test_must(fw_test_load_newest(&newest, out));
    assert_string_equal(newest, fw_test_step_path(out, 35));
    fw_free(newest);
    fw_test_must(fw_dir_make(fw_test_path(out, "step-00000036")));
    fw_test_write(fw_test_path(fw_test_step_path(out, 36), "x"), "", 0);
    fw_test_must(fw_dir_remove(fw_test_step_path(out, 36)));
    rename(fw_test_step_path(out, 35), fw_test_step_path(out, 36)); /* a copy under another number */
    fw_lab.warnings[0] = 0;
    fw_test_must(fw_test_load_newest(&newest, out));
    assert_string_equal(newest, fw_test_step_path(out, 30));
    assert_non_null(strstr(fw_lab.warnings, "manifest is that of step 35"));
    fw_free(newest);
}

/* The disk fills up at the n-th write, the n-th allocation or sync fails: the checkpoint that was there stays good. */
static void test_faults(void **unused) {
    (void)unused;
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    fw_test_must(fw_test_save(out, 5));
    int entries = fw_test_count_entries(out), failures[3] = {0};
    for (int kind = 0; kind < 3; kind++, entries = fw_test_count_entries(out))
        for (uint64_t n = 1;; n++) {
            if (kind == 0)
                fw_file_fail_write_at(n);
            else if (kind == 1)
                fw_alloc_fail_at(n);
            else
                fw_file_fail_sync_at(n);
            fw_status status = fw_test_save(out, 5 + kind);
            fw_file_fail_write_at(0);
            fw_file_fail_sync_at(0);
            fw_alloc_fail_at(0);
            if (status == FW_OK) break;
            failures[kind]++;
            if (status != (kind != 1 ? FW_ERR_IO : FW_ERR_NOMEM)) fail_msg("%d: %s", (int)n, fw_trail_message());
            if (kind == 2 && fw_dir_exists(fw_test_step_path(out, 7))) { /* the last: the folder that holds it */
                fw_test_must(fw_checkpoint_verify(fw_test_step_path(out, 7), true));
                fw_test_must(fw_dir_remove(fw_test_step_path(out, 7)));
            }
            assert_int_equal(fw_test_count_entries(out), entries);
            fw_test_must(fw_checkpoint_verify(fw_test_step_path(out, 5), true));
            if (kind == 1 && n > 200) n += 12;
        }
    if (failures[0] < 5 || failures[1] < 50 || failures[2] < 10)
        fail_msg("%d writes, %d allocations, %d syncs", failures[0], failures[1], failures[2]);
    uint64_t n = 1;
    for (;; n++) { /* reading back */
        float *block;
        fw_test_must(FW_NEW_ARRAY(block, (size_t)fw_lab.model.table.total_n));
        fw_checkpoint_files files = {0};
        fw_checkpoint_state state;
        fw_alloc_fail_at(n);
        char *newest = NULL;
        fw_status status = fw_test_load_newest(&newest, out);
        if (status == FW_OK) status = fw_checkpoint_open(&files, newest, &fw_lab.model.table, &state);
        if (status == FW_OK) status = fw_test_load_array(&files, FW_CHECKPOINT_WEIGHT, block);
        fw_alloc_fail_at(0);
        fw_checkpoint_close(&files);
        fw_free(newest);
        fw_free(block);
        if (status == FW_OK) {
            fw_checkpoint_state_fini(&state);
            break;
        }
        if (status != FW_ERR_NOMEM) fail_msg("%d: %s", (int)n, fw_trail_message());
        if (n > 200) n += 10;
    }
    assert_true(n > 100);
    fw_test_scratch_remove(out);
    int64_t parameters = fw_lab.model.table.parameter_n;
    fw_lab.model.table.parameter_n = INT64_C(1) << 54;
    fw_test_expect(fw_test_save(fw_test_path(fw_lab.root, "full"), 1), FW_ERR_IO, "no space for");
    fw_lab.model.table.parameter_n = parameters;
    assert_false(fw_dir_exists(fw_test_path(fw_lab.root, "full")));
}

/* Killed at any fw_lab.moment of a save, also of one that replaces: what is there under its name is whole. */
static void test_killed(void **unused) {
    (void)unused;
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    fw_test_must(fw_test_save(out, 10));
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                if (fw_test_save(out, 20) != FW_OK) _exit(1);
        usleep((useconds_t)(1500 * i));
        kill(child, SIGKILL);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result)); /* no save has failed */
        char *newest;
        fw_lab.warnings[0] = 0;
        fw_test_must(fw_test_load_newest(&newest, out));
        assert_non_null(newest);
        assert_string_equal(fw_lab.warnings, "");
        fw_free(newest);
    }
    fw_test_must(fw_test_save(out, 30));
    fw_test_must(fw_checkpoint_prune(out, &(fw_checkpoint_rules){.keep_n = 1}));
    fw_output_lock lock;
    fw_test_must(fw_output_lock_take(&lock, out)); /* what a new run does: all that was half-written goes */
    fw_test_must(fw_stale_remove(out, &lock));
    fw_output_lock_release(&lock);
    char **names;
    size_t name_n;
    fw_test_must(fw_dir_list(&names, &name_n, out));
    assert_int_equal(name_n, 2);
    assert_string_equal(names[0], ".lock");
    assert_string_equal(names[1], "step-00000030");
    fw_dir_list_free(names, name_n);
    fw_test_scratch_remove(out);
}

static void test_manifest_texts(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "not valid JSON"},
        {"[]", "not the manifest of a checkpoint"},
        {"{\"format\": \"other\"}", "not the manifest of a checkpoint"},
        {"{\"format\": \"finewire-checkpoint\"}", "\"format_version\" is missing"},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 4}", "does not end with \"manifest_xxh64\""},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 3}", "does not end with \"manifest_xxh64\""},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 1}", "of a finewire before 0.1.0"},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 3, \"manifest_xxh64\": \"0123456789abcdef\"\n}\n",
         "the manifest is damaged: its checksum is"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *m;
        fw_test_expect(fw_manifest_parse(&m, bad[i].text, strlen(bad[i].text), "manifest.json"), FW_ERR_INPUT,
                       bad[i].message);
        assert_null(m);
    }
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    json_t *m = json_pack("{s:s, s:i}", "format", "finewire-checkpoint", "format_version", 4);
    fw_test_must(fw_manifest_save(m, out)); /* whole, and of a newer finewire: no damage */
    json_decref(m);
    fw_test_expect(fw_manifest_load(&m, out), FW_ERR_OPTION, "use a newer finewire");
    m = json_pack("{s:s, s:i, s:{s:{s:i, s:s}}}", "format", "finewire-checkpoint", "format_version", 3, "files", "../x",
                  "bytes", 1, "xxh64", "0123456789abcdef");
    fw_test_must(fw_manifest_save(m, out)); /* checksum right, but a file outside of the folder */
    json_decref(m);
    fw_test_expect(fw_manifest_load(&m, out), FW_ERR_INPUT, "not a plain name");
    fw_test_scratch_remove(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_damage), cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_list_and_prune), cmocka_unit_test(test_faults), cmocka_unit_test(test_manifest_texts),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, fw_test_checkpoint_setup, fw_test_checkpoint_teardown);
}
