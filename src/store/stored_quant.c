#include "store/stored_quant.h"

#include "base/alloc.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256, STATE_LIMIT_BYTES = 1 << 16, BLOCK_MAX = 1 << 20 };

static const char *const beside[] = {".absmax",
                                     ".quant_map",
                                     ".nested_absmax",
                                     ".nested_quant_map",
                                     ".quant_state.bitsandbytes__nf4",
                                     ".quant_state.bitsandbytes__fp4"};

static const fw_stored_tensor *find(const fw_model_folder *folder, const char *name, const char *suffix,
                                    const fw_safetensors **file) {
    char full[NAME_BYTES];
    const int n = snprintf(full, sizeof full, "%s%s", name, suffix);
    return n < 0 || (size_t)n >= sizeof full ? NULL : fw_model_folder_find(folder, full, file);
}

static const fw_stored_tensor *find_state(const fw_model_folder *folder, const char *name, fw_quant_kind *kind,
                                          const fw_safetensors **file) {
    for (int i = 0; i < FW_QUANT_KIND_N; i++) {
        char suffix[48];
        *kind = (fw_quant_kind)i;
        snprintf(suffix, sizeof suffix, ".quant_state.bitsandbytes__%s", fw_quant_kind_name(*kind));
        const fw_stored_tensor *state = find(folder, name, suffix, file);
        if (state != NULL) return state;
    }
    return NULL;
}

bool fw_stored_quant_has(const fw_model_folder *folder, const char *name) {
    fw_quant_kind kind;
    const fw_safetensors *file;
    return find_state(folder, name, &kind, &file) != NULL;
}

bool fw_stored_quant_belongs(const fw_model_folder *folder, const char *tensor) {
    const size_t length = strlen(tensor);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        const size_t end = strlen(beside[i]);
        char name[NAME_BYTES];
        if (length <= end || length >= sizeof name || strcmp(tensor + length - end, beside[i]) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - end), tensor);
        if (fw_stored_quant_has(folder, name) && fw_model_folder_find(folder, name, NULL) != NULL) return true;
    }
    return false;
}

/* The data of NAME.suffix, which must have this type and n elements. */
static fw_status want(const uint8_t **data, const fw_model_folder *folder, const char *name, const char *suffix,
                      fw_stored_dtype dtype, int64_t n) {
    const fw_safetensors *file = NULL;
    const fw_stored_tensor *t = find(folder, name, suffix, &file);
    if (t == NULL)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s%s is missing, which the 4-bit matrix needs", folder->dir, name,
                       suffix);
    if (t->dtype != dtype || t->n != n)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s%s has %lld elements of %s; %lld of %s are needed", file->path, name,
                       suffix, (long long)t->n, fw_stored_dtype_name(t->dtype), (long long)n,
                       fw_stored_dtype_name(dtype));
    *data = file->mapping.data + t->offset_bytes;
    return FW_OK;
}

/* The codes, which bnb_4bit_quant_storage may have as numbers of another type: the bytes are the same. */
static fw_status want_codes(fw_stored_quant *q, const fw_model_folder *folder, const char *name) {
    const fw_safetensors *file = NULL;
    const fw_stored_tensor *t = find(folder, name, "", &file);
    const bool holds_codes = t != NULL && (t->dtype == FW_STORED_BF16 || t->dtype == FW_STORED_F16 ||
                                           t->dtype == FW_STORED_F32 || t->dtype == FW_STORED_F64);
    if (!holds_codes || t->bytes != (size_t)fw_quant_code_bytes(q->n))
        return want(&q->code, folder, name, "", FW_STORED_U8, fw_quant_code_bytes(q->n));
    q->code = file->mapping.data + t->offset_bytes;
    return FW_OK;
}

static bool is_shape(const json_t *shape, int64_t rows, int64_t cols) {
    return json_is_array(shape) && json_array_size(shape) == 2 &&
           json_integer_value(json_array_get(shape, 0)) == rows && json_integer_value(json_array_get(shape, 1)) == cols;
}

static bool read_block(int64_t *out, const json_t *value) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 2 && *out <= BLOCK_MAX && *out % 2 == 0;
}

/* The JSON beside the codes. `where`: file and tensor, for messages. */
static fw_status read_state(fw_stored_quant *q, const json_t *state, const char *where, int64_t rows, int64_t cols) {
    const char *kind = json_string_value(json_object_get(state, "quant_type"));
    const json_t *offset = json_object_get(state, "nested_offset");
    if (kind == NULL || strcmp(kind, fw_quant_kind_name(q->kind)) != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"quant_type\" is \"%.20s\", the tensor's name says %s", where,
                       kind == NULL ? "" : kind, fw_quant_kind_name(q->kind));
    if (!is_shape(json_object_get(state, "shape"), rows, cols))
        return fw_fail(FW_ERR_INPUT, "%s: \"shape\" is not the [%lld, %lld] that config.json asks for", where,
                       (long long)rows, (long long)cols);
    if (!read_block(&q->block, json_object_get(state, "blocksize")))
        return fw_fail(FW_ERR_INPUT, "%s: \"blocksize\" is not an even number from 2 to %d", where, BLOCK_MAX);
    q->nested = offset != NULL;
    if (!q->nested) return FW_OK;
    q->offset = (float)json_number_value(offset);
    if (!json_is_number(offset) || !isfinite(q->offset))
        return fw_fail(FW_ERR_INPUT, "%s: \"nested_offset\" is not a number", where);
    if (!read_block(&q->nested_block, json_object_get(state, "nested_blocksize")))
        return fw_fail(FW_ERR_INPUT, "%s: \"nested_blocksize\" is not an even number from 2 to %d", where, BLOCK_MAX);
    return FW_OK;
}

