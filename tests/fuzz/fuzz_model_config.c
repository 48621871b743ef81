/* config.json from anywhere: what is accepted gives a sound parameter table and finite rotary frequencies. */
#include "base/json.h"
#include "model/param_table.h"
#include "model/rope_table.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_table(const fw_model_config *c) {
    fw_param_table table;
    if (c->L > 256 || fw_param_table_init(&table, c) != FW_OK) return; /* thousands of layers only cost time here */
    int64_t total_n = 0;
    for (int32_t p = 0; p < table.param_n; p++) {
        const fw_param *param = &table.param[p];
        FW_ASSERT(param->n > 0 && param->offset_n >= 0);
        FW_ASSERT(param->offset_n + param->n <= table.unit_size_n[param->unit]);
        total_n += param->n;
    }
    FW_ASSERT(total_n == table.parameter_n && total_n <= table.total_n);
    fw_param_table_fini(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *object;
    fw_model_config c;
    if (fw_json_parse(&object, (const char *)data, size, "config.json", 1) != FW_OK) return 0;
    if (fw_model_config_parse(&c, object, "config.json") == FW_OK) {
        FW_ASSERT(c.H % c.K == 0 && c.D % 2 == 0 && c.V > 0);
        double last = fw_rope_frequency(&c.rope, c.D / 2 - 1, c.D);
        FW_ASSERT(fw_rope_frequency(&c.rope, 0, c.D) <= 1.0 && isfinite(last) && last >= 0);
        check_table(&c);
    }
    json_decref(object);
    return 0;
}
