#include "store/gguf.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LIMIT_BYTES = 256, KEY_LIMIT_BYTES = 65535, ALIGNMENT_DEFAULT = 32, ALIGNMENT_MAX = 1 << 20 };

/* Smallest encodings: what bounds the counts of a hostile header by the size of the file. */
enum { VALUE_MIN_BYTES = 8 + 1 + 4 + 1, TENSOR_MIN_BYTES = 8 + 1 + 4 + 8 + 4 + 8 };

static const struct {
    const char *name;
    uint32_t bytes; /* 0: variable */
} value_type[FW_GGUF_VALUE_TYPE_N] = {
    [FW_GGUF_U8] = {"u8", 1},       [FW_GGUF_I8] = {"i8", 1},     [FW_GGUF_U16] = {"u16", 2},
    [FW_GGUF_I16] = {"i16", 2},     [FW_GGUF_U32] = {"u32", 4},   [FW_GGUF_I32] = {"i32", 4},
    [FW_GGUF_F32] = {"f32", 4},     [FW_GGUF_BOOL] = {"bool", 1}, [FW_GGUF_STRING] = {"string", 0},
    [FW_GGUF_ARRAY] = {"array", 0}, [FW_GGUF_U64] = {"u64", 8},   [FW_GGUF_I64] = {"i64", 8},
    [FW_GGUF_F64] = {"f64", 8},
};

/* A place in the file; every read is checked against its end. */
typedef struct cursor {
    const char *where;
    const uint8_t *data;
    size_t bytes, at;
} cursor;

static fw_status truncated(const cursor *c, const char *what, uint64_t need) {
    return fw_fail(FW_ERR_INPUT,
                   "%s: position %zu: %s needs %" PRIu64 " byte%s and %zu are left: the file is truncated or damaged",
                   c->where, c->at, what, need, fw_plural((int64_t)need), c->bytes - c->at);
}

static uint64_t load(const uint8_t *p, uint32_t bytes) {
    uint64_t x = 0;
    for (uint32_t i = bytes; i > 0; i--) x = x << 8 | p[i - 1];
    return x;
}

static fw_status take(uint64_t *out, cursor *c, uint32_t bytes, const char *what) {
    if (c->bytes - c->at < bytes) return truncated(c, what, bytes);
    *out = load(c->data + c->at, bytes);
    c->at += bytes;
    return FW_OK;
}

static fw_status take_string(fw_gguf_string *out, cursor *c, const char *what) {
    uint64_t length = 0;
    FW_TRY(take(&length, c, 8, what));
    if (length > c->bytes - c->at) return truncated(c, what, length);
    *out = (fw_gguf_string){(const char *)c->data + c->at, (size_t)length};
    c->at += (size_t)length;
    return FW_OK;
}

/* Names and keys go into messages: plain text only. */
static fw_status check_name(const cursor *c, fw_gguf_string s, size_t limit, const char *what) {
    if (s.bytes == 0 || s.bytes > limit)
        return fw_fail(FW_ERR_INPUT, "%s: position %zu: the length of a %s is %zu; 1 to %zu are allowed", c->where,
                       c->at, what, s.bytes, limit);
    for (size_t i = 0; i < s.bytes; i++)
        if ((unsigned char)s.text[i] < 0x20 || s.text[i] == 0x7f)
            return fw_fail(FW_ERR_INPUT, "%s: position %zu: a %s has the control character 0x%02x", c->where, c->at,
                           what, (unsigned)(unsigned char)s.text[i]);
    return FW_OK;
}

static int shown(fw_gguf_string s) { return s.bytes < 200 ? (int)s.bytes : 200; } /* for %.*s */

static fw_status take_value(fw_gguf_value *v, cursor *c) {
    FW_TRY(take_string(&v->key, c, "a key"));
    FW_TRY(check_name(c, v->key, KEY_LIMIT_BYTES, "key"));
    uint64_t type = 0;
    FW_TRY(take(&type, c, 4, "the type of a value"));
    bool array = type == FW_GGUF_ARRAY;
    v->element_n = 1;
    if (array) {
        FW_TRY(take(&type, c, 4, "the type of an array"));
        FW_TRY(take(&v->element_n, c, 8, "the length of an array"));
    }
    if (type >= FW_GGUF_VALUE_TYPE_N || type == FW_GGUF_ARRAY)
        return fw_fail(FW_ERR_INPUT, "%s: position %zu: key %.*s has %s type %" PRIu64 ", which is not known", c->where,
                       c->at, shown(v->key), v->key.text, array ? "element" : "value", type);
    v->type = array ? FW_GGUF_ARRAY : (fw_gguf_value_type)type;
    v->element_type = (fw_gguf_value_type)type;
    uint64_t least = value_type[type].bytes != 0 ? value_type[type].bytes : 8; /* of one element */
    if (v->element_n > (c->bytes - c->at) / least) return truncated(c, "an array", v->element_n);
    v->data = c->data + c->at;
    if (type != FW_GGUF_STRING) {
        c->at += (size_t)(v->element_n * least);
        return FW_OK;
    }
    FW_TRY(FW_NEW_ARRAY(v->string, (size_t)v->element_n));
    for (uint64_t i = 0; i < v->element_n; i++) FW_TRY(take_string(&v->string[i], c, "a string"));
    return FW_OK;
}

