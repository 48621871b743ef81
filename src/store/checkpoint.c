/* Saving and loading one checkpoint; the list of them is checkpoint_list.c. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/plural.h"
#include "store/manifest.h"
#include "store/model_folder.h"
#include "store/safetensors.h"
#include "store/small_files.h"
#include "store/staged_folder.h"
#include "store/write_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const array_file[FW_CHECKPOINT_ARRAY_N] = {"model.safetensors", "exp_avg.safetensors",
                                                              "exp_avg_sq.safetensors"};

void fw_checkpoint_state_fini(fw_checkpoint_state *state) {
    json_decref(state->options);
    json_decref(state->extra);
    *state = (fw_checkpoint_state){0};
}

uint64_t fw_checkpoint_bytes(const fw_param_table *table) {
    return FW_CHECKPOINT_ARRAY_N * fw_weights_bytes(table, FW_F32) + 65536; /* and the manifest */
}

/* What a checkpoint is made from. */
typedef struct origin {
    fw_checkpoint_source read;
    void *context;
    float *chunk;
} origin;

static fw_status write_param(fw_safetensors_writer *w, fw_checkpoint_array array, const fw_param *p,
                             const origin *from) {
    for (int64_t at = 0; at < p->n; at += FW_CHECKPOINT_CHUNK_N) {
        int64_t n = p->n - at < FW_CHECKPOINT_CHUNK_N ? p->n - at : FW_CHECKPOINT_CHUNK_N;
        FW_TRY(from->read(from->context, array, p, at, n, from->chunk));
        FW_TRY(fw_safetensors_writer_put_f32(w, from->chunk, (size_t)n));
    }
    return FW_OK;
}

static fw_status write_array(json_t *manifest, const char *dir, fw_checkpoint_array array, const fw_param_table *table,
                             const origin *from) {
    fw_safetensors_writer w = {.file = {.fd = -1}};
    fw_safetensors_entry *entry = NULL;
    json_t *metadata = NULL;
    char *path = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, dir, array_file[array]), done);
    FW_TRY_OR(fw_weights_metadata(&metadata), done);
    FW_TRY_OR(FW_NEW_ARRAY(entry, (size_t)table->param_n), done);
    for (int32_t i = 0; i < table->param_n; i++) {
        const fw_param *p = &table->param[i];
        entry[i] = (fw_safetensors_entry){p->name, FW_STORED_F32, p->cols == 0 ? 1 : 2, {p->rows, p->cols}};
    }
    FW_TRY_OR(fw_safetensors_writer_open(&w, path, entry, (size_t)table->param_n, metadata), done);
    for (int32_t i = 0; i < table->param_n; i++) FW_TRY_OR(write_param(&w, array, &table->param[i], from), done);
    FW_TRY_OR(fw_safetensors_writer_commit(&w), done);
    FW_TRY_OR(fw_manifest_add_file(manifest, array_file[array], w.file_bytes, fw_hash_value(&w.hash)), done);
done:
    fw_safetensors_writer_close(&w);
    fw_free(entry);
    fw_free(path);
    json_decref(metadata);
    return status;
}

/* config.json, the tokenizer, ...: copied, then hashed as they are on disk. */
static fw_status write_small_files(json_t *manifest, const char *dir, const char *source_dir) {
    FW_TRY(fw_small_files_copy(source_dir, dir, FW_F32));
    for (int i = -1; i < 0 || fw_small_file_names[i] != NULL; i++) {
        const char *name = i < 0 ? "config.json" : fw_small_file_names[i];
        char *path;
        FW_TRY(fw_path_join(&path, dir, name));
        uint64_t hash, bytes;
        fw_status status = FW_OK;
        if (fw_file_exists(path)) {
            status = fw_hash_file(&hash, &bytes, path);
            if (status == FW_OK) status = fw_manifest_add_file(manifest, name, bytes, hash);
        }
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}

fw_status fw_checkpoint_save(char **path, const char *output_dir, const char *source_dir, const fw_param_table *table,
                             fw_checkpoint_source source, void *context, const fw_checkpoint_state *state) {
    if (path != NULL) *path = NULL;
    origin from = {.read = source, .context = context};
    fw_staged_folder staged = {0};
    json_t *manifest = NULL;
    char *final = NULL, name[40];
    uint64_t need_bytes = fw_checkpoint_bytes(table);
    fw_status status;
    snprintf(name, sizeof name, "step-%08" PRId64, state->step);
    FW_TRY_OR(FW_NEW_ARRAY(from.chunk, FW_CHECKPOINT_CHUNK_N), done);
    FW_TRY_OR(fw_path_join(&final, output_dir, name), done);
    FW_TRY_OR(fw_small_files_bytes(&need_bytes, source_dir), done);
    FW_TRY_OR(fw_store_check_space(output_dir, need_bytes, final), done);
    FW_TRY_OR(fw_staged_folder_begin(&staged, final, true), done);
    FW_TRY_OR(fw_manifest_make(&manifest, state, table), done);
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++)
        FW_TRY_OR(write_array(manifest, staged.path_tmp, (fw_checkpoint_array)k, table, &from), done);
    FW_TRY_OR(write_small_files(manifest, staged.path_tmp, source_dir), done);
    FW_TRY_OR(fw_manifest_save(manifest, staged.path_tmp), done);
    FW_TRY_OR(fw_staged_folder_commit(&staged), done);
    if (path != NULL) {
        *path = final;
        final = NULL;
    }
done:
    fw_staged_folder_close(&staged);
    json_decref(manifest);
    fw_free(final);
    fw_free(from.chunk);
    return status;
}

