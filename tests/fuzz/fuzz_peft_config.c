/* adapter_config.json from anywhere: what is accepted gives sound tables for a small model, and is written as it was read. */
#include "fuzz/small_model.h"
#include "store/peft_folder.h"

#include "model/adapter.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const fw_model_config model = {FUZZ_SMALL_MODEL, .L = 2, .qkv_bias = true};

static void check_tables(const fw_adapter *a, const fw_param_table *base) {
    fw_param_table frozen, trained;
    FW_ASSERT(fw_adapter_tables(a, base, &frozen, &trained) == FW_OK);
    FW_ASSERT(frozen.unit_n == base->unit_n && trained.unit_n == base->unit_n && trained.param_n > 0);
    for (int32_t i = 0; i < trained.param_n; i++) {
        const fw_param *p = &trained.param[i];
        fw_peft_part part;
        char module[FW_PEFT_MODULE_BYTES];
        FW_ASSERT(p->n > 0 && p->offset_n + p->n <= trained.unit_size_n[p->unit]);
        FW_ASSERT(fw_peft_name_split(&part, module, p->name, "a table") == FW_OK);
        FW_ASSERT((part == FW_PEFT_A) == (p->kind == FW_PARAM_LORA_A));
    }
    fw_param_table_fini(&frozen);
    fw_param_table_fini(&trained);
}

static void check_again(const fw_peft_config *c) {
    json_t *made;
    fw_peft_config again;
    if (fw_peft_config_make(&made, &c->request, c->base) != FW_OK) return;
    FW_ASSERT(fw_peft_config_parse(&again, made, "made") == FW_OK);
    FW_ASSERT(again.request.r == c->request.r && again.request.alpha == c->request.alpha);
    fw_peft_config_fini(&again);
    json_decref(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *object;
    fw_peft_config c;
    fw_param_table base;
    if (fw_json_parse(&object, (const char *)data, size, "adapter_config.json", 1) != FW_OK) return 0;
    if (fw_peft_config_parse(&c, object, "adapter_config.json") == FW_OK) {
        fw_adapter adapter;
        FW_ASSERT(fw_param_table_init(&base, &model) == FW_OK);
        if (fw_adapter_resolve(&adapter, &c.request, &model, &base) == FW_OK) {
            check_tables(&adapter, &base);
            check_again(&c);
        }
        fw_adapter_fini(&adapter);
        fw_param_table_fini(&base);
        fw_peft_config_fini(&c);
    }
    json_decref(object);
    return 0;
}
