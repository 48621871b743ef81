/* Checkpoints: back bit by bit, damage found and passed over, nothing half-written, one run a folder. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint.h"
#include "store/manifest.h"
#include "store/model_folder.h"
#include "store/run_folder.h"
#include "store/stale.h"
#include "support/scratch.h"
#include "support/store_model.h"
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

static char root[FW_TEST_PATH_BYTES], source[FW_TEST_PATH_BYTES + 8];
static fw_test_memory_model model;
static float *moment[2];
static char warnings[8192];

static void collect(fw_log_level level, const char *line, void *context) {
    (void)context;
    if (level != FW_LOG_WARNING) return;
    size_t used = strlen(warnings);
    snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    snprintf(source, sizeof source, "%s/source", root);
    must(fw_test_write_model(source, "qwen2_tied", 0));
    fw_test_write(fw_test_path(source, "tokenizer.json"), "{\"version\": \"1.0\"}", 18);
    must(fw_test_memory_model_init(&model, source));
    for (int k = 0; k < 2; k++) {
        must(FW_NEW_ARRAY(moment[k], (size_t)model.table.total_n));
        for (int64_t i = 0; i < model.table.total_n; i++) moment[k][i] = (float)(i % 977) * 1e-9f * (float)(k + 1);
    }
    fw_log_set_sink(collect, NULL, FW_LOG_DEBUG);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_log_set_sink(NULL, NULL, FW_LOG_ERROR);
    fw_test_memory_model_fini(&model);
    fw_free(moment[0]);
    fw_free(moment[1]);
    fw_test_scratch_remove(root);
    return 0;
}

static fw_status save(const char *out, int64_t step) {
    fw_checkpoint_arrays arrays = {model.flat, moment[0], moment[1]};
    fw_checkpoint_state state = {.step = step,
                                 .optimizer_step = step,
                                 .epoch = 0.1,
                                 .epoch_i = 1,
                                 .position = 17,
                                 .seed = UINT64_MAX,
                                 .data_seed = 7,
                                 .world_size = 2,
                                 .data_hash = 0x8123456789abcdefu};
    json_t *options = json_pack("{s:f, s:s}", "learning_rate", 1e-5, "lr_scheduler_type", "cosine");
    state.options = options;
    fw_status status = options == NULL ? fw_fail(FW_ERR_NOMEM, "test")
                                       : fw_checkpoint_save(NULL, out, source, &model.table, &arrays, &state);
    json_decref(options);
    return status;
}

/* Elements of the table are the same bits, padding is zero. */
static void compare(const float *got, const float *want) {
    float *expected;
    must(FW_NEW_ARRAY(expected, (size_t)model.table.total_n));
    for (int32_t i = 0; i < model.table.param_n; i++) {
        const fw_param *p = &model.table.param[i];
        int64_t at = model.table.unit_offset_n[p->unit] + p->offset_n;
        memcpy(expected + at, want + at, (size_t)p->n * sizeof *want);
    }
    assert_memory_equal(got, expected, (size_t)model.table.total_n * sizeof *got);
    fw_free(expected);
}

static const char *step_path(const char *out, int step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return fw_test_path(out, name);
}