static fw_status open_state(fw_stored_quant *q, const fw_model_folder *folder, const char *name, int64_t rows,
                            int64_t cols) {
    const fw_safetensors *file = NULL;
    const fw_stored_tensor *tensor = find_state(folder, name, &q->kind, &file);
    if (tensor == NULL) return fw_fail(FW_ERR_INPUT, "%s: %s has no quant_state beside it", folder->dir, name);
    char where[512];
    snprintf(where, sizeof where, "%.255s: %.200s", file->path, tensor->name);
    if (tensor->dtype != FW_STORED_U8 || tensor->n > STATE_LIMIT_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s is %s of %lld elements; it must be U8, at most %d", where,
                       fw_stored_dtype_name(tensor->dtype), (long long)tensor->n, STATE_LIMIT_BYTES);
    json_t *state = NULL;
    FW_TRY(fw_json_parse(&state, (const char *)file->mapping.data + tensor->offset_bytes, (size_t)tensor->n, where, 1));
    const fw_status status = read_state(q, state, where, rows, cols);
    json_decref(state);
    return status;
}

static float float_at(const uint8_t *base, int64_t i) {
    float value;
    memcpy(&value, base + (size_t)i * sizeof value, sizeof value);
    return value;
}

/* What is multiplied must be numbers: one that is not would spoil a training much later, without a name. */
static fw_status check_numbers(const fw_model_folder *folder, const char *name, const char *suffix, const uint8_t *data,
                               int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(float_at(data, i)))
            return fw_fail(FW_ERR_INPUT, "%s: tensor %s%s: element %lld is %g; the folder is damaged", folder->dir,
                           name, suffix, (long long)i, (double)float_at(data, i));
    return FW_OK;
}

fw_status fw_stored_quant_check(const fw_stored_quant *q, const fw_model_folder *folder, const char *name) {
    FW_TRY(check_numbers(folder, name, ".quant_map", q->map4, FW_QUANT_MAP4_N));
    if (!q->nested) return check_numbers(folder, name, ".absmax", q->absmax, q->block_n);
    FW_TRY(check_numbers(folder, name, ".nested_quant_map", q->map8, FW_QUANT_MAP8_N));
    return check_numbers(folder, name, ".nested_absmax", q->nested_absmax,
                         fw_quant_block_n(q->block_n, q->nested_block));
}

fw_status fw_stored_quant_open(fw_stored_quant *q, const fw_model_folder *folder, const char *name, int64_t rows,
                               int64_t cols) {
    *q = (fw_stored_quant){.n = rows * cols};
    FW_TRY(open_state(q, folder, name, rows, cols));
    q->block_n = fw_quant_block_n(q->n, q->block);
    FW_TRY(want_codes(q, folder, name));
    FW_TRY(want(&q->map4, folder, name, ".quant_map", FW_STORED_F32, FW_QUANT_MAP4_N));
    if (!q->nested) return want(&q->absmax, folder, name, ".absmax", FW_STORED_F32, q->block_n);
    FW_TRY(want(&q->absmax, folder, name, ".absmax", FW_STORED_U8, q->block_n));
    FW_TRY(want(&q->map8, folder, name, ".nested_quant_map", FW_STORED_F32, FW_QUANT_MAP8_N));
    return want(&q->nested_absmax, folder, name, ".nested_absmax", FW_STORED_F32,
                fw_quant_block_n(q->block_n, q->nested_block));
}

static float scale_of(const fw_stored_quant *q, int64_t b) {
    if (!q->nested) return float_at(q->absmax, b);
    const float map8 = float_at(q->map8, q->absmax[b]), nested = float_at(q->nested_absmax, b / q->nested_block);
    const uint8_t zero = 0;
    const fw_quant_scales one = {
        .block = 2, .scale_code = &zero, .map8 = &map8, .nested = &nested, .offset = &q->offset, .nested_block = 2};
    return fw_quant_scale(&one, 0);
}

void fw_stored_quant_read(const fw_stored_quant *q, int64_t first, int64_t n, float *out) {
    float map4[FW_QUANT_MAP4_N];
    memcpy(map4, q->map4, sizeof map4);
    for (int64_t i = first, next; i < first + n; i = next) {
        const int64_t b = i / q->block, end = (b + 1) * q->block;
        const float scale = scale_of(q, b);
        for (next = i; next < end && next < first + n; next++)
            out[next - first] = map4[next % 2 == 0 ? q->code[next / 2] >> 4 : q->code[next / 2] & 15] * scale;
    }
}