/* The file of one array, with every tensor of the table and no other. */
static fw_status open_array(fw_safetensors *file, const char *dir, const char *name, const fw_param_table *table) {
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status;
    FW_TRY_OR(fw_safetensors_open(file, path), done);
    if (file->tensor_n != (size_t)table->param_n) {
        status = fw_fail(FW_ERR_INPUT, "%s has %zu tensor%s, the model has %d: the checkpoint is of another model",
                         path, file->tensor_n, fw_plural((int64_t)file->tensor_n), table->param_n);
        goto done;
    }
    for (int32_t i = 0; i < table->param_n; i++) {
        const fw_param *p = &table->param[i];
        const fw_stored_tensor *t = fw_safetensors_find(file, p->name);
        int rank = p->cols == 0 ? 1 : 2;
        if (t == NULL || t->dtype != FW_STORED_F32 || t->rank != rank || t->shape[0] != p->rows ||
            (rank == 2 && t->shape[1] != p->cols)) {
            status = fw_fail(FW_ERR_INPUT, "%s: tensor %s is %s: the checkpoint is of another model", path, p->name,
                             t == NULL ? "missing" : "of another shape or dtype");
            goto done;
        }
    }
done:
    fw_free(path);
    return status;
}

fw_status fw_checkpoint_open(fw_checkpoint_files *files, const char *path, const fw_param_table *table,
                             fw_checkpoint_state *state) {
    *files = (fw_checkpoint_files){.table = table};
    fw_checkpoint_state found = {0};
    json_t *manifest = NULL;
    fw_status status;
    FW_TRY_OR(fw_manifest_load(&manifest, path), done);
    FW_TRY_OR(fw_manifest_state(&found, manifest, path), done);
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++) {
        if (json_object_get(json_object_get(manifest, "files"), array_file[k]) == NULL) {
            status = fw_fail(FW_ERR_INPUT, "%s: the manifest does not name %s: the checkpoint cannot be resumed", path,
                             array_file[k]);
            goto done;
        }
        FW_TRY_OR(open_array(&files->file[k], path, array_file[k], table), done);
    }
    if (state != NULL) {
        *state = found;
        found = (fw_checkpoint_state){0};
    }
done:
    json_decref(manifest);
    fw_checkpoint_state_fini(&found);
    if (status != FW_OK) fw_checkpoint_close(files);
    return status;
}

void fw_checkpoint_close(fw_checkpoint_files *files) {
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++) fw_safetensors_close(&files->file[k]);
    *files = (fw_checkpoint_files){0};
}

fw_status fw_checkpoint_read(const fw_checkpoint_files *files, fw_checkpoint_array array, int32_t unit, int64_t first_n,
                             int64_t n, float *out) {
    fw_safetensors file = files->file[array];
    fw_model_folder folder = {.shard = &file, .shard_n = 1};
    return fw_model_folder_read(&folder, files->table, unit, first_n, n, out);
}

fw_status fw_checkpoint_load_state(fw_checkpoint_state *state, const char *path) {
    *state = (fw_checkpoint_state){0};
    json_t *manifest;
    FW_TRY(fw_manifest_load(&manifest, path));
    fw_status status = fw_manifest_state(state, manifest, path);
    json_decref(manifest);
    return status;
}

fw_status fw_checkpoint_verify(const char *path) {
    json_t *manifest;
    FW_TRY(fw_manifest_load(&manifest, path));
    fw_status status = FW_OK;
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get(manifest, "files"), name, file) {
        char *whole, found[20];
        uint64_t hash = 0, bytes = 0;
        FW_TRY_OR(fw_path_join(&whole, path, name), done);
        status = fw_hash_file(&hash, &bytes, whole);
        snprintf(found, sizeof found, "%016" PRIx64, hash);
        const char *want = json_string_value(json_object_get(file, "xxh64"));
        if (status == FW_OK && strcmp(found, want) != 0)
            status =
                fw_fail(FW_ERR_INPUT, "%s is damaged: its checksum is %s, the manifest says %s", whole, found, want);
        fw_free(whole);
        if (status != FW_OK) goto done;
    }
done:
    json_decref(manifest);
    return status;
}