static void test_round_trip(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "round");
    fw_checkpoint_arrays arrays = {model.flat, moment[0], moment[1]};
    fw_checkpoint_state state = {.step = 50,
                                 .optimizer_step = 49,
                                 .epoch = 0.1,
                                 .epoch_i = 1,
                                 .position = 17,
                                 .seed = UINT64_MAX,
                                 .data_seed = 7,
                                 .world_size = 2,
                                 .data_hash = 0x8123456789abcdefu};
    state.extra = json_pack("{s:i}", "best", 3);
    char *path;
    must(fw_checkpoint_save(&path, out, source, &model.table, &arrays, &state));
    json_decref(state.extra);
    assert_string_equal(path, step_path(out, 50));
    must(fw_checkpoint_verify(path));
    fw_checkpoint_arrays back;
    float *block;
    must(FW_NEW_ARRAY(block, (size_t)(3 * model.table.total_n)));
    memset(block, 0x55, (size_t)(3 * model.table.total_n) * sizeof *block);
    back = (fw_checkpoint_arrays){block, block + model.table.total_n, block + 2 * model.table.total_n};
    fw_checkpoint_state found;
    must(fw_checkpoint_load(path, &model.table, &back, &found));
    compare(back.weight, model.flat);
    compare(back.exp_avg, moment[0]);
    compare(back.exp_avg_sq, moment[1]);
    assert_true(found.step == 50 && found.optimizer_step == 49 && found.epoch_i == 1 && found.position == 17);
    assert_true(found.seed == UINT64_MAX && found.data_seed == 7 && found.data_hash == state.data_hash);
    assert_true(found.world_size == 2 && found.epoch == 0.1);
    assert_int_equal(json_integer_value(json_object_get(found.extra, "best")), 3);
    fw_checkpoint_state_fini(&found);
    fw_free(block);
    /* it is a model folder as well */
    fw_model_folder folder;
    must(fw_model_folder_open(&folder, path));
    must(fw_model_folder_check(&folder, &model.table, &model.config));
    fw_model_folder_close(&folder);
    fw_free(path);
    assert_int_equal(fw_test_count_entries(out), 7);
}

/* B21, B26: a bit flipped in any file, a file cut, a file gone: named, and the checkpoint before is taken. */
static void test_damage(void **unused) {
    (void)unused;
    const char *names[] = {"model.safetensors", "exp_avg.safetensors", "exp_avg_sq.safetensors",
                           "config.json",       "tokenizer.json",      "manifest.json"};
    for (int kind = 0; kind < 3; kind++)
        for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
            char out[FW_TEST_PATH_BYTES];
            fw_test_scratch_make(out);
            must(save(out, 40));
            must(save(out, 50));
            const char *victim = fw_test_path(step_path(out, 50), names[f]);
            uint64_t bytes = fw_test_file_bytes(victim);
            if (kind == 0) fw_test_flip_bit(victim, bytes / 2);
            if (kind == 1) fw_test_resize(victim, bytes - 2);
            if (kind == 2) must(fw_dir_remove(victim));
            expect_message(fw_checkpoint_verify(step_path(out, 50)), FW_ERR_INPUT, names[f]);
            warnings[0] = 0;
            char *newest;
            must(fw_checkpoint_newest(&newest, out));
            assert_string_equal(newest, step_path(out, 40));
            assert_non_null(strstr(warnings, names[f]));
            fw_free(newest);
            if (kind > 0) { /* size or absence is noticed without reading the bytes */
                fw_checkpoint_arrays none = {0};
                expect_message(fw_checkpoint_load(step_path(out, 50), &model.table, &none, NULL), FW_ERR_INPUT,
                               names[f]);
            }
            fw_test_scratch_remove(out);
        }
}

static void test_other_model(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "other"), *other = fw_test_path(root, "othermodel");
    must(save(out, 1));
    must(fw_test_write_model(other, "qwen2_untied", 0));
    fw_test_memory_model m;
    must(fw_test_memory_model_init(&m, other));
    fw_checkpoint_arrays arrays = {m.flat, NULL, NULL};
    expect_message(fw_checkpoint_load(step_path(out, 1), &m.table, &arrays, NULL), FW_ERR_INPUT, "of another model");
    fw_test_memory_model_fini(&m);
    expect_message(fw_checkpoint_load(source, &model.table, &arrays, NULL), FW_ERR_INPUT, "not a complete checkpoint");
}

