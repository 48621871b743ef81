/* What is read later: the same values as what is read at once, whoever reads; every damage is found and the first is named; what
 * is not wanted any more is left. */
#include "base/alloc.h"
#include "store/checkpoint_later.h"
#include "support/checkpoint_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENT_N = 2, FLIP_N = 60 };

static float *flat[MOMENT_N];
static char out[FW_TEST_PATH_BYTES], one[FW_TEST_PATH_BYTES];
static fw_threads *threads;

static const fw_param_table *table(void) { return &fw_lab.model.table; }

static int setup(void **state) {
    fw_test_checkpoint_setup(state);
    fw_lab.place_n = 3;
    fw_test_scratch_make(out);
    fw_test_must(fw_test_save(out, 4));
    snprintf(one, sizeof one, "%s", fw_test_step_path(out, 4));
    for (int k = 0; k < MOMENT_N; k++) fw_test_must(FW_NEW_ARRAY(flat[k], (size_t)table()->total_n));
    fw_test_must(fw_threads_create(&threads, 3, NULL));
    return 0;
}

static int teardown(void **state) {
    fw_threads_destroy(threads);
    for (int k = 0; k < MOMENT_N; k++) fw_free(flat[k]);
    fw_test_scratch_remove(out);
    return fw_test_checkpoint_teardown(state);
}

static void forget(void) {
    for (int k = 0; k < MOMENT_N; k++) memset(flat[k], 0xff, (size_t)table()->total_n * sizeof(float));
}

/* Both moments of all units, each cut in two. */
static fw_status add_all(fw_checkpoint_later *l, const fw_checkpoint_files *files) {
    for (int k = 0; k < MOMENT_N; k++)
        for (int32_t unit = 0; unit < table()->unit_n; unit++) {
            const int64_t n = table()->unit_size_n[unit], half = n / 2 + 1;
            float *to = flat[k] + table()->unit_offset_n[unit];
            const fw_checkpoint_array array = (fw_checkpoint_array)(1 + k);
            FW_TRY(fw_checkpoint_later_add(l, files, array, unit, 0, half, to));
            FW_TRY(fw_checkpoint_later_add(l, files, array, unit, half, n - half, to + half));
        }
    return FW_OK;
}

static fw_status read_all(fw_threads *helpers) {
    fw_checkpoint_files files;
    fw_checkpoint_later later = {0};
    FW_TRY(fw_checkpoint_open(&files, one, table(), NULL));
    forget();
    fw_status status = add_all(&later, &files);
    if (status == FW_OK) {
        assert_false(fw_checkpoint_later_is_started(&later));
        fw_checkpoint_later_start(&later, threads);
        assert_true(fw_checkpoint_later_is_started(&later));
        status = fw_checkpoint_later_finish(&later, helpers);
    } else {
        fw_checkpoint_later_stop(&later);
    }
    assert_false(fw_checkpoint_later_is_started(&later));
    fw_checkpoint_close(&files);
    return status;
}

static void must_be_there(void) {
    float *now;
    fw_checkpoint_files files;
    fw_test_must(FW_NEW_ARRAY(now, (size_t)table()->total_n));
    fw_test_must(fw_checkpoint_open(&files, one, table(), NULL));
    for (int k = 0; k < MOMENT_N; k++) {
        fw_test_must(fw_test_load_array(&files, (fw_checkpoint_array)(1 + k), now));
        assert_memory_equal(now, flat[k], (size_t)table()->total_n * sizeof(float));
    }
    fw_checkpoint_close(&files);
    fw_free(now);
}

static void test_the_same(void **unused) {
    (void)unused;
    fw_test_must(read_all(NULL)); /* the caller helps */
    must_be_there();
    fw_test_must(read_all(threads));
    must_be_there();
    fw_checkpoint_later nothing = {0};
    fw_checkpoint_later_stop(&nothing);
    fw_checkpoint_later_start(&nothing, NULL);
    fw_test_must(fw_checkpoint_later_finish(&nothing, threads));
}

/* Bits of the moments flipped at places drawn with seed 3, one or two at a time: what is said is what is said at once. */
static void test_damage(void **unused) {
    (void)unused;
    fw_checkpoint_files files;
    char said[1024];
    srand(3);
    for (int i = 0; i < FLIP_N; i++) {
        char path[2][FW_TEST_PATH_BYTES];
        uint64_t at[2];
        const int n = 1 + i % 2;
        fw_test_must(fw_checkpoint_open(&files, one, table(), NULL));
        for (int k = 0; k < n; k++) {
            const fw_param *p = &table()->param[rand() % table()->param_n];
            const fw_manifest_tensor *t =
                files.wanted[(p - table()->param) * FW_CHECKPOINT_ARRAYS_MAX + 1 + rand() % 2];
            const fw_manifest_piece *piece = &t->piece[(size_t)rand() % t->piece_n];
            snprintf(path[k], sizeof path[k], "%s", files.file[piece->file].path);
            at[k] = piece->start_bytes + (uint64_t)rand() % ((uint64_t)piece->box.n * sizeof(float));
            fw_test_flip_bit(path[k], at[k]);
        }
        fw_checkpoint_close(&files);
        const bool undone = n == 2 && at[0] == at[1] && strcmp(path[0], path[1]) == 0;
        fw_status status = read_all(i % 3 == 0 ? NULL : threads);
        snprintf(said, sizeof said, "%s", fw_trail_message());
        if (!undone) {
            assert_int_equal(status, FW_ERR_INPUT);
            fw_checkpoint_later later = {0};
            fw_test_must(fw_checkpoint_open(&files, one, table(), NULL));
            fw_test_must(add_all(&later, &files));
            fw_test_expect(fw_blocks_read(&later.blocks, NULL), FW_ERR_INPUT, said);
            fw_checkpoint_later_stop(&later);
            fw_checkpoint_close(&files);
        }
        for (int k = 0; k < n; k++) fw_test_flip_bit(path[k], at[k]);
    }
    fw_test_must(read_all(threads));
    must_be_there();
}

/* Stopped at any moment, with what is damaged too; the files may be closed then. */
static void test_stopped(void **unused) {
    (void)unused;
    for (int i = 0; i < 40; i++) {
        fw_checkpoint_files files;
        fw_checkpoint_later later = {0};
        fw_test_must(fw_checkpoint_open(&files, one, table(), NULL));
        fw_test_must(add_all(&later, &files));
        if (i > 0) fw_checkpoint_later_start(&later, threads);
        fw_checkpoint_later_stop(&later);
        fw_checkpoint_later_stop(&later);
        fw_checkpoint_close(&files);
        memset(flat[0], 0, (size_t)table()->total_n * sizeof(float)); /* nobody writes to it any more */
    }
}

static void test_no_memory(void **unused) {
    (void)unused;
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n += n < 64 ? 1 : 7) {
        fw_alloc_fail_at(n);
        status = read_all(threads);
        fw_alloc_fail_at(0);
        if (status != FW_OK) assert_int_equal(status, FW_ERR_NOMEM);
    }
    must_be_there();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same), cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_stopped), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
