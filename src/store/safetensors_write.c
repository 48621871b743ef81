/* The streaming writer of safetensors files. */
#include "store/safetensors.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <string.h>

enum { CONVERT_N = 8192 }; /* values converted at a time */

/* The header as text, padded with spaces so that the data starts at a multiple of 8; *bytes: of all data. */
static fw_status make_header(fw_strbuf *out, uint64_t *data_bytes, const fw_safetensors_entry *entry, size_t entry_n,
                             const json_t *metadata) {
    fw_status status = FW_ERR_NOMEM;
    uint64_t offset = 0;
    json_t *header = json_object(), *meta = metadata ? json_copy((json_t *)(uintptr_t)metadata) : json_object();
    if (meta != NULL && json_object_get(meta, "format") == NULL &&
        json_object_set_new(meta, "format", json_string("pt")) != 0)
        goto nomem;
    if (header == NULL || meta == NULL || json_object_set(header, "__metadata__", meta) != 0) goto nomem;
    for (size_t i = 0; i < entry_n; i++) {
        uint64_t bytes = fw_stored_dtype_bytes(entry[i].dtype), end;
        json_t *shape = json_array();
        for (int k = 0; k < entry[i].rank; k++) {
            if (shape == NULL || json_array_append_new(shape, json_integer(entry[i].shape[k])) != 0) {
                json_decref(shape);
                goto nomem;
            }
            if (entry[i].shape[k] < 0 || __builtin_mul_overflow(bytes, (uint64_t)entry[i].shape[k], &bytes)) {
                json_decref(shape);
                status = fw_fail(FW_ERR_INTERNAL, "the size of tensor %s overflows", entry[i].name);
                goto done;
            }
        }
        if (__builtin_add_overflow(offset, bytes, &end) || end > INT64_MAX) {
            json_decref(shape);
            status = fw_fail(FW_ERR_INTERNAL, "the file with tensor %s would be too large", entry[i].name);
            goto done;
        }
        if (json_object_get(header, entry[i].name) != NULL) {
            json_decref(shape);
            status = fw_fail(FW_ERR_INTERNAL, "tensor %s is to be written twice", entry[i].name);
            goto done;
        }
        json_t *value = json_pack("{s:s, s:o, s:[I, I]}", "dtype", fw_stored_dtype_name(entry[i].dtype), "shape", shape,
                                  "data_offsets", (json_int_t)offset, (json_int_t)end);
        if (json_object_set_new(header, entry[i].name, value) != 0) goto nomem;
        offset = end;
    }
    FW_TRY_OR(fw_json_dump(out, header, JSON_COMPACT), done);
    while (out->len_bytes % 8 != 0) FW_TRY_OR(fw_strbuf_putc(out, ' '), done);
    *data_bytes = offset;
    status = FW_OK;
    goto done;
nomem:
    status = fw_fail(FW_ERR_NOMEM, "out of memory while making a safetensors header");
done:
    json_decref(header);
    json_decref(meta);
    return status;
}

fw_status fw_safetensors_file_bytes(uint64_t *bytes, const fw_safetensors_entry *entry, size_t entry_n,
                                    const json_t *metadata) {
    fw_strbuf header = {0};
    uint64_t data_bytes = 0;
    fw_status status = make_header(&header, &data_bytes, entry, entry_n, metadata);
    *bytes = 8 + header.len_bytes + data_bytes;
    fw_strbuf_fini(&header);
    return status;
}

static fw_status put(fw_safetensors_writer *w, const void *bytes, size_t n_bytes) {
    fw_hash_update(&w->hash, bytes, n_bytes);
    return fw_file_writer_write(&w->file, bytes, n_bytes);
}

