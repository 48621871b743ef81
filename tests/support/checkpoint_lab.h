/* A model folder, weights and moments in memory, and checkpoints made of them. */
#ifndef FW_TESTS_SUPPORT_CHECKPOINT_LAB_H
#define FW_TESTS_SUPPORT_CHECKPOINT_LAB_H

#include "store/checkpoint.h"
#include "support/scratch.h"
#include "support/store_model.h"

typedef struct fw_test_checkpoint_lab {
    char root[FW_TEST_PATH_BYTES], source[FW_TEST_PATH_BYTES + 8];
    fw_test_memory_model model;
    float *moment[2];
    int place_n;         /* as if so many ranks had written */
    char warnings[8192]; /* since it was last emptied */
} fw_test_checkpoint_lab;
extern fw_test_checkpoint_lab fw_lab;

/* cmocka group fixtures. */
int fw_test_checkpoint_setup(void **state);
int fw_test_checkpoint_teardown(void **state);

void fw_test_must(fw_status status);
void fw_test_expect(fw_status status, fw_status want, const char *part);
/* Source of the lab's arrays; all units of one array; a checkpoint of `step`, and where it is. */
fw_status fw_test_from_memory(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                              void *out);
fw_status fw_test_load_array(const fw_checkpoint_files *files, fw_checkpoint_array array, float *flat);
/* What a run does: the newest that can be loaded whole, its path in *path (fw_free; NULL: none); damaged ones are warned of. */
fw_status fw_test_load_newest(char **path, const char *out);
fw_status fw_test_save(const char *out, int64_t step);
const char *fw_test_step_path(const char *out, int step);

#endif
