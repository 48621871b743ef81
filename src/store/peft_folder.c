#include "store/peft_folder.h"

#include "base/alloc.h"
#include "base/file.h"

#include <string.h>

static const char WEIGHTS[] = "adapter_model.safetensors", PREFIX[] = "base_model.model.";

/* There is an adapter_config.json and no safetensors. */
static fw_status refuse_without_weights(const char *dir) {
    bool pickle = false, checkpoint = false;
    FW_TRY(fw_dir_has_file(&checkpoint, dir, "manifest.json"));
    if (checkpoint)
        return fw_fail(FW_ERR_INPUT,
                       "%s is a checkpoint, not an adapter's folder; run finewire ckpt export %s --output DIR", dir,
                       dir);
    FW_TRY(fw_dir_has_file(&pickle, dir, "adapter_model.bin"));
    if (pickle)
        return fw_fail(FW_ERR_INPUT,
                       "%s has adapter_model.bin, a Python pickle, and no %s; convert it with peft: "
                       "PeftModel.from_pretrained(BASE, DIR).save_pretrained(NEW_DIR)",
                       dir, WEIGHTS);
    return fw_fail(FW_ERR_INPUT, "%s has adapter_config.json and no %s: it is not complete", dir, WEIGHTS);
}

/* Names of another kind of adapter say more than that they are one too many. */
static fw_status check_names(const fw_safetensors *file) {
    for (size_t i = 0; i < file->tensor_n; i++) {
        fw_peft_part part;
        char module[FW_PEFT_MODULE_BYTES];
        FW_TRY(fw_peft_name_split(&part, module, file->tensor[i].name, file->path));
    }
    return FW_OK;
}

fw_status fw_peft_folder_open(fw_peft_folder *out, const char *dir) {
    bool has_weights = false;
    *out = (fw_peft_folder){0};
    FW_TRY(fw_peft_config_load(&out->config, dir));
    fw_status status;
    FW_TRY_OR(fw_dir_has_file(&has_weights, dir, WEIGHTS), done);
    if (has_weights)
        FW_TRY_OR(fw_model_folder_open_file(&out->weights, dir, WEIGHTS), done);
    else
        FW_TRY_OR(refuse_without_weights(dir), done);
    FW_TRY_OR(check_names(&out->weights.shard[0]), done);
done:
    if (status != FW_OK) fw_peft_folder_close(out);
    return status;
}

void fw_peft_folder_close(fw_peft_folder *folder) {
    fw_model_folder_close(&folder->weights);
    fw_peft_config_fini(&folder->config);
}

/* ---- names */

static bool cut_end(char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    if (n <= m || strcmp(text + n - m, end) != 0) return false;
    text[n - m] = 0;
    return true;
}

fw_status fw_peft_name_split(fw_peft_part *part, char module[FW_PEFT_MODULE_BYTES], const char *name,
                             const char *where) {
    static const struct {
        const char *end;
        fw_peft_part part;
    } ends[] = {
        {".lora_A.weight", FW_PEFT_A}, {".lora_B.weight", FW_PEFT_B}, {".lora_magnitude_vector", FW_PEFT_MAGNITUDE}};
    const size_t prefix_n = sizeof PREFIX - 1, n = strlen(name);
    if (strncmp(name, PREFIX, prefix_n) != 0 || n == prefix_n || n - prefix_n >= FW_PEFT_MODULE_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is not one that peft writes: names begin with %sMODULE", where,
                       name, PREFIX);
    memcpy(module, name + prefix_n, n - prefix_n + 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        *part = ends[i].part;
        if (cut_end(module, ends[i].end)) return FW_OK;
    }
    *part = FW_PEFT_WHOLE;
    if (strstr(module, "lora_") != NULL)
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %.200s is of a kind of adapter that finewire does not have (lora_A and lora_B of "
                       "matrices in blocks, and lora_magnitude_vector)",
                       where, name);
    if (cut_end(module, ".base_layer.bias")) strcat(module, ".bias"); /* shorter than what was cut */
    return FW_OK;
}

/* ---- checking */