static void test_list_and_prune(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "list");
    char *newest;
    must(fw_checkpoint_newest(&newest, out)); /* no folder yet */
    assert_null(newest);
    must(fw_checkpoint_prune(out, 2));
    for (int step = 10; step <= 50; step += 10) must(save(out, step));
    must(save(out, 50)); /* again: replaced */
    must(fw_dir_make(fw_test_path(out, ".tmp-step-00000060-1")));
    must(fw_dir_make(fw_test_path(out, "step-00000070"))); /* torn: no manifest */
    must(fw_dir_make(fw_test_path(out, "step-7x")));
    must(fw_dir_make(fw_test_path(out, "step-99999999999999999999999")));
    warnings[0] = 0;
    fw_checkpoint_list list;
    must(fw_checkpoint_list_init(&list, out));
    assert_int_equal(list.entry_n, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(list.entry[i].step, 10 * (i + 1));
    fw_checkpoint_list_fini(&list);
    assert_non_null(strstr(warnings, "step-00000070"));
    must(fw_checkpoint_prune(out, 0));
    assert_true(fw_dir_exists(step_path(out, 10)));
    assert_true(fw_dir_exists(fw_test_path(out, ".tmp-step-00000060-1")));       /* not of this list: see test_stale */
    fw_test_resize(fw_test_path(step_path(out, 50), "exp_avg.safetensors"), 10); /* B23: damaged: does not count */
    must(fw_checkpoint_prune(out, 2));
    assert_false(fw_dir_exists(step_path(out, 20)));
    assert_true(fw_dir_exists(step_path(out, 30)) && fw_dir_exists(step_path(out, 40)));
    must(fw_checkpoint_newest(&newest, out));
    assert_string_equal(newest, step_path(out, 40));
    fw_free(newest);
    /* a run that goes on from 30: what came after it never counts again */
    warnings[0] = 0;
    must(fw_checkpoint_set_aside_after(out, 30));
    assert_non_null(strstr(warnings, "set-aside-step-00000040"));
    assert_true(fw_dir_exists(fw_test_path(out, "set-aside-step-00000050")));
    must(save(out, 35));
    must(fw_checkpoint_newest(&newest, out));
    assert_string_equal(newest, step_path(out, 35));
    fw_free(newest);
    must(fw_dir_make(fw_test_path(out, "step-00000036")));
    fw_test_write(fw_test_path(step_path(out, 36), "x"), "", 0);
    must(fw_dir_remove(step_path(out, 36)));
    rename(step_path(out, 35), step_path(out, 36)); /* a copy under another number */
    warnings[0] = 0;
    must(fw_checkpoint_newest(&newest, out));
    assert_string_equal(newest, step_path(out, 30));
    assert_non_null(strstr(warnings, "manifest is that of step 35"));
    fw_free(newest);
}

/* The disk fills up at the n-th write, or the n-th allocation fails: the checkpoint that was there stays good. */
static void test_faults(void **unused) {
    (void)unused;
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    must(save(out, 5));
    int entries = fw_test_count_entries(out), failures[2] = {0, 0};
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t n = 1;; n++) {
            if (kind == 0)
                fw_file_fail_write_at(n);
            else
                fw_alloc_fail_at(n);
            fw_status status = save(out, 5 + kind);
            fw_file_fail_write_at(0);
            fw_alloc_fail_at(0);
            if (status == FW_OK) break;
            failures[kind]++;
            if (status != (kind == 0 ? FW_ERR_IO : FW_ERR_NOMEM)) fail_msg("%d: %s", (int)n, fw_trail_message());
            assert_int_equal(fw_test_count_entries(out), entries);
            must(fw_checkpoint_verify(step_path(out, 5)));
            if (kind == 1 && n > 200) n += 12;
        }
    if (failures[0] < 5 || failures[1] < 50) fail_msg("%d writes, %d allocations", failures[0], failures[1]);
    uint64_t n = 1;
    for (;; n++) { /* reading back */
        float *block;
        must(FW_NEW_ARRAY(block, (size_t)model.table.total_n));
        fw_checkpoint_arrays arrays = {block, NULL, NULL};
        fw_checkpoint_state state;
        fw_alloc_fail_at(n);
        char *newest = NULL;
        fw_status status = fw_checkpoint_newest(&newest, out);
        if (status == FW_OK) status = fw_checkpoint_load(newest, &model.table, &arrays, &state);
        fw_alloc_fail_at(0);
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
    int64_t parameters = model.table.parameter_n;
    model.table.parameter_n = INT64_C(1) << 54;
    expect_message(save(fw_test_path(root, "full"), 1), FW_ERR_IO, "no space for");
    model.table.parameter_n = parameters;
    assert_false(fw_dir_exists(fw_test_path(root, "full")));
}

