/* GGUF files: the reader, and what an import makes of keys and tokens. */
#include "store/import_parts.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_gguf file;
    if (fw_gguf_parse(&file, data, size, "fuzz") != FW_OK) return 0;
    for (size_t i = 0; i < file.tensor_n; i++) {
        const fw_gguf_tensor *t = &file.tensor[i];
        if (t->n > 1 << 16) continue;
        float *values = malloc((size_t)t->n * sizeof *values);
        if (values == NULL || fw_gguf_read_f32(values, &file, t, 0, t->n) != FW_OK) abort();
        free(values);
    }
    json_t *config = NULL, *tokenizer = NULL, *tokenizer_config = NULL, *generation = NULL;
    fw_model_config parsed;
    fw_param_table table;
    if (fw_import_make_config(&config, &file) == FW_OK && fw_model_config_parse(&parsed, config, "fuzz") == FW_OK &&
        parsed.L <= 64 && fw_param_table_init(&table, &parsed) == FW_OK) {
        const fw_gguf_tensor *t;
        for (int32_t i = 0; i < table.param_n; i++)
            if (fw_import_find_tensor(&t, &file, &table.param[i]) == FW_OK && t->n != table.param[i].n) abort();
        fw_param_table_fini(&table);
    }
    if (fw_import_make_tokenizer(&tokenizer, &tokenizer_config, &file) == FW_OK)
        fw_import_make_generation_config(&generation, &file);
    json_decref(config);
    json_decref(tokenizer);
    json_decref(tokenizer_config);
    json_decref(generation);
    fw_gguf_close(&file);
    return 0;
}
