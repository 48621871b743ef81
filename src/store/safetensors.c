#include "store/safetensors.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LIMIT_BYTES = 100000000 }; /* the limit of the reference reader */

static const struct {
    const char *name;
    size_t bytes;
} stored_dtype[FW_STORED_DTYPE_N] = {
    [FW_STORED_F64] = {"F64", 8},   [FW_STORED_F32] = {"F32", 4}, [FW_STORED_F16] = {"F16", 2},
    [FW_STORED_BF16] = {"BF16", 2}, [FW_STORED_I64] = {"I64", 8}, [FW_STORED_I32] = {"I32", 4},
    [FW_STORED_I16] = {"I16", 2},   [FW_STORED_I8] = {"I8", 1},   [FW_STORED_U8] = {"U8", 1},
    [FW_STORED_BOOL] = {"BOOL", 1},
};

/* In the format, but nothing here can use them: the message differs from that for a misspelt name. */
static const char *const unsupported_dtype[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",
                                                "F6_E2M3", "F6_E3M2", "U16",     "U32",         "U64",         "C64"};

const char *fw_stored_dtype_name(fw_stored_dtype dtype) { return stored_dtype[dtype].name; }
size_t fw_stored_dtype_bytes(fw_stored_dtype dtype) { return stored_dtype[dtype].bytes; }

fw_stored_dtype fw_stored_dtype_of(fw_dtype dtype) {
    switch (dtype) {
    case FW_F32: return FW_STORED_F32;
    case FW_BF16: return FW_STORED_BF16;
    case FW_F16: return FW_STORED_F16;
    case FW_F64: return FW_STORED_F64;
    case FW_I32: return FW_STORED_I32;
    case FW_I64: return FW_STORED_I64;
    case FW_U8: return FW_STORED_U8;
    case FW_DTYPE_N: break;
    }
    FW_ASSERT(dtype < FW_DTYPE_N);
    return FW_STORED_F32;
}

void fw_stored_shape_text(char *text, size_t text_bytes, const int64_t *shape, int rank) {
    size_t used = (size_t)snprintf(text, text_bytes, "[");
    for (int i = 0; i < rank && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (used < text_bytes) snprintf(text + used, text_bytes - used, "]");
}

static fw_status parse_dtype(fw_stored_dtype *out, const json_t *value, const char *where, const char *name) {
    if (!json_is_string(value))
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s has no \"dtype\" string in the header", where, name);
    const char *text = json_string_value(value);
    for (int i = 0; i < FW_STORED_DTYPE_N; i++)
        if (strcmp(text, stored_dtype[i].name) == 0) {
            *out = (fw_stored_dtype)i;
            return FW_OK;
        }
    for (size_t i = 0; i < sizeof unsupported_dtype / sizeof *unsupported_dtype; i++)
        if (strcmp(text, unsupported_dtype[i]) == 0)
            return fw_fail(FW_ERR_INPUT,
                           "%s: tensor %.200s is stored as %s, which is not supported; convert the model to BF16, F16 "
                           "or F32",
                           where, name, text);
    return fw_fail(FW_ERR_INPUT,
                   "%s: tensor %.200s has the unknown dtype \"%.40s\"; known are F64 F32 F16 BF16 I64 "
                   "I32 I16 I8 U8 BOOL",
                   where, name, text);
}

static fw_status parse_shape(fw_stored_tensor *t, const json_t *value, const char *where) {
    if (!json_is_array(value))
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s has no \"shape\" array in the header", where, t->name);
    if (json_array_size(value) > FW_TENSOR_RANK_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s has %zu dimensions; at most %d are supported", where, t->name,
                       json_array_size(value), FW_TENSOR_RANK_MAX);
    t->rank = (int)json_array_size(value);
    t->n = 1;
    for (int i = 0; i < t->rank; i++) {
        const json_t *size = json_array_get(value, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s: size %d of its shape is not a whole number", where,
                           t->name, i);
        t->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(t->n, t->shape[i], &t->n))
            return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s: the product of its shape overflows at size %" PRId64,
                           where, t->name, t->shape[i]);
    }
    return FW_OK;
}