static fw_status take_tensor(fw_gguf_tensor *t, uint64_t *offset, cursor *c) {
    fw_gguf_string name;
    uint64_t rank = 0, type = 0;
    FW_TRY(take_string(&name, c, "a tensor's name"));
    FW_TRY(check_name(c, name, NAME_LIMIT_BYTES, "tensor name"));
    FW_TRY(fw_strndup(&t->name, name.text, name.bytes));
    FW_TRY(take(&rank, c, 4, "a tensor's rank"));
    if (rank < 1 || rank > FW_GGUF_RANK_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: position %zu: tensor %s has %" PRIu64 " dimensions; 1 to %d are allowed",
                       c->where, c->at, t->name, rank, FW_GGUF_RANK_MAX);
    t->rank = (int)rank;
    t->n = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        uint64_t size = 0;
        FW_TRY(take(&size, c, 8, "a tensor's shape"));
        if (size == 0 || size > INT64_MAX || __builtin_mul_overflow(t->n, (int64_t)size, &t->n))
            return fw_fail(FW_ERR_INPUT, "%s: position %zu: tensor %s: size %" PRIu64 " is out of bounds", c->where,
                           c->at, t->name, size);
        t->shape[i] = (int64_t)size;
    }
    FW_TRY(take(&type, c, 4, "a tensor's type"));
    FW_TRY(take(offset, c, 8, "a tensor's offset"));
    uint32_t block_n, block_bytes;
    if (!fw_gguf_type_block((uint32_t)type, &block_n, &block_bytes)) {
        const char *known = fw_gguf_type_name((uint32_t)type);
        char number[32];
        snprintf(number, sizeof number, "type number %" PRIu64, type);
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %s is stored as %s, which is not supported; supported are F32 F16 BF16 Q8_0 Q4_0 "
                       "Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K",
                       c->where, t->name, known != NULL ? known : number);
    }
    t->type = (fw_gguf_tensor_type)type;
    int64_t row = t->shape[t->rank - 1], bytes;
    if (row % block_n != 0)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s: rows of %" PRId64 " values are not made of blocks of %u (%s)",
                       c->where, t->name, row, block_n, fw_gguf_type_name((uint32_t)type));
    if (__builtin_mul_overflow(t->n / block_n, (int64_t)block_bytes, &bytes))
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s: its size overflows", c->where, t->name);
    t->bytes = (size_t)bytes;
    return FW_OK;
}

static int compare_keys(const void *a, const void *b) {
    const fw_gguf_value *x = a, *y = b;
    size_t n = x->key.bytes < y->key.bytes ? x->key.bytes : y->key.bytes;
    int order = memcmp(x->key.text, y->key.text, n);
    return order != 0 ? order : x->key.bytes < y->key.bytes ? -1 : x->key.bytes > y->key.bytes;
}

