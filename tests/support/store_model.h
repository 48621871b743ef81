/* A tiny model in memory, for tests of what is written to disk. */
#ifndef FW_TESTS_SUPPORT_STORE_MODEL_H
#define FW_TESTS_SUPPORT_STORE_MODEL_H

#include "model/param_table.h"

typedef struct fw_test_memory_model {
    fw_model_config config;
    fw_param_table table;
    float *flat; /* table.total_n values: fw_test_weight, padding 0 */
} fw_test_memory_model;

/* The folder is one of fw_test_write_model. */
fw_status fw_test_memory_model_init(fw_test_memory_model *m, const char *dir);
void fw_test_memory_model_fini(fw_test_memory_model *m);

#endif