/* data_offsets against dtype and shape; on return offset_bytes still counts from the start of the data. */
static fw_status parse_offsets(fw_stored_tensor *t, const json_t *value, const char *where) {
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, 1);
    if (!json_is_array(value) || json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s: \"data_offsets\" must be two rising whole numbers", where,
                       t->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last), need;
    if (__builtin_mul_overflow(t->n, (int64_t)stored_dtype[t->dtype].bytes, &need) || need != end - begin) {
        char shape[200];
        fw_stored_shape_text(shape, sizeof shape, t->shape, t->rank);
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %.200s: shape %s of %s does not fit its data_offsets [%" PRId64 ", %" PRId64
                       "], which hold %" PRId64 " bytes",
                       where, t->name, shape, stored_dtype[t->dtype].name, begin, end, end - begin);
    }
    t->offset_bytes = (size_t)begin;
    t->bytes = (size_t)need;
    return FW_OK;
}

static fw_status parse_tensor(fw_stored_tensor *t, const char *name, const json_t *value, const char *where) {
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return fw_fail(FW_ERR_INPUT, "%s: a tensor name has the control character 0x%02x at byte %td", where,
                           (unsigned)(unsigned char)*c, c - name);
    if (!json_is_object(value))
        return fw_fail(FW_ERR_INPUT, "%s: the header's entry %.200s is not an object", where, name);
    FW_TRY(fw_strdup(&t->name, name));
    FW_TRY(parse_dtype(&t->dtype, json_object_get(value, "dtype"), where, name));
    FW_TRY(parse_shape(t, json_object_get(value, "shape"), where));
    return parse_offsets(t, json_object_get(value, "data_offsets"), where);
}

static int compare_offsets(const void *a, const void *b) {
    const fw_stored_tensor *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const fw_stored_tensor *)a)->name, ((const fw_stored_tensor *)b)->name);
}

/* The tensors must tile [0, data_bytes): no overlap, no hole, nothing behind the last one. */
static fw_status check_tiling(fw_safetensors *file, size_t data_bytes, const char *where) {
    if (file->tensor_n > 1) qsort(file->tensor, file->tensor_n, sizeof *file->tensor, compare_offsets);
    size_t end = 0, said_bytes = 0;
    for (size_t i = 0; i < file->tensor_n; i++) {
        size_t last = file->tensor[i].offset_bytes + file->tensor[i].bytes; /* both below 2^63 */
        if (last > said_bytes) said_bytes = last;
    }
    if (said_bytes > data_bytes)
        return fw_fail(FW_ERR_INPUT,
                       "%s: the file is truncated: header says %zu bytes of data, %zu are there; copy or download it "
                       "again",
                       where, said_bytes, data_bytes);
    for (size_t i = 0; i < file->tensor_n; i++) {
        const fw_stored_tensor *t = &file->tensor[i];
        if (t->offset_bytes < end)
            return fw_fail(FW_ERR_INPUT,
                           "%s: tensors %.200s and %.200s overlap: the second starts at byte %zu of the data, the "
                           "first ends at %zu",
                           where, file->tensor[i - 1].name, t->name, t->offset_bytes, end);
        if (t->offset_bytes > end)
            return fw_fail(FW_ERR_INPUT, "%s: hole in the data before tensor %.200s: bytes %zu to %zu belong to none",
                           where, t->name, end, t->offset_bytes);
        end += t->bytes;
    }
    if (end < data_bytes)
        return fw_fail(FW_ERR_INPUT,
                       "%s: %zu byte%s behind the last tensor: header says %zu bytes of data, %zu are there", where,
                       data_bytes - end, fw_plural_are((int64_t)(data_bytes - end)), end, data_bytes);
    return FW_OK;
}

