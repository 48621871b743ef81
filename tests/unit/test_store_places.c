/* B28: ranks of two machines whose output folders have one name but are not one folder: saving says which file is not seen and
 * who wrote it, and nothing gets a checkpoint's name; what was put together by half is named when it is loaded. */
#include "base/alloc.h"
#include "base/file.h"
#include "support/checkpoint_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { PLACE_N = 2 };

/* Each writer's part in a folder of its own. */
static void test_saving(void **unused) {
    (void)unused;
    const char *here = fw_test_path(fw_lab.root, "here"), *there = fw_test_path(fw_lab.root, "there");
    const fw_param_table *table = &fw_lab.model.table;
    fw_checkpoint_state state = {.step = 7, .optimizer_step = 7, .world_size = PLACE_N, .strategy = "zero3"};
    fw_checkpoint_range *range;
    json_t *part[PLACE_N] = {0};
    fw_checkpoint_writer w;
    fw_test_must(fw_dir_make(here));
    fw_test_must(fw_dir_make(there));
    fw_test_must(FW_NEW_ARRAY(range, (size_t)table->unit_n));
    fw_test_must(fw_checkpoint_begin(&w, here, fw_lab.source, table, FW_OPTIMIZER_ADAMW, state.step, PLACE_N));
    fw_test_must(fw_checkpoint_write_small_files(&w, fw_lab.source));
    for (int i = 0; i < PLACE_N; i++) {
        fw_checkpoint_even_ranges(range, table, i, PLACE_N);
        const fw_checkpoint_share share = {i, PLACE_N, range, fw_test_from_memory, NULL, NULL, FW_OPTIMIZER_ADAMW};
        fw_test_must(fw_checkpoint_write_part(&part[i], i == 0 ? w.staged.path_tmp : there, table, &share));
    }
    fw_status status = fw_checkpoint_commit(&w, table, part, PLACE_N, &state);
    fw_test_expect(status, FW_ERR_IO, "shard-00002-model-00001-of-");
    fw_test_expect(status, FW_ERR_IO, "which writer 2 of 2 has written");
    fw_test_expect(status, FW_ERR_IO, "all ranks must write to the same file system");
    fw_checkpoint_writer_close(&w);
    assert_int_equal(fw_test_count_entries(here), 0);
    for (int i = 0; i < PLACE_N; i++) json_decref(part[i]);
    fw_free(range);
}

/* The folder of the first machine, without what the second one wrote. */
static void test_loading(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "half");
    char **names;
    size_t name_n;
    int removed_n = 0;
    fw_test_must(fw_test_save(out, 7));
    const char *step = fw_test_step_path(out, 7);
    fw_test_must(fw_dir_list(&names, &name_n, step));
    for (size_t i = 0; i < name_n; i++)
        if (strncmp(names[i], "shard-00002-", 12) == 0) {
            fw_test_must(fw_dir_remove(fw_test_path(step, names[i])));
            removed_n++;
        }
    fw_dir_list_free(names, name_n);
    assert_true(removed_n > 0);
    fw_checkpoint_files files;
    fw_test_expect(fw_checkpoint_verify(step, false), FW_ERR_INPUT, "shard-00002-model-00001-of-");
    fw_test_expect(fw_checkpoint_open(&files, step, &fw_lab.model.table, NULL), FW_ERR_INPUT, "shard-00002-model-");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_saving), cmocka_unit_test(test_loading)};
    return cmocka_run_group_tests(tests, fw_test_checkpoint_setup, fw_test_checkpoint_teardown);
}
