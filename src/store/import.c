#include "store/import.h"

#include "base/alloc.h"
#include "base/plural.h"
#include "store/import_parts.h"
#include "store/small_files.h"
#include "store/staged_folder.h"
#include "store/write_weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What the reader of weights needs. */
typedef struct source {
    const fw_gguf *file;
    const fw_model_config *config;
    float *row; /* one row of the widest parameter */
} source;

/* For Llama, the converter reorders the rows of q and k so that the two halves of each rotary pair are neighbours:
 * row h D + half D/2 + j of Hugging Face is row h D + 2 j + half of the file. */
static int64_t file_row(const fw_model_config *c, const char *name, int64_t row) {
    if (c->architecture != FW_ARCH_LLAMA ||
        (strstr(name, "self_attn.q_proj.") == NULL && strstr(name, "self_attn.k_proj.") == NULL))
        return row;
    int64_t head = row / c->D, within = row % c->D, half = within / (c->D / 2), j = within % (c->D / 2);
    return head * c->D + 2 * j + half;
}

static fw_status read_param(void *context, const fw_param *param, int64_t first_n, int64_t n, float *out) {
    const source *s = context;
    const fw_gguf_tensor *t = NULL;
    FW_TRY(fw_import_find_tensor(&t, s->file, param));
    int64_t cols = param->cols;
    if (cols == 0) { /* a vector: norms and biases, small and stored as it is or in blocks */
        FW_TRY(fw_gguf_read_f32(s->row, s->file, t, 0, t->n));
        for (int64_t i = 0; i < n; i++) out[i] = s->row[file_row(s->config, param->name, first_n + i)];
        return FW_OK;
    }
    for (int64_t at = first_n; at < first_n + n;) {
        int64_t row = at / cols, column = at % cols;
        int64_t take = cols - column < first_n + n - at ? cols - column : first_n + n - at;
        int64_t from = file_row(s->config, param->name, row) * cols;
        if (take == cols) {
            FW_TRY(fw_gguf_read_f32(out + (at - first_n), s->file, t, from, cols));
        } else {
            FW_TRY(fw_gguf_read_f32(s->row, s->file, t, from, cols));
            memcpy(out + (at - first_n), s->row + column, (size_t)take * sizeof *out);
        }
        at += take;
    }
    return FW_OK;
}

/* bf16 for quantised and bf16 matrices, whose precision it covers; fp16 and fp32 stay what they are when all agree. */
static fw_dtype choose_dtype(const fw_gguf *file) {
    bool f16 = false, f32 = false;
    for (size_t i = 0; i < file->tensor_n; i++) {
        if (file->tensor[i].rank < 2) continue;
        if (file->tensor[i].type == FW_GGML_F32)
            f32 = true;
        else if (file->tensor[i].type == FW_GGML_F16)
            f16 = true;
        else
            return FW_BF16;
    }
    return f16 && !f32 ? FW_F16 : FW_F32;
}

/* A norm's weight beyond the range of fp16 would become infinite: fp32 then. */
static fw_status check_fp16_range(fw_dtype *dtype, const fw_gguf *file) {
    for (size_t i = 0; i < file->tensor_n && *dtype == FW_F16; i++) {
        const fw_gguf_tensor *t = &file->tensor[i];
        if (t->type != FW_GGML_F32) continue;
        float *values;
        FW_TRY(FW_NEW_ARRAY(values, (size_t)t->n));
        fw_gguf_dequantize(values, t->type, t->data, t->n);
        for (int64_t k = 0; k < t->n; k++)
            if (fabsf(values[k]) > 65504.0f) *dtype = FW_F32;
        fw_free(values);
    }
    return FW_OK;
}

static void fill_report(fw_import_report *r, const fw_gguf *file, const fw_model_config *config,
                        const fw_param_table *table, fw_dtype dtype) {
    *r = (fw_import_report){.dtype = dtype, .parameter_n = table->parameter_n, .vocab_n = config->V};
    snprintf(r->architecture, sizeof r->architecture, "%s", fw_architecture_class(config->architecture));
    r->chat_template = fw_gguf_find(file, "tokenizer.chat_template") != NULL;
    size_t used = 0;
    for (uint32_t type = 0; type <= FW_GGML_BF16; type++) {
        int count = 0;
        for (size_t i = 0; i < file->tensor_n; i++) count += (uint32_t)file->tensor[i].type == type;
        if (count > 0 && used < sizeof r->source_types)
            used += (size_t)snprintf(r->source_types + used, sizeof r->source_types - used, "%s%s %d", used ? ", " : "",
                                     fw_gguf_type_name(type), count);
    }
}

