/* Writing an adapter's folder. */
#include "store/peft_folder.h"

#include "base/alloc.h"
#include "store/small_files.h"
#include "store/staged_folder.h"
#include "store/write_weights.h"

/* Reopened: what has been written is what peft would read. */
static fw_status verify(const char *dir, const fw_param_table *table, const char *base_dir) {
    fw_peft_folder folder;
    FW_TRY(fw_peft_folder_open(&folder, dir));
    fw_status status = fw_peft_folder_check(&folder, table, base_dir);
    fw_peft_folder_close(&folder);
    return status;
}

static const char HASH_KEY[] = "base_weights_hash", QUANTIZATION_KEY[] = "base_quantization";

const char *fw_peft_folder_base_hash(const fw_peft_folder *folder) {
    return json_string_value(json_object_get(folder->weights.shard[0].metadata, HASH_KEY));
}

const char *fw_peft_folder_base_quantization(const fw_peft_folder *folder) {
    return json_string_value(json_object_get(folder->weights.shard[0].metadata, QUANTIZATION_KEY));
}

static fw_status write_files(const char *dir, const fw_peft_origin *o, const fw_param_table *table,
                             fw_param_reader reader, void *context) {
    char *config_path = NULL, *weights_path = NULL;
    json_t *more = json_pack("{s:s*, s:s*}", HASH_KEY, o->base_hash, QUANTIZATION_KEY, o->base_quantization);
    fw_status status;
    FW_TRY_OR(fw_path_join(&config_path, dir, "adapter_config.json"), done);
    FW_TRY_OR(fw_path_join(&weights_path, dir, "adapter_model.safetensors"), done);
    if (more == NULL) {
        status = fw_fail(FW_ERR_NOMEM, "out of memory while writing %s", weights_path);
        goto done;
    }
    FW_TRY_OR(fw_small_files_copy_tokenizer(o->base_dir, dir), done);
    FW_TRY_OR(fw_json_save(o->config, config_path), done);
    FW_TRY_OR(fw_weights_write_file(weights_path, table, FW_F32, more, reader, context), done);
    FW_TRY_OR(verify(dir, table, o->base_dir), done);
done:
    json_decref(more);
    fw_free(config_path);
    fw_free(weights_path);
    return status;
}

fw_status fw_peft_folder_write(const char *dir, const fw_peft_origin *origin, const fw_param_table *table,
                               fw_param_reader reader, void *context) {
    fw_staged_folder staged = {0};
    uint64_t need_bytes = fw_weights_bytes(table, FW_F32);
    fw_status status;
    FW_TRY_OR(fw_export_check_target(dir, origin->base_dir), done);
    FW_TRY_OR(fw_small_files_bytes(&need_bytes, origin->base_dir), done);
    FW_TRY_OR(fw_store_check_space(dir, need_bytes, dir), done);
    FW_TRY_OR(fw_staged_folder_begin(&staged, dir, false), done);
    FW_TRY_OR(write_files(staged.path_tmp, origin, table, reader, context), done);
    FW_TRY_OR(fw_staged_folder_commit(&staged), done);
done:
    fw_staged_folder_close(&staged);
    return status;
}
