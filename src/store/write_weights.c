#include "store/write_weights.h"

#include "base/alloc.h"
#include "base/plural.h"
#include "store/model_folder.h"
#include "store/small_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, HEADER_BYTES_PER_TENSOR = 256 };
static const uint64_t SHARD_BYTES = 5000000000u; /* as transformers */

fw_status fw_weights_metadata(json_t **out) {
    *out = json_pack("{s:s, s:s}", "format", "pt", "producer", "finewire");
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while making a safetensors header");
}

bool fw_weights_are_ours(const fw_safetensors *file) {
    const char *producer = json_string_value(json_object_get(file->metadata, "producer"));
    return producer != NULL && strcmp(producer, "finewire") == 0;
}

uint64_t fw_weights_bytes(const fw_param_table *table, fw_dtype dtype) {
    return (uint64_t)table->parameter_n * fw_dtype_bytes(dtype) +
           (uint64_t)table->param_n * 2 * HEADER_BYTES_PER_TENSOR + 4096;
}

/* Which shard each parameter goes to: filled in order, a new one when the next tensor would not fit. */
static int32_t assign_shards(int32_t *shard, const fw_param_table *table, size_t element_bytes, uint64_t max_bytes) {
    uint64_t bytes = 0;
    int32_t at = 0;
    for (int32_t i = 0; i < table->param_n; i++) {
        uint64_t more = (uint64_t)table->param[i].n * element_bytes;
        if (bytes > 0 && bytes + more > max_bytes) {
            at++;
            bytes = 0;
        }
        bytes += more;
        shard[i] = at;
    }
    return at + 1;
}

static void shard_name(char name[NAME_BYTES], int32_t shard, int32_t shard_n) {
    if (shard_n == 1)
        snprintf(name, NAME_BYTES, "model.safetensors");
    else
        snprintf(name, NAME_BYTES, "model-%05d-of-%05d.safetensors", shard + 1, shard_n);
}

/* Parameters [first, last) into one file. */
static fw_status write_shard(const char *path, const fw_param_table *table, int32_t first, int32_t last,
                             fw_stored_dtype dtype, const json_t *more, fw_param_reader reader, void *context) {
    fw_safetensors_writer w = {.file = {.fd = -1}};
    fw_safetensors_entry *entry = NULL;
    json_t *metadata = NULL;
    float *values = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(entry, (size_t)(last - first)), done);
    FW_TRY_OR(FW_NEW_ARRAY(values, FW_EXPORT_CHUNK_N), done);
    FW_TRY_OR(fw_weights_metadata(&metadata), done);
    if (more != NULL && json_object_update(metadata, (json_t *)(uintptr_t)more) != 0) {
        status = fw_fail(FW_ERR_NOMEM, "out of memory while writing %s", path);
        goto done;
    }
    for (int32_t i = first; i < last; i++) {
        const fw_param *p = &table->param[i];
        entry[i - first] = (fw_safetensors_entry){p->name, dtype, p->cols == 0 ? 1 : 2, {p->rows, p->cols}};
    }
    FW_TRY_OR(fw_safetensors_writer_open(&w, path, entry, (size_t)(last - first), metadata), done);
    for (int32_t i = first; i < last; i++) {
        const fw_param *p = &table->param[i];
        for (int64_t at = 0; at < p->n;) {
            int64_t n = p->n - at < FW_EXPORT_CHUNK_N ? p->n - at : FW_EXPORT_CHUNK_N;
            FW_TRY_OR(reader(context, p, at, n, values), done);
            FW_TRY_OR(fw_safetensors_writer_put_f32(&w, values, (size_t)n), done);
            at += n;
        }
    }
    FW_TRY_OR(fw_safetensors_writer_commit(&w), done);
done:
    fw_safetensors_writer_close(&w);
    fw_free(entry);
    fw_free(values);
    json_decref(metadata);
    return status;
}

fw_status fw_weights_write_file(const char *path, const fw_param_table *table, fw_dtype dtype, const json_t *more,
                                fw_param_reader reader, void *context) {
    return write_shard(path, table, 0, table->param_n, fw_stored_dtype_of(dtype), more, reader, context);
}

