/* Saving one checkpoint: what one process does before and after all ranks have written their parts. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "store/checkpoint_pieces.h"
#include "store/manifest.h"
#include "store/small_files.h"
#include "store/write_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    RANGE_ALIGN = FW_STATE_BLOCK_N,
    PIECE_TEXT_BYTES = 700
}; /* of a piece in its header and in the manifest, generously */

void fw_checkpoint_state_fini(fw_checkpoint_state *state) {
    json_decref(state->options);
    json_decref(state->run);
    json_decref(state->schedule);
    json_decref(state->metrics);
    json_decref(state->adapter);
    *state = (fw_checkpoint_state){0};
}

/* Each writer cuts at most two tensors of a unit: three pieces each instead of one. */
uint64_t fw_checkpoint_bytes(const fw_param_table *table, fw_optimizer optimizer, int place_n) {
    uint64_t cut_n = (uint64_t)table->unit_n * (uint64_t)place_n * 4;
    uint64_t bytes = fw_weights_bytes(table, FW_F32);
    int most = 1;
    for (int32_t i = 0; i < table->param_n; i++) {
        fw_piece_tensor tensor[FW_CHECKPOINT_ARRAYS_MAX];
        const int n = fw_piece_tensors(tensor, optimizer, &table->param[i]);
        for (int k = 1; k < n; k++) bytes += (uint64_t)tensor[k].shape.n * tensor[k].value_bytes;
        if (n > most) most = n;
    }
    bytes += bytes / FW_CHECKPOINT_BLOCK_BYTES * 16; /* digits of each block, in the manifest */
    return bytes + 65536 + (uint64_t)most * ((uint64_t)table->param_n + cut_n) * PIECE_TEXT_BYTES;
}

void fw_checkpoint_even_ranges(fw_checkpoint_range *range, const fw_param_table *table, int place, int place_n) {
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        int64_t size = table->unit_size_n[unit], part = (size + place_n - 1) / place_n;
        part = (part + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
        int64_t first = part * place < size ? part * place : size;
        range[unit] = (fw_checkpoint_range){first, size - first < part ? size - first : part};
    }
}

/* A file that may be there, as it is on disk. */
static fw_status add_small_file(json_t *part, const char *dir, const char *name) {
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    uint64_t hash, bytes;
    fw_status status = FW_OK;
    if (fw_file_exists(path)) {
        status = fw_hash_file(&hash, &bytes, path);
        if (status == FW_OK) status = fw_manifest_add_file(part, name, bytes, hash);
    }
    fw_free(path);
    return status;
}

/* config.json, the tokenizer, ...: copied, then hashed. */
fw_status fw_checkpoint_write_small_files(fw_checkpoint_writer *w, const char *source_dir) {
    const char *dir = w->staged.path_tmp;
    FW_TRY(fw_small_files_copy(source_dir, dir, FW_F32, false));
    FW_TRY(add_small_file(w->small_files, dir, "config.json"));
    for (int i = 0; fw_small_file_names[i] != NULL; i++)
        FW_TRY(add_small_file(w->small_files, dir, fw_small_file_names[i]));
    return FW_OK;
}

static fw_status write_adapter(json_t *part, const char *dir, const json_t *adapter) {
    static const char name[] = "adapter_config.json";
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status = fw_json_save(adapter, path);
    if (status == FW_OK) status = add_small_file(part, dir, name);
    fw_free(path);
    return status;
}

fw_status fw_checkpoint_begin(fw_checkpoint_writer *w, const char *output_dir, const char *source_dir,
                              const fw_param_table *table, fw_optimizer optimizer, int64_t step, int place_n) {
    *w = (fw_checkpoint_writer){0};
    uint64_t need_bytes = fw_checkpoint_bytes(table, optimizer, place_n);
    char *final = NULL, name[40];
    fw_status status;
    snprintf(name, sizeof name, "step-%08" PRId64, step);
    FW_TRY_OR(fw_path_join(&final, output_dir, name), done);
    FW_TRY_OR(fw_small_files_bytes(&need_bytes, source_dir), done);
    FW_TRY_OR(fw_store_check_space(output_dir, need_bytes, final), done);
    FW_TRY_OR(fw_staged_folder_begin(&w->staged, final, true), done);
    FW_TRY_OR(fw_manifest_make_part(&w->small_files), done);
done:
    fw_free(final);
    if (status != FW_OK) fw_checkpoint_writer_close(w);
    return status;
}

fw_status fw_checkpoint_commit(fw_checkpoint_writer *w, const fw_param_table *table, json_t *const *part, int part_n,
                               const fw_checkpoint_state *state) {
    json_t *manifest = NULL;
    fw_status status;
    FW_TRY_OR(fw_manifest_make(&manifest, state, table), done);
    for (int i = 0; i < part_n; i++) {
        char who[32];
        snprintf(who, sizeof who, "writer %d of %d", i + 1, part_n);
        FW_TRY_OR(fw_manifest_see_files(part[i], w->staged.path_tmp, who), done);
        FW_TRY_OR(fw_manifest_merge(manifest, part[i]), done);
    }
    if (state->adapter != NULL) FW_TRY_OR(write_adapter(w->small_files, w->staged.path_tmp, state->adapter), done);
    FW_TRY_OR(fw_manifest_merge(manifest, w->small_files), done);
    FW_TRY_OR(fw_manifest_save(manifest, w->staged.path_tmp), done);
    FW_TRY_OR(fw_staged_folder_commit(&w->staged), done);
done:
    json_decref(manifest);
    return status;
}

void fw_checkpoint_writer_close(fw_checkpoint_writer *w) {
    fw_staged_folder_close(&w->staged);
    json_decref(w->small_files);
    *w = (fw_checkpoint_writer){0};
}

fw_status fw_checkpoint_save(char **path, const char *output_dir, const char *source_dir, const fw_param_table *table,
                             int place_n, fw_checkpoint_source source, void *context,
                             const fw_checkpoint_state *state) {
    if (path != NULL) *path = NULL;
    fw_checkpoint_writer w = {0};
    fw_checkpoint_range *range = NULL;
    json_t **part = NULL;
    const bool is_new = !fw_dir_exists(output_dir);
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(range, (size_t)table->unit_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(part, (size_t)place_n), done);
    FW_TRY_OR(fw_dir_make(output_dir), done);
    FW_TRY_OR(fw_checkpoint_begin(&w, output_dir, source_dir, table, state->optimizer, state->step, place_n), done);
    FW_TRY_OR(fw_checkpoint_write_small_files(&w, source_dir), done);
    for (int i = 0; i < place_n; i++) {
        fw_checkpoint_even_ranges(range, table, i, place_n);
        const fw_checkpoint_share share = {i, place_n, range, source, context, NULL, state->optimizer};
        FW_TRY_OR(fw_checkpoint_write_part(&part[i], w.staged.path_tmp, table, &share), done);
    }
    FW_TRY_OR(fw_checkpoint_commit(&w, table, part, place_n, state), done);
    if (path != NULL) {
        *path = w.staged.path;
        w.staged.path = NULL;
    }
done:
    for (int i = 0; part != NULL && i < place_n; i++) json_decref(part[i]);
    fw_free(part);
    fw_free(range);
    fw_checkpoint_writer_close(&w);
    if (status != FW_OK && is_new) rmdir(output_dir); /* when it is empty: nothing is left */
    return status;
}
