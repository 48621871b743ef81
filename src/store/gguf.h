/* GGUF files, version 2 and 3, little-endian: reader.
 *
 *   "GGUF" | u32 version | u64 tensor count | u64 key count | keys and values | tensor descriptions | padding | data
 *   string: u64 length, bytes. value: u32 type, then the value; arrays: u32 type, u64 count, elements.
 *   tensor: string name, u32 rank, u64 sizes (fastest first), u32 type, u64 offset from the start of the data
 * Source: the GGUF specification of ggml-org/ggml.
 *
 * Everything is checked before it is believed; keys and strings stay in the mapping. */
#ifndef FW_STORE_GGUF_H
#define FW_STORE_GGUF_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum fw_gguf_value_type {
    FW_GGUF_U8,
    FW_GGUF_I8,
    FW_GGUF_U16,
    FW_GGUF_I16,
    FW_GGUF_U32,
    FW_GGUF_I32,
    FW_GGUF_F32,
    FW_GGUF_BOOL,
    FW_GGUF_STRING,
    FW_GGUF_ARRAY,
    FW_GGUF_U64,
    FW_GGUF_I64,
    FW_GGUF_F64,
    FW_GGUF_VALUE_TYPE_N
} fw_gguf_value_type;

/* A run of bytes in the mapping; not terminated. */
typedef struct fw_gguf_string {
    const char *text;
    size_t bytes;
} fw_gguf_string;

typedef struct fw_gguf_value {
    fw_gguf_string key;
    fw_gguf_value_type type;
    fw_gguf_value_type element_type; /* the same as type, or that of an array; arrays of arrays are refused */
    uint64_t element_n;              /* 1 for a single value */
    const uint8_t *data;             /* first element, not aligned */
    fw_gguf_string *string;          /* the elements when they are strings (element_n of them) */
} fw_gguf_value;

/* Numbers as in ggml: the tensor types that can be read. */
typedef enum fw_gguf_tensor_type {
    FW_GGML_F32 = 0,
    FW_GGML_F16 = 1,
    FW_GGML_Q4_0 = 2,
    FW_GGML_Q4_1 = 3,
    FW_GGML_Q5_0 = 6,
    FW_GGML_Q5_1 = 7,
    FW_GGML_Q8_0 = 8,
    FW_GGML_Q4_K = 12,
    FW_GGML_Q5_K = 13,
    FW_GGML_Q6_K = 14,
    FW_GGML_BF16 = 30,
} fw_gguf_tensor_type;

/* "Q4_K", also for types that cannot be read; NULL for a number that is none. */
const char *fw_gguf_type_name(uint32_t type);
/* Values in a block and its bytes; false when the type cannot be read. */
bool fw_gguf_type_block(uint32_t type, uint32_t *block_n, uint32_t *block_bytes);

enum { FW_GGUF_RANK_MAX = 4 };
typedef struct fw_gguf_tensor {
    char *name;
    fw_gguf_tensor_type type;
    int rank;
    int64_t shape[FW_GGUF_RANK_MAX]; /* slowest first, as in Hugging Face files: the reverse of the file's order */
    int64_t n;
    const uint8_t *data;
    size_t bytes;
} fw_gguf_tensor;

typedef struct fw_gguf {
    char *path;
    fw_mapping mapping;
    bool mapped;
    uint32_t version;
    fw_gguf_value *value;
    size_t value_n;
    fw_gguf_tensor *tensor;
    size_t tensor_n;
} fw_gguf;

/* Errors: FW_ERR_INPUT naming file, position and value; FW_ERR_NOMEM. On failure *out is empty. */
fw_status fw_gguf_open(fw_gguf *out, const char *path);
fw_status fw_gguf_parse(fw_gguf *out, const uint8_t *data, size_t bytes, const char *where);
void fw_gguf_close(fw_gguf *file);

/* NULL when missing. */
const fw_gguf_value *fw_gguf_find(const fw_gguf *file, const char *key);
const fw_gguf_tensor *fw_gguf_find_tensor(const fw_gguf *file, const char *name);
/* Single values. Integers of any width and bools count as whole numbers. Errors: FW_ERR_INPUT: the key is missing, has
 * another type or is out of bounds. */
fw_status fw_gguf_get_int(int64_t *out, const fw_gguf *file, const char *key, int64_t min, int64_t max);
fw_status fw_gguf_get_float(double *out, const fw_gguf *file, const char *key);
fw_status fw_gguf_get_string(fw_gguf_string *out, const fw_gguf *file, const char *key);
/* Element i of a value of integers or bools. */
int64_t fw_gguf_int_at(const fw_gguf_value *value, uint64_t i);

/* out[0, n) = values [first_n, first_n + n) of a tensor as fp32, bit-equal to the public `gguf` package.
 * first_n and n are multiples of the type's block. */
fw_status fw_gguf_read_f32(float *out, const fw_gguf *file, const fw_gguf_tensor *tensor, int64_t first_n, int64_t n);
/* The arithmetic alone: n values (a multiple of the block) from blocks at data. */
void fw_gguf_dequantize(float *out, fw_gguf_tensor_type type, const uint8_t *data, int64_t n);

#endif