/* Killed at any moment of a save, also of one that replaces: what is there under its name is whole. */
static void test_killed(void **unused) {
    (void)unused;
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    must(save(out, 10));
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                if (save(out, 20) != FW_OK) _exit(1);
        usleep((useconds_t)(1500 * i));
        kill(child, SIGKILL);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result)); /* no save has failed */
        char *newest;
        warnings[0] = 0;
        must(fw_checkpoint_newest(&newest, out));
        assert_non_null(newest);
        assert_string_equal(warnings, "");
        fw_free(newest);
    }
    must(save(out, 30));
    must(fw_checkpoint_prune(out, 1));
    fw_output_lock lock;
    must(fw_output_lock_take(&lock, out)); /* what a new run does: all that was half-written goes */
    must(fw_stale_remove(out, &lock));
    fw_output_lock_release(&lock);
    char **names;
    size_t name_n;
    must(fw_dir_list(&names, &name_n, out));
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
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 2}", "use a newer finewire"},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 1}", "\"manifest_xxh64\" must be 16"},
        {"{\"format\": \"finewire-checkpoint\", \"format_version\": 1, \"manifest_xxh64\": \"0123456789abcdef\"}",
         "the manifest is damaged"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *m;
        expect_message(fw_manifest_parse(&m, bad[i].text, strlen(bad[i].text), "manifest.json"), FW_ERR_INPUT,
                       bad[i].message);
        assert_null(m);
    }
    char out[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(out);
    json_t *m = json_pack("{s:s, s:i, s:{s:{s:i, s:s}}}", "format", "finewire-checkpoint", "format_version", 1, "files",
                          "../x", "bytes", 1, "xxh64", "0123456789abcdef");
    must(fw_manifest_save(m, out)); /* checksum right, but a file outside of the folder */
    json_decref(m);
    expect_message(fw_manifest_load(&m, out), FW_ERR_INPUT, "not a plain name");
    fw_test_scratch_remove(out);
}

static void test_lock(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "locked");
    fw_output_lock lock;
    must(fw_output_lock_take(&lock, out));
    pid_t child = fork();
    if (child == 0) { /* another process, which does not share our lock */
        fw_output_lock second;
        fw_status status = fw_output_lock_take(&second, out);
        char want[64];
        snprintf(want, sizeof want, "(process %ld)", (long)getppid());
        _exit(status == FW_ERR_OPTION && second.fd == -1 && strstr(fw_trail_message(), want) != NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    fw_output_lock_release(&lock);
    must(fw_output_lock_take(&lock, out));
    fw_output_lock_release(&lock);
    fw_output_lock_release(&lock);
}

static void test_run_identity(void **unused) {
    (void)unused;
    const char *out = fw_test_path(root, "run");
    json_t *one = json_pack("{s:s, s:i, s:i}", "model", "a", "seed", 1, "gone", 5);
    json_t *two = json_pack("{s:s, s:i, s:b}", "model", "b", "seed", 1, "new", 1);
    must(fw_run_begin(out, one, FW_RUN_FRESH));
    expect_message(fw_run_begin(out, one, FW_RUN_FRESH), FW_ERR_OPTION, "holds another run (run.json)");
    must(fw_run_begin(out, one, FW_RUN_RESUME));
    expect_message(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "model was \"a\" and is \"b\"");
    expect_message(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "gone was 5 and is not set");
    expect_message(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "new was not set and is true");
    must(save(out, 10));
    fw_test_write(fw_test_path(out, "mine.txt"), "x", 1);
    must(fw_run_begin(out, two, FW_RUN_OVERWRITE));
    assert_false(fw_dir_exists(step_path(out, 10)));
    assert_true(fw_file_exists(fw_test_path(out, "mine.txt"))); /* what is not a run's stays */
    must(fw_run_begin(out, two, FW_RUN_RESUME));
    must(fw_dir_remove(fw_test_path(out, "run.json")));
    must(save(out, 10));
    expect_message(fw_run_begin(out, two, FW_RUN_FRESH), FW_ERR_OPTION, "holds another run (step-00000010)");
    fw_test_write(fw_test_path(out, "run.json"), "[1]", 3);
    expect_message(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_INPUT, "not a JSON object");
    json_decref(one);
    json_decref(two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_damage),       cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_list_and_prune), cmocka_unit_test(test_faults),       cmocka_unit_test(test_lock),
        cmocka_unit_test(test_manifest_texts), cmocka_unit_test(test_run_identity), cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
