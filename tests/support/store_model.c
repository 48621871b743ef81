#include "support/store_model.h"

#include "base/alloc.h"
#include "support/tiny_model.h"

fw_status fw_test_memory_model_init(fw_test_memory_model *m, const char *dir) {
    *m = (fw_test_memory_model){0};
    FW_TRY(fw_model_config_load(&m->config, dir));
    FW_TRY(fw_param_table_init(&m->table, &m->config));
    FW_TRY(FW_NEW_ARRAY(m->flat, (size_t)m->table.total_n));
    for (int32_t i = 0; i < m->table.param_n; i++) {
        const fw_param *p = &m->table.param[i];
        for (int64_t k = 0; k < p->n; k++)
            m->flat[m->table.unit_offset_n[p->unit] + p->offset_n + k] = fw_test_weight(p->name, k);
    }
    return FW_OK;
}

void fw_test_memory_model_fini(fw_test_memory_model *m) {
    fw_param_table_fini(&m->table);
    fw_free(m->flat);
    *m = (fw_test_memory_model){0};
}
