#include "store/small_files.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <sys/stat.h>

enum { CONFIG_LIMIT_BYTES = 16 << 20 };

const char *const fw_small_file_names[] = {"generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "chat_template.jinja",
                                           NULL};

const char *fw_config_dtype_name(fw_dtype dtype) {
    return dtype == FW_BF16 ? "bfloat16" : dtype == FW_F16 ? "float16" : "float32";
}

fw_status fw_small_files_bytes(uint64_t *bytes, const char *source_dir) {
    for (int i = -1; i < 0 || fw_small_file_names[i] != NULL; i++) {
        char *path;
        struct stat info;
        FW_TRY(fw_path_join(&path, source_dir, i < 0 ? "config.json" : fw_small_file_names[i]));
        if (stat(path, &info) == 0) *bytes += (uint64_t)info.st_size;
        fw_free(path);
    }
    return FW_OK;
}

/* transformers 5 writes "dtype", older ones "torch_dtype"; a source with neither is told apart by its rope keys. */
static bool set_dtype(json_t *config, fw_dtype dtype) {
    json_object_del(config, "quantization_config"); /* weights that were in 4 bits are written as numbers */
    const bool has_dtype = json_object_get(config, "dtype") != NULL,
               has_old = json_object_get(config, "torch_dtype") != NULL;
    const bool is_new = !has_old && (has_dtype || json_object_get(config, "rope_parameters") != NULL);
    const char *name = fw_config_dtype_name(dtype);
    if (json_object_set_new(config, is_new ? "dtype" : "torch_dtype", json_string(name)) != 0) return false;
    return !has_dtype || json_object_set_new(config, "dtype", json_string(name)) == 0;
}

static fw_status write_config(const char *from, const char *to, fw_dtype dtype, bool untie) {
    json_t *config = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_load(&config, from, CONFIG_LIMIT_BYTES), done);
    if (!json_is_object(config)) {
        status = fw_fail(FW_ERR_INPUT, "%s: not a JSON object", from);
        goto done;
    }
    json_object_del(config, "quantization_config"); /* what is written is not */
    if (!set_dtype(config, dtype) || (untie && json_object_set_new(config, "tie_word_embeddings", json_false()) != 0)) {
        status = fw_fail(FW_ERR_NOMEM, "out of memory while writing %s", to);
        goto done;
    }
    FW_TRY_OR(fw_json_save(config, to), done);
done:
    json_decref(config);
    return status;
}

/* From the first of fw_small_file_names that is meant on: those that the source has. */
static fw_status copy_from(int first, const char *source_dir, const char *dir) {
    fw_status status = FW_OK;
    for (int i = first; status == FW_OK && fw_small_file_names[i] != NULL; i++) {
        char *from = NULL, *to = NULL;
        status = fw_path_join(&from, source_dir, fw_small_file_names[i]);
        if (status == FW_OK) status = fw_path_join(&to, dir, fw_small_file_names[i]);
        if (status == FW_OK && fw_file_exists(from)) status = fw_file_copy(from, to);
        fw_free(from);
        fw_free(to);
    }
    return status;
}

fw_status fw_small_files_copy(const char *source_dir, const char *dir, fw_dtype dtype, bool untie) {
    char *from = NULL, *to = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&from, source_dir, "config.json"), done);
    FW_TRY_OR(fw_path_join(&to, dir, "config.json"), done);
    FW_TRY_OR(write_config(from, to, dtype, untie), done);
    FW_TRY_OR(copy_from(0, source_dir, dir), done);
done:
    fw_free(from);
    fw_free(to);
    return status;
}

fw_status fw_small_files_copy_tokenizer(const char *source_dir, const char *dir) {
    return copy_from(1, source_dir, dir); /* 0: how the base generates */
}