static fw_status parse_header(fw_safetensors *file, const char *where) {
    const uint8_t *data = file->mapping.data;
    size_t bytes = file->mapping.bytes;
    if (bytes < 8)
        return fw_fail(FW_ERR_INPUT, "%s: not a safetensors file: %zu byte%s, and the length of the header takes 8",
                       where, bytes, fw_plural((int64_t)bytes));
    uint64_t header_bytes = 0;
    for (int i = 7; i >= 0; i--) header_bytes = header_bytes << 8 | data[i];
    if (header_bytes > bytes - 8)
        return fw_fail(FW_ERR_INPUT,
                       "%s: the header is said to be %" PRIu64 " bytes long, longer than the file (%zu bytes): it is "
                       "truncated or not a safetensors file",
                       where, header_bytes, bytes);
    if (header_bytes > HEADER_LIMIT_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: the header is said to be %" PRIu64 " bytes long; at most %d are allowed",
                       where, header_bytes, HEADER_LIMIT_BYTES);
    size_t data_start = 8 + (size_t)header_bytes;
    json_t *header = NULL;
    fw_status status = fw_json_parse(&header, (const char *)data + 8, (size_t)header_bytes, where, 1);
    if (status == FW_ERR_INPUT) fw_fail_context(status, "safetensors header of ");
    if (status != FW_OK) return status;
    if (!json_is_object(header)) {
        status = fw_fail(FW_ERR_INPUT, "%s: the header is not a JSON object: not a safetensors file", where);
        goto done;
    }
    FW_TRY_OR(FW_NEW_ARRAY(file->tensor, json_object_size(header)), done);
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") != 0) {
            file->tensor_n++; /* before parsing, so that its name is released on failure */
            FW_TRY_OR(parse_tensor(&file->tensor[file->tensor_n - 1], name, value, where), done);
            continue;
        }
        const char *key;
        json_t *text;
        if (!json_is_object(value)) {
            status = fw_fail(FW_ERR_INPUT, "%s: \"__metadata__\" is not an object", where);
            goto done;
        }
        json_object_foreach(value, key, text) if (!json_is_string(text)) {
            status = fw_fail(FW_ERR_INPUT, "%s: \"__metadata__\": \"%.100s\" is not a string", where, key);
            goto done;
        }
        file->metadata = json_incref(value);
    }
    FW_TRY_OR(check_tiling(file, bytes - data_start, where), done);
    for (size_t i = 0; i < file->tensor_n; i++) file->tensor[i].offset_bytes += data_start;
    if (file->tensor_n > 1) qsort(file->tensor, file->tensor_n, sizeof *file->tensor, compare_names);
done:
    json_decref(header);
    return status;
}

fw_status fw_safetensors_parse(fw_safetensors *out, const uint8_t *data, size_t bytes, const char *where) {
    *out = (fw_safetensors){.mapping = {.data = data, .bytes = bytes}};
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->path, where), fail);
    FW_TRY_OR(parse_header(out, where), fail);
    return FW_OK;
fail:
    fw_safetensors_close(out);
    return status;
}

fw_status fw_safetensors_open(fw_safetensors *out, const char *path) {
    *out = (fw_safetensors){0};
    fw_mapping mapping;
    FW_TRY(fw_file_map(&mapping, path));
    fw_status status = fw_safetensors_parse(out, mapping.data, mapping.bytes, path);
    if (status != FW_OK) {
        fw_file_unmap(&mapping);
        return status;
    }
    out->mapped = true;
    return FW_OK;
}

void fw_safetensors_close(fw_safetensors *file) {
    for (size_t i = 0; i < file->tensor_n; i++) fw_free(file->tensor[i].name);
    fw_free(file->tensor);
    fw_free(file->path);
    json_decref(file->metadata);
    if (file->mapped) fw_file_unmap(&file->mapping);
    *file = (fw_safetensors){0};
}

const fw_stored_tensor *fw_safetensors_find(const fw_safetensors *file, const char *name) {
    size_t low = 0, high = file->tensor_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->tensor[middle].name, name);
        if (order == 0) return &file->tensor[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

fw_status fw_safetensors_read_f32(float *out, const fw_safetensors *file, const fw_stored_tensor *tensor,
                                  int64_t first_n, int64_t n) {
    FW_ASSERT(first_n >= 0 && n >= 0 && first_n <= tensor->n && n <= tensor->n - first_n);
    if (n == 0) return FW_OK;
    const uint8_t *source =
        file->mapping.data + tensor->offset_bytes + (size_t)first_n * stored_dtype[tensor->dtype].bytes;
    uint16_t bits; /* the data need not be aligned */
    switch (tensor->dtype) {
    case FW_STORED_F32: memcpy(out, source, (size_t)n * sizeof *out); return FW_OK;
    case FW_STORED_BF16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&bits, source + 2 * i, sizeof bits);
            out[i] = fw_bf16_to_f32(bits);
        }
        return FW_OK;
    case FW_STORED_F16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&bits, source + 2 * i, sizeof bits);
            out[i] = fw_f16_to_f32(bits);
        }
        return FW_OK;
    default: break;
    }
    return fw_fail(FW_ERR_INPUT, "%s: tensor %s is stored as %s; weights must be F32, BF16 or F16", file->path,
                   tensor->name, stored_dtype[tensor->dtype].name);
}