static fw_status write_index(const char *dir, const fw_param_table *table, const int32_t *shard, int32_t shard_n,
                             size_t element_bytes) {
    char *path = NULL, name[NAME_BYTES];
    json_t *map = json_object(), *index = NULL;
    fw_status status = FW_OK;
    for (int32_t i = 0; i < table->param_n && status == FW_OK; i++) {
        shard_name(name, shard[i], shard_n);
        if (json_object_set_new(map, table->param[i].name, json_string(name)) != 0)
            status = fw_fail(FW_ERR_NOMEM, "out of memory while writing the index of %s", dir);
    }
    if (status != FW_OK) goto done;
    index = json_pack("{s:{s:I, s:I}, s:O}", "metadata", "total_parameters", (json_int_t)table->parameter_n,
                      "total_size", (json_int_t)((uint64_t)table->parameter_n * element_bytes), "weight_map", map);
    if (index == NULL) {
        status = fw_fail(FW_ERR_NOMEM, "out of memory while writing the index of %s", dir);
        goto done;
    }
    FW_TRY_OR(fw_path_join(&path, dir, "model.safetensors.index.json"), done);
    FW_TRY_OR(fw_json_save(index, path), done);
done:
    json_decref(map);
    json_decref(index);
    fw_free(path);
    return status;
}

fw_status fw_weights_write(const char *dir, const fw_param_table *table, const fw_export_options *options,
                           fw_param_reader reader, void *context) {
    size_t element_bytes = fw_dtype_bytes(options->dtype);
    int32_t *shard = NULL;
    fw_status status = FW_OK;
    FW_TRY(FW_NEW_ARRAY(shard, (size_t)table->param_n));
    uint64_t max_bytes = options->max_shard_bytes != 0 ? options->max_shard_bytes : SHARD_BYTES;
    int32_t shard_n = assign_shards(shard, table, element_bytes, max_bytes);
    for (int32_t first = 0, last; first < table->param_n; first = last) {
        for (last = first; last < table->param_n && shard[last] == shard[first];) last++;
        char name[NAME_BYTES], *path;
        shard_name(name, shard[first], shard_n);
        FW_TRY_OR(fw_path_join(&path, dir, name), done);
        status = write_shard(path, table, first, last, fw_stored_dtype_of(options->dtype), NULL, reader, context);
        fw_free(path);
        if (status != FW_OK) goto done;
    }
    if (shard_n > 1) FW_TRY_OR(write_index(dir, table, shard, shard_n, element_bytes), done);
done:
    fw_free(shard);
    return status;
}

fw_status fw_weights_verify(const char *dir, const fw_param_table *table, fw_dtype dtype) {
    fw_model_folder folder = {0};
    fw_model_config config;
    fw_status status;
    FW_TRY_OR(fw_model_config_load(&config, dir), done);
    FW_TRY_OR(fw_model_folder_open(&folder, dir), done);
    FW_TRY_OR(fw_model_folder_check(&folder, table, &config), done);
    size_t tensor_n = 0;
    for (size_t i = 0; i < folder.shard_n; i++) tensor_n += folder.shard[i].tensor_n;
    if (tensor_n != (size_t)table->param_n) {
        status = fw_fail(FW_ERR_IO, "%s has %zu tensor%s after writing, not %d", dir, tensor_n,
                         fw_plural((int64_t)tensor_n), table->param_n);
        goto done;
    }
    for (int32_t i = 0; i < table->param_n; i++) {
        const fw_stored_tensor *t = fw_model_folder_find(&folder, table->param[i].name, NULL);
        if (t->dtype != fw_stored_dtype_of(dtype)) {
            status = fw_fail(FW_ERR_IO, "%s: %s is %s after writing, not %s", dir, t->name,
                             fw_stored_dtype_name(t->dtype), fw_dtype_name(dtype));
            goto done;
        }
    }
done:
    fw_model_folder_close(&folder);
    return status;
}