fw_status fw_safetensors_writer_open(fw_safetensors_writer *w, const char *path, const fw_safetensors_entry *entry,
                                     size_t entry_n, const json_t *metadata) {
    *w = (fw_safetensors_writer){.file = {.fd = -1}, .tensor_n = entry_n};
    fw_hash_init(&w->hash);
    fw_strbuf header = {0};
    uint64_t data_bytes = 0;
    fw_status status;
    FW_TRY_OR(make_header(&header, &data_bytes, entry, entry_n, metadata), fail);
    FW_TRY_OR(FW_NEW_ARRAY(w->tensor_bytes, entry_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(w->dtype, entry_n), fail);
    for (size_t i = 0; i < entry_n; i++) {
        w->dtype[i] = entry[i].dtype;
        w->tensor_bytes[i] = fw_stored_dtype_bytes(entry[i].dtype);
        for (int k = 0; k < entry[i].rank; k++) w->tensor_bytes[i] *= (uint64_t)entry[i].shape[k];
    }
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header.len_bytes >> (8 * i));
    FW_TRY_OR(fw_file_writer_open(&w->file, path), fail);
    FW_TRY_OR(put(w, length, sizeof length), fail);
    FW_TRY_OR(put(w, header.data, header.len_bytes), fail);
    w->file_bytes = 8 + header.len_bytes + data_bytes;
    fw_strbuf_fini(&header);
    return FW_OK;
fail:
    fw_strbuf_fini(&header);
    fw_safetensors_writer_close(w);
    return status;
}

/* Go past tensors that are complete, so that tensor_i is the one the next byte belongs to. */
static void skip_complete(fw_safetensors_writer *w) {
    while (w->tensor_i < w->tensor_n && w->tensor_done_bytes == w->tensor_bytes[w->tensor_i]) {
        w->tensor_i++;
        w->tensor_done_bytes = 0;
    }
}

fw_status fw_safetensors_writer_put_bytes(fw_safetensors_writer *w, const void *bytes, size_t n_bytes) {
    const uint8_t *source = bytes;
    while (n_bytes > 0) {
        skip_complete(w);
        if (w->tensor_i == w->tensor_n)
            return fw_fail(FW_ERR_INTERNAL, "%s: more data than its tensors have", w->file.path);
        uint64_t room = w->tensor_bytes[w->tensor_i] - w->tensor_done_bytes;
        size_t take = n_bytes < room ? n_bytes : (size_t)room;
        FW_TRY(put(w, source, take));
        w->tensor_done_bytes += take;
        source += take;
        n_bytes -= take;
    }
    return FW_OK;
}

fw_status fw_safetensors_writer_put_f32(fw_safetensors_writer *w, const float *values, size_t n) {
    uint16_t half[CONVERT_N];
    while (n > 0) {
        skip_complete(w);
        if (w->tensor_i == w->tensor_n)
            return fw_fail(FW_ERR_INTERNAL, "%s: more data than its tensors have", w->file.path);
        fw_stored_dtype dtype = w->dtype[w->tensor_i];
        size_t element = fw_stored_dtype_bytes(dtype), take = n < CONVERT_N ? n : CONVERT_N;
        uint64_t room = (w->tensor_bytes[w->tensor_i] - w->tensor_done_bytes) / element;
        if (take > room) take = (size_t)room;
        if (take == 0) return fw_fail(FW_ERR_INTERNAL, "%s: values put inside an element", w->file.path);
        if (dtype == FW_STORED_F32) {
            FW_TRY(put(w, values, take * element));
        } else if (dtype == FW_STORED_BF16 || dtype == FW_STORED_F16) {
            if (dtype == FW_STORED_BF16)
                for (size_t i = 0; i < take; i++) half[i] = fw_bf16_from_f32(values[i]);
            else
                for (size_t i = 0; i < take; i++) half[i] = fw_f16_from_f32(values[i]);
            FW_TRY(put(w, half, take * element));
        } else {
            return fw_fail(FW_ERR_INTERNAL, "%s: fp32 values put into a tensor of %s", w->file.path,
                           fw_stored_dtype_name(dtype));
        }
        w->tensor_done_bytes += take * element;
        values += take;
        n -= take;
    }
    return FW_OK;
}

fw_status fw_safetensors_writer_commit(fw_safetensors_writer *w) {
    skip_complete(w);
    if (w->tensor_i < w->tensor_n)
        return fw_fail(FW_ERR_INTERNAL, "%s: data is missing from tensor %zu of %zu on", w->file.path, w->tensor_i + 1,
                       w->tensor_n);
    return fw_file_writer_commit(&w->file);
}

void fw_safetensors_writer_close(fw_safetensors_writer *w) {
    fw_file_writer_close(&w->file);
    fw_free(w->tensor_bytes);
    fw_free(w->dtype);
    w->tensor_bytes = NULL;
    w->dtype = NULL;
    w->tensor_n = w->tensor_i = 0;
}
