#include "store/model_folder.h"

#include "store/stored_quant.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INDEX_LIMIT_BYTES = 256 << 20, SHARD_MAX = 100000 };

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* No safetensors in the folder: say what is there instead. */
static fw_status refuse_without_weights(const char *dir) {
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    fw_status status = FW_OK;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) {
        const char *end[] = {".bin", ".pt", ".pth", ".bin.index.json"};
        for (size_t k = 0; k < sizeof end / sizeof *end && status == FW_OK; k++)
            if (ends_with(names[i], end[k]) && strcmp(names[i], "training_args.bin") != 0)
                status = fw_fail(FW_ERR_INPUT,
                                 "%s has %s, a Python pickle, and no model.safetensors; convert it with transformers: "
                                 "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR)",
                                 dir, names[i]);
        if (status == FW_OK && ends_with(names[i], ".gguf"))
            status = fw_fail(FW_ERR_INPUT, "%s has %s and no model.safetensors; run finewire import %s/%s --output DIR",
                             dir, names[i], dir, names[i]);
        if (status == FW_OK && strcmp(names[i], "manifest.json") == 0)
            status = fw_fail(FW_ERR_INPUT, "%s is a checkpoint, not a model; run finewire ckpt export %s --output DIR",
                             dir, dir);
    }
    if (status == FW_OK)
        status = fw_fail(FW_ERR_INPUT, "%s has no model.safetensors and no model.safetensors.index.json", dir);
    fw_dir_list_free(names, name_n);
    return status;
}

/* A shard's name comes from a file of others: a plain name in the same folder, nothing else. */
static fw_status check_shard_name(const char *name, const char *index_path) {
    if (name[0] == 0 || name[0] == '.' || strchr(name, '/') != NULL || !ends_with(name, ".safetensors"))
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"weight_map\" names the file \"%.200s\"; only *.safetensors in the same "
                       "folder are read",
                       index_path, name);
    return FW_OK;
}

static fw_status open_shard(fw_model_folder *folder, const char *dir, const char *name, const char *index_path) {
    for (size_t i = 0; i < folder->shard_n; i++)
        if (strcmp(strrchr(folder->shard[i].path, '/') + 1, name) == 0) return FW_OK;
    if (folder->shard_n == SHARD_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: more than %d files in \"weight_map\"", index_path, SHARD_MAX);
    FW_TRY(FW_GROW_ARRAY(folder->shard, folder->shard_n + 1));
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status;
    if (!fw_file_exists(path))
        status = fw_fail(FW_ERR_INPUT, "%s is missing: %s names it; copy or download it again", path, index_path);
    else
        status = fw_safetensors_open(&folder->shard[folder->shard_n], path);
    if (status == FW_OK) folder->shard_n++;
    fw_free(path);
    return status;
}

static fw_status open_index(fw_model_folder *folder, const char *dir, const char *index_path) {
    json_t *index = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_load(&index, index_path, INDEX_LIMIT_BYTES), done);
    const json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        status = fw_fail(FW_ERR_INPUT, "%s: \"weight_map\" is missing or empty", index_path);
        goto done;
    }
    const char *tensor;
    json_t *file;
    const char *last = NULL;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file) {
        const char *name = json_string_value(file);
        if (name == NULL || strlen(name) != json_string_length(file)) {
            status = fw_fail(FW_ERR_INPUT, "%s: \"weight_map\": \"%.200s\" is not a file name", index_path, tensor);
            goto done;
        }
        if (last != NULL && strcmp(last, name) == 0) continue;
        FW_TRY_OR(check_shard_name(name, index_path), done);
        FW_TRY_OR(open_shard(folder, dir, name, index_path), done);
        last = name;
    }
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file) {
        for (size_t i = 0; i < folder->shard_n; i++) {
            const char *name = strrchr(folder->shard[i].path, '/') + 1;
            if (strcmp(name, json_string_value(file)) == 0 && fw_safetensors_find(&folder->shard[i], tensor) == NULL) {
                status = fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is not in it, but %s says so", folder->shard[i].path,
                                 tensor, index_path);
                goto done;
            }
        }
    }
done:
    json_decref(index);
    return status;
}

/* A tensor in two shards: which one counts would be a guess. */
static fw_status check_unique(const fw_model_folder *folder) {
    for (size_t s = 1; s < folder->shard_n; s++)
        for (size_t i = 0; i < folder->shard[s].tensor_n; i++)
            for (size_t r = 0; r < s; r++)
                if (fw_safetensors_find(&folder->shard[r], folder->shard[s].tensor[i].name) != NULL)
                    return fw_fail(FW_ERR_INPUT, "tensor %.200s is in two files: %s and %s",
                                   folder->shard[s].tensor[i].name, folder->shard[r].path, folder->shard[s].path);
    return FW_OK;
}

fw_status fw_model_folder_open(fw_model_folder *out, const char *dir) {
    *out = (fw_model_folder){0};
    char *single = NULL, *index = NULL;
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->dir, dir), done);
    if (!fw_dir_exists(dir)) {
        status = fw_fail(FW_ERR_INPUT, "the model folder %s does not exist", dir);
        goto done;
    }
    FW_TRY_OR(fw_path_join(&single, dir, "model.safetensors"), done);
    FW_TRY_OR(fw_path_join(&index, dir, "model.safetensors.index.json"), done);
    if (fw_file_exists(single))
        FW_TRY_OR(open_shard(out, dir, "model.safetensors", dir), done);
    else if (fw_file_exists(index))
        FW_TRY_OR(open_index(out, dir, index), done);
    else
        FW_TRY_OR(refuse_without_weights(dir), done);
    FW_TRY_OR(check_unique(out), done);