static int compare_tensors(const void *a, const void *b) {
    return strcmp(((const fw_gguf_tensor *)a)->name, ((const fw_gguf_tensor *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    const fw_gguf_tensor *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

/* Each tensor has bytes of its own, and a name of its own; sorts by name. */
static fw_status check_apart(fw_gguf *file, const char *where) {
    fw_gguf_tensor *t = file->tensor;
    if (file->tensor_n > 1) qsort(t, file->tensor_n, sizeof *t, compare_places);
    for (size_t i = 1; i < file->tensor_n; i++)
        if (t[i].data < t[i - 1].data + t[i - 1].bytes)
            return fw_fail(FW_ERR_INPUT,
                           "%s: tensors %s and %s overlap: the file is damaged; copy or download it again", where,
                           t[i - 1].name, t[i].name);
    if (file->tensor_n > 1) qsort(t, file->tensor_n, sizeof *t, compare_tensors);
    for (size_t i = 1; i < file->tensor_n; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return fw_fail(FW_ERR_INPUT, "%s: tensor %s is there twice", where, t[i].name);
    return FW_OK;
}

static fw_status take_values(fw_gguf *file, cursor *c, uint64_t value_n) {
    if (value_n > (c->bytes - c->at) / VALUE_MIN_BYTES) return truncated(c, "the list of keys", value_n);
    FW_TRY(FW_NEW_ARRAY(file->value, (size_t)value_n));
    for (uint64_t i = 0; i < value_n; i++) {
        file->value_n++; /* before reading, so that what it holds is released on failure */
        FW_TRY(take_value(&file->value[i], c));
    }
    if (value_n > 1) qsort(file->value, file->value_n, sizeof *file->value, compare_keys);
    for (size_t i = 1; i < file->value_n; i++)
        if (compare_keys(&file->value[i - 1], &file->value[i]) == 0)
            return fw_fail(FW_ERR_INPUT, "%s: key %.*s is there twice", c->where, shown(file->value[i].key),
                           file->value[i].key.text);
    return FW_OK;
}

static fw_status take_tensors(fw_gguf *file, cursor *c, uint64_t tensor_n, uint64_t alignment) {
    if (tensor_n > (c->bytes - c->at) / TENSOR_MIN_BYTES) return truncated(c, "the list of tensors", tensor_n);
    uint64_t *offset = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(file->tensor, (size_t)tensor_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(offset, (size_t)tensor_n), done);
    for (uint64_t i = 0; i < tensor_n; i++) {
        file->tensor_n++;
        FW_TRY_OR(take_tensor(&file->tensor[i], &offset[i], c), done);
    }
    size_t data_start = c->at + (size_t)((alignment - c->at % alignment) % alignment);
    size_t data_bytes = data_start < c->bytes ? c->bytes - data_start : 0;
    for (uint64_t i = 0; i < tensor_n; i++) {
        fw_gguf_tensor *t = &file->tensor[i];
        if (offset[i] % alignment != 0) {
            status =
                fw_fail(FW_ERR_INPUT, "%s: tensor %s: offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                        c->where, t->name, offset[i], alignment);
            goto done;
        }
        if (offset[i] > data_bytes || t->bytes > data_bytes - offset[i]) {
            status =
                fw_fail(FW_ERR_INPUT,
                        "%s: tensor %s: %zu bytes at offset %" PRIu64 " reach behind the end; %zu bytes of data are "
                        "there: the file is truncated; copy or download it again",
                        c->where, t->name, t->bytes, offset[i], data_bytes);
            goto done;
        }
        t->data = c->data + data_start + offset[i];
    }
    FW_TRY_OR(check_apart(file, c->where), done);
done:
    fw_free(offset);
    return status;
}

static fw_status parse_all(fw_gguf *file, const char *where) {
    cursor c = {where, file->mapping.data, file->mapping.bytes, 0};
    if (c.bytes < 4 || memcmp(c.data, "GGUF", 4) != 0)
        return fw_fail(FW_ERR_INPUT, "%s: not a GGUF file: it does not start with \"GGUF\"", where);
    c.at = 4;
    uint64_t version = 0, tensor_n = 0, value_n = 0;
    FW_TRY(take(&version, &c, 4, "the version"));
    if (version != 2 && version != 3)
        return fw_fail(FW_ERR_INPUT, "%s: GGUF version %" PRIu64 "%s; versions 2 and 3, little-endian, are supported",
                       where, version, version != 0 && version % 65536 == 0 ? " (a big-endian file)" : "");
    file->version = (uint32_t)version;
    FW_TRY(take(&tensor_n, &c, 8, "the number of tensors"));
    FW_TRY(take(&value_n, &c, 8, "the number of keys"));
    FW_TRY(take_values(file, &c, value_n));
    int64_t alignment = ALIGNMENT_DEFAULT;
    if (fw_gguf_find(file, "general.alignment") != NULL) {
        FW_TRY(fw_gguf_get_int(&alignment, file, "general.alignment", 1, ALIGNMENT_MAX));
        if ((alignment & (alignment - 1)) != 0)
            return fw_fail(FW_ERR_INPUT, "%s: general.alignment is %" PRId64 "; a power of two is needed", where,
                           alignment);
    }
    return take_tensors(file, &c, tensor_n, (uint64_t)alignment);
}

fw_status fw_gguf_parse(fw_gguf *out, const uint8_t *data, size_t bytes, const char *where) {
    *out = (fw_gguf){.mapping = {data, bytes}};
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->path, where), fail);
    FW_TRY_OR(parse_all(out, where), fail);
    return FW_OK;
fail:
    fw_gguf_close(out);
    return status;
}

fw_status fw_gguf_open(fw_gguf *out, const char *path) {
    *out = (fw_gguf){0};
    fw_mapping mapping;
    FW_TRY(fw_file_map(&mapping, path));
    fw_status status = fw_gguf_parse(out, mapping.data, mapping.bytes, path);
    if (status != FW_OK) {
        fw_file_unmap(&mapping);
        return status;
    }
    out->mapped = true;
    return FW_OK;
}

void fw_gguf_close(fw_gguf *file) {
    for (size_t i = 0; i < file->value_n; i++) fw_free(file->value[i].string);
    for (size_t i = 0; i < file->tensor_n; i++) fw_free(file->tensor[i].name);
    fw_free(file->value);
    fw_free(file->tensor);
    fw_free(file->path);
    if (file->mapped) fw_file_unmap(&file->mapping);
    *file = (fw_gguf){0};
}

const fw_gguf_value *fw_gguf_find(const fw_gguf *file, const char *key) {
    fw_gguf_value wanted = {.key = {key, strlen(key)}};
    return file->value_n == 0 ? NULL : bsearch(&wanted, file->value, file->value_n, sizeof *file->value, compare_keys);
}

const fw_gguf_tensor *fw_gguf_find_tensor(const fw_gguf *file, const char *name) {
    fw_gguf_tensor wanted = {.name = (char *)(uintptr_t)name};
    return file->tensor_n == 0 ? NULL
                               : bsearch(&wanted, file->tensor, file->tensor_n, sizeof *file->tensor, compare_tensors);
}

int64_t fw_gguf_int_at(const fw_gguf_value *v, uint64_t i) {
    FW_ASSERT(i < v->element_n && v->element_type != FW_GGUF_STRING);
    uint32_t bytes = value_type[v->element_type].bytes;
    uint64_t x = load(v->data + i * bytes, bytes);
    switch (v->element_type) {
    case FW_GGUF_I8: return (int8_t)x;
    case FW_GGUF_I16: return (int16_t)x;
    case FW_GGUF_I32: return (int32_t)x;
    default: return (int64_t)x;
    }
}

static fw_status need(const fw_gguf_value **out, const fw_gguf *file, const char *key) {
    *out = fw_gguf_find(file, key);
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_INPUT, "%s: key %s is missing", file->path, key);
}

static fw_status wrong_type(const fw_gguf *file, const char *key, const fw_gguf_value *v, const char *wanted) {
    return fw_fail(FW_ERR_INPUT, "%s: key %s is of type %s%s; %s is needed", file->path, key,
                   v->type == FW_GGUF_ARRAY ? "array of " : "", value_type[v->element_type].name, wanted);
}

fw_status fw_gguf_get_int(int64_t *out, const fw_gguf *file, const char *key, int64_t min, int64_t max) {
    const fw_gguf_value *v;
    FW_TRY(need(&v, file, key));
    if (v->type == FW_GGUF_ARRAY || v->type == FW_GGUF_STRING || v->type == FW_GGUF_F32 || v->type == FW_GGUF_F64)
        return wrong_type(file, key, v, "a whole number");
    int64_t value = fw_gguf_int_at(v, 0);
    if (value < min || value > max)
        return fw_fail(FW_ERR_INPUT, "%s: key %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, file->path,
                       key, value, min, max);
    *out = value;
    return FW_OK;
}

fw_status fw_gguf_get_float(double *out, const fw_gguf *file, const char *key) {
    const fw_gguf_value *v;
    FW_TRY(need(&v, file, key));
    float narrow;
    if (v->type == FW_GGUF_F32) {
        memcpy(&narrow, v->data, sizeof narrow);
        *out = (double)narrow;
    } else if (v->type == FW_GGUF_F64) {
        memcpy(out, v->data, sizeof *out);
    } else {
        return wrong_type(file, key, v, "a fraction");
    }
    if (!isfinite(*out))
        return fw_fail(FW_ERR_INPUT, "%s: key %s is %g; a finite number is needed", file->path, key, *out);
    return FW_OK;
}

fw_status fw_gguf_get_string(fw_gguf_string *out, const fw_gguf *file, const char *key) {
    const fw_gguf_value *v;
    FW_TRY(need(&v, file, key));
    if (v->type != FW_GGUF_STRING) return wrong_type(file, key, v, "a string");
    *out = v->string[0];
    return FW_OK;
}