static fw_status save_json(const char *dir, const char *name, const json_t *value) {
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status = fw_json_save(value, path);
    fw_free(path);
    return status;
}

/* All tensors are there in their shapes, and each token has its row, before anything is written. */
static fw_status check_tensors(const fw_gguf *file, const fw_param_table *table, int64_t vocab_n) {
    const fw_gguf_value *tokens = fw_gguf_find(file, "tokenizer.ggml.tokens");
    if (tokens->element_n > (uint64_t)vocab_n)
        return fw_fail(FW_ERR_INPUT, "%s: %" PRIu64 " tokens, but the embedding has %" PRId64 " row%s", file->path,
                       tokens->element_n, vocab_n, fw_plural(vocab_n));
    const fw_gguf_tensor *t;
    for (int32_t i = 0; i < table->param_n; i++) FW_TRY(fw_import_find_tensor(&t, file, &table->param[i]));
    return fw_import_check_extra(file, table);
}

static int64_t widest_row(const fw_param_table *table) {
    int64_t widest = 0;
    for (int32_t i = 0; i < table->param_n; i++) {
        int64_t n = table->param[i].cols != 0 ? table->param[i].cols : table->param[i].rows;
        if (n > widest) widest = n;
    }
    return widest;
}

static fw_status check_target(const char *output_dir, bool overwrite) {
    if (overwrite || !fw_dir_exists(output_dir)) return fw_export_check_target(output_dir, NULL);
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, output_dir));
    fw_dir_list_free(names, name_n);
    if (name_n == 0) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s exists and is not empty; --overwrite replaces a folder that finewire wrote",
                   output_dir);
}

fw_status fw_import_gguf(const char *gguf_path, const char *output_dir, bool overwrite, uint64_t max_shard_bytes,
                         fw_import_report *report) {
    fw_gguf file = {0};
    fw_model_config config;
    fw_param_table table = {0};
    fw_staged_folder staged = {0};
    json_t *config_json = NULL, *tokenizer = NULL, *tokenizer_config = NULL, *generation = NULL;
    source s = {&file, &config, NULL};
    fw_status status;
    FW_TRY_OR(check_target(output_dir, overwrite), done);
    FW_TRY_OR(fw_gguf_open(&file, gguf_path), done);
    FW_TRY_OR(fw_import_make_config(&config_json, &file), done);
    FW_TRY_OR(fw_import_make_tokenizer(&tokenizer, &tokenizer_config, &file), done);
    FW_TRY_OR(fw_import_make_generation_config(&generation, &file), done);
    FW_TRY_OR(fw_model_config_parse(&config, config_json, gguf_path), done);
    FW_TRY_OR(fw_param_table_init(&table, &config), done);
    FW_TRY_OR(check_tensors(&file, &table, config.V), done);
    fw_dtype dtype = choose_dtype(&file);
    FW_TRY_OR(check_fp16_range(&dtype, &file), done);
    FW_TRY_OR(fw_import_set(config_json, "torch_dtype", json_string(fw_config_dtype_name(dtype))), done);
    FW_TRY_OR(FW_NEW_ARRAY(s.row, (size_t)widest_row(&table)), done);

    FW_TRY_OR(fw_store_check_space(output_dir, fw_weights_bytes(&table, dtype) + (64u << 20), output_dir), done);
    FW_TRY_OR(fw_staged_folder_begin(&staged, output_dir, false), done);
    FW_TRY_OR(save_json(staged.path_tmp, "config.json", config_json), done);
    FW_TRY_OR(save_json(staged.path_tmp, "generation_config.json", generation), done);
    FW_TRY_OR(save_json(staged.path_tmp, "tokenizer.json", tokenizer), done);
    FW_TRY_OR(save_json(staged.path_tmp, "tokenizer_config.json", tokenizer_config), done);
    const fw_export_options options = {.dtype = dtype, .max_shard_bytes = max_shard_bytes};
    FW_TRY_OR(fw_weights_write(staged.path_tmp, &table, &options, read_param, &s), done);
    FW_TRY_OR(fw_weights_verify(staged.path_tmp, &table, dtype), done);
    FW_TRY_OR(fw_staged_folder_commit(&staged), done);
    if (report != NULL) fill_report(report, &file, &config, &table, dtype);
done:
    fw_staged_folder_close(&staged);
    fw_param_table_fini(&table);
    fw_gguf_close(&file);
    fw_free(s.row);
    json_decref(config_json);
    json_decref(tokenizer);
    json_decref(tokenizer_config);
    json_decref(generation);
    return status;
}