done:
    fw_free(single);
    fw_free(index);
    if (status != FW_OK) fw_model_folder_close(out);
    return status;
}

fw_status fw_model_folder_open_file(fw_model_folder *out, const char *dir, const char *name) {
    *out = (fw_model_folder){0};
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->dir, dir), done);
    FW_TRY_OR(open_shard(out, dir, name, dir), done);
done:
    if (status != FW_OK) fw_model_folder_close(out);
    return status;
}

void fw_model_folder_close(fw_model_folder *folder) {
    for (size_t i = 0; i < folder->shard_n; i++) fw_safetensors_close(&folder->shard[i]);
    fw_free(folder->shard);
    fw_free(folder->dir);
    *folder = (fw_model_folder){0};
}

const fw_stored_tensor *fw_model_folder_find(const fw_model_folder *folder, const char *name,
                                             const fw_safetensors **file) {
    for (size_t i = 0; i < folder->shard_n; i++) {
        const fw_stored_tensor *tensor = fw_safetensors_find(&folder->shard[i], name);
        if (tensor != NULL) {
            if (file != NULL) *file = &folder->shard[i];
            return tensor;
        }
    }
    return NULL;
}

/* Which keys of config.json give the sizes of a parameter, for messages. */
static const char *keys_of(const char *name) {
    static const struct {
        const char *part, *keys;
    } table[] = {
        {"embed_tokens", "vocab_size, hidden_size"},
        {"lm_head", "vocab_size, hidden_size"},
        {"q_proj.bias", "num_attention_heads * head_dim"},
        {"k_proj.bias", "num_key_value_heads * head_dim"},
        {"v_proj.bias", "num_key_value_heads * head_dim"},
        {"q_proj", "num_attention_heads * head_dim, hidden_size"},
        {"k_proj", "num_key_value_heads * head_dim, hidden_size"},
        {"v_proj", "num_key_value_heads * head_dim, hidden_size"},
        {"o_proj.bias", "hidden_size"},
        {"o_proj", "hidden_size, num_attention_heads * head_dim"},
        {"q_norm", "head_dim"},
        {"k_norm", "head_dim"},
        {"down_proj.bias", "hidden_size"},
        {"down_proj", "hidden_size, intermediate_size"},
        {"gate_proj.bias", "intermediate_size"},
        {"up_proj.bias", "intermediate_size"},
        {"gate_proj", "intermediate_size, hidden_size"},
        {"up_proj", "intermediate_size, hidden_size"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(name, table[i].part) != NULL) return table[i].keys;
    return "hidden_size";
}

static int param_shape(int64_t shape[2], const fw_param *param) {
    shape[0] = param->rows;
    shape[1] = param->cols;
    return param->cols == 0 ? 1 : 2;
}

static fw_status check_param(const fw_model_folder *folder, const fw_param *param) {
    const fw_safetensors *file = NULL;
    const fw_stored_tensor *tensor = fw_model_folder_find(folder, param->name, &file);
    int64_t shape[2];
    int rank = param_shape(shape, param);
    char want[64], found[200];
    if (param->cols > 0 && fw_stored_quant_has(folder, param->name)) {
        fw_stored_quant q;
        return fw_stored_quant_open(&q, folder, param->name, param->rows, param->cols);
    }
    fw_stored_shape_text(want, sizeof want, shape, rank);
    if (tensor == NULL)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s is missing; config.json asks for it with shape %s (%s)",
                       folder->dir, param->name, want, keys_of(param->name));
    if (tensor->rank != rank || memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) != 0) {
        fw_stored_shape_text(found, sizeof found, tensor->shape, tensor->rank);
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s has shape %s, config.json asks for %s (%s)", file->path,
                       param->name, found, want, keys_of(param->name));
    }
    if (tensor->dtype != FW_STORED_F32 && tensor->dtype != FW_STORED_BF16 && tensor->dtype != FW_STORED_F16)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s is stored as %s; weights must be F32, BF16 or F16", file->path,
                       param->name, fw_stored_dtype_name(tensor->dtype));
    return FW_OK;
}

static fw_status check_extra(const fw_safetensors *file, const fw_stored_tensor *tensor,
                             const fw_model_config *config) {
    if (ends_with(tensor->name, ".rotary_emb.inv_freq")) return FW_OK; /* computed, not learned */
    if (config->tied && strcmp(tensor->name, "lm_head.weight") == 0) {
        if (tensor->rank == 2 && tensor->shape[0] == config->V && tensor->shape[1] == config->C) return FW_OK;
        return fw_fail(FW_ERR_INPUT, "%s: lm_head.weight of a tied model has another shape than the embedding",
                       file->path);
    }
    char shape[200];
    fw_stored_shape_text(shape, sizeof shape, tensor->shape, tensor->rank);
    return fw_fail(FW_ERR_INPUT,
                   "%s: tensor %.200s (%s) is not part of the model that config.json describes: check "
                   "num_hidden_layers, attention_bias, mlp_bias and model_type",
                   file->path, tensor->name, shape);
}

fw_status fw_model_folder_check(const fw_model_folder *folder, const fw_param_table *table,
                                const fw_model_config *config) {
    for (int32_t i = 0; i < table->param_n; i++) FW_TRY(check_param(folder, &table->param[i]));
    for (size_t s = 0; s < folder->shard_n; s++)
        for (size_t i = 0; i < folder->shard[s].tensor_n; i++) {
            const fw_stored_tensor *tensor = &folder->shard[s].tensor[i];
            if (fw_param_table_find(table, tensor->name) == NULL && !fw_stored_quant_belongs(folder, tensor->name))
                FW_TRY(check_extra(&folder->shard[s], tensor, config));
        }
    return FW_OK;
}