static fw_status refuse_shape(const fw_peft_folder *folder, const fw_param *p, const fw_stored_tensor *t,
                              const char *found, const char *want, const char *base) {
    const char *path = folder->weights.shard[0].path;
    const bool a = p->kind == FW_PARAM_LORA_A, b = p->kind == FW_PARAM_LORA_B;
    if (t->rank == 2 && ((a && t->shape[1] == p->cols) || (b && t->shape[0] == p->rows)))
        return fw_fail(
            FW_ERR_INPUT,
            "%s: tensor %s has shape %s, which is of rank %lld; %s gives its module rank %lld, shape %s: the "
            "two files are not of one adapter (r, rank_pattern)",
            path, p->name, found, (long long)t->shape[a ? 0 : 1], folder->config.where,
            (long long)(a ? p->rows : p->cols), want);
    if (folder->config.base != NULL && fw_dir_same(folder->config.base, base))
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %s has shape %s, for the model %s, which the adapter names, it must be %s: one of "
                       "the two has been changed",
                       path, p->name, found, base, want);
    return fw_fail(FW_ERR_INPUT,
                   "%s: tensor %s has shape %s, for the model %s it must be %s: the adapter is of another base%s%s",
                   path, p->name, found, base, want, folder->config.base == NULL ? "" : ", ",
                   folder->config.base == NULL ? "" : folder->config.base);
}

static fw_status check_tensor(const fw_peft_folder *folder, const fw_param *p, const char *base) {
    const fw_safetensors *file = &folder->weights.shard[0];
    const fw_stored_tensor *t = fw_safetensors_find(file, p->name);
    const int rank = p->cols == 0 ? 1 : 2;
    const int64_t shape[2] = {p->rows, p->cols};
    char want[64], found[200];
    fw_stored_shape_text(want, sizeof want, shape, rank);
    if (t == NULL)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s is missing; %s and %s ask for it with shape %s", file->path,
                       p->name, folder->config.where, base, want);
    fw_stored_shape_text(found, sizeof found, t->shape, t->rank);
    if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0)
        return refuse_shape(folder, p, t, found, want, base);
    if (t->dtype != FW_STORED_F32 && t->dtype != FW_STORED_BF16 && t->dtype != FW_STORED_F16)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s is stored as %s; it must be F32, BF16 or F16", file->path, p->name,
                       fw_stored_dtype_name(t->dtype));
    return FW_OK;
}

/* With bias "all", peft writes the biases of modules in modules_to_save three times: MODULE.bias, which it reads, and under
 * the names of its two wrapped copies, which it does not. */
static bool is_unread_copy(const fw_peft_folder *folder, const fw_param_table *table, const char *name) {
    static const char *const ends[] = {".modules_to_save.bias", ".original_module.bias"};
    char bias[FW_PEFT_MODULE_BYTES];
    const size_t n = strlen(name);
    if (folder->config.request.bias != FW_ADAPTER_BIAS_ALL || n >= sizeof bias) return false;
    memcpy(bias, name, n + 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (cut_end(bias, ends[i])) return fw_param_table_find(table, strcat(bias, ".bias")) != NULL;
    return false;
}

fw_status fw_peft_folder_check(const fw_peft_folder *folder, const fw_param_table *table, const char *base) {
    const fw_safetensors *file = &folder->weights.shard[0];
    for (int32_t i = 0; i < table->param_n; i++) FW_TRY(check_tensor(folder, &table->param[i], base));
    if (file->tensor_n == (size_t)table->param_n) return FW_OK;
    size_t unread_n = 0;
    for (size_t i = 0; i < file->tensor_n; i++) {
        if (fw_param_table_find(table, file->tensor[i].name) != NULL) continue;
        if (!is_unread_copy(folder, table, file->tensor[i].name))
            return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is not of an adapter that %s describes, for the model %s",
                           file->path, file->tensor[i].name, folder->config.where, base);
        unread_n++;
    }
    if (file->tensor_n == (size_t)table->param_n + unread_n) return FW_OK;
    return fw_fail(FW_ERR_INTERNAL, "%s: names of the adapter's table are not unique", file->path);
}
