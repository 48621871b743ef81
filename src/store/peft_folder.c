#include "store/peft_folder.h"

#include "base/alloc.h"

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

/* ---- target_modules, as the file bears them out */

static bool is_at_end(const char *module, const char *name) {
    size_t n = strlen(module), m = strlen(name);
    return m <= n && strcmp(module + n - m, name) == 0 && (m == n || module[n - m - 1] == '.');
}

/* Has the file an adapter on a module of that name? */
static fw_status is_borne_out(bool *found, const fw_safetensors *file, const char *name) {
    *found = false;
    for (size_t i = 0; i < file->tensor_n && !*found; i++) {
        fw_peft_part part;
        char module[FW_PEFT_MODULE_BYTES];
        FW_TRY(fw_peft_name_split(&part, module, file->tensor[i].name, file->path));
        *found = part == FW_PEFT_A && is_at_end(module, name);
    }
    return FW_OK;
}

static fw_status append(fw_strbuf *list, const char *name) {
    return fw_strbuf_printf(list, "%s\"%s\"", list->len_bytes > 1 ? "," : "", name);
}

static fw_status list_modules(fw_strbuf *list, const fw_safetensors *file) {
    for (size_t i = 0; i < file->tensor_n; i++) {
        fw_peft_part part;
        char module[FW_PEFT_MODULE_BYTES];
        FW_TRY(fw_peft_name_split(&part, module, file->tensor[i].name, file->path));
        if (part == FW_PEFT_A) FW_TRY(append(list, module));
    }
    return FW_OK;
}

static fw_status list_named(fw_strbuf *list, const fw_safetensors *file, const json_t *names) {
    size_t i;
    json_t *value;
    json_array_foreach((json_t *)(uintptr_t)names, i, value) {
        const char *name = json_string_value(value);
        bool found;
        if (name == NULL || strpbrk(name, "\"\\") != NULL)
            return fw_fail(FW_ERR_INPUT, "%s: \"target_modules\" of its configuration has a value that is no name",
                           file->path);
        FW_TRY(is_borne_out(&found, file, name));
        if (found) FW_TRY(append(list, name));
    }
    return FW_OK;
}

/* Lists are made for many models: names that only others have are left out. With exclude_modules the file itself says what is
 * left. An expression stays as it is. */
static fw_status fit_targets(fw_peft_folder *folder) {
    const json_t *excluded = json_object_get(folder->config.object, "exclude_modules");
    const json_t *names = json_object_get(folder->config.object, "target_modules");
    const bool excludes = json_is_string(excluded) || json_array_size(excluded) > 0;
    if (!excludes && !json_is_array(names)) return FW_OK;
    const fw_safetensors *file = &folder->weights.shard[0];
    fw_strbuf list = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_putc(&list, '['), done);
    FW_TRY_OR(excludes ? list_modules(&list, file) : list_named(&list, file, names), done);
    FW_TRY_OR(fw_strbuf_putc(&list, ']'), done);
    if (list.len_bytes == 2)
        status = fw_fail(FW_ERR_INPUT, "%s has no tensor of a module that %s names", file->path, folder->config.where);
done:
    fw_free(folder->config.text[0]);
    folder->config.request.target_modules = folder->config.text[0] = list.data;
    return status;
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
    FW_TRY_OR(fit_targets(out), done);
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
    if (strncmp(name, PREFIX, prefix_n) != 0 || n - prefix_n >= FW_PEFT_MODULE_BYTES)
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
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %s has shape %s, for the model %s it must be %s: the adapter is of another base%s%s",
                       file->path, p->name, found, base, want, folder->config.base == NULL ? "" : ", ",
                       folder->config.base == NULL ? "" : folder->config.base);
    if (t->dtype != FW_STORED_F32 && t->dtype != FW_STORED_BF16 && t->dtype != FW_STORED_F16)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s is stored as %s; it must be F32, BF16 or F16", file->path, p->name,
                       fw_stored_dtype_name(t->dtype));
    return FW_OK;
}

fw_status fw_peft_folder_check(const fw_peft_folder *folder, const fw_param_table *table, const char *base) {
    const fw_safetensors *file = &folder->weights.shard[0];
    for (int32_t i = 0; i < table->param_n; i++) FW_TRY(check_tensor(folder, &table->param[i], base));
    if (file->tensor_n == (size_t)table->param_n) return FW_OK;
    for (size_t i = 0; i < file->tensor_n; i++)
        if (fw_param_table_find(table, file->tensor[i].name) == NULL)
            return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is not of an adapter that %s describes, for the model %s",
                           file->path, file->tensor[i].name, folder->config.where, base);
    return fw_fail(FW_ERR_INTERNAL, "%s: names of the adapter's table are not unique", file->path);
}
