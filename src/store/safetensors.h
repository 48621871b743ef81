/* safetensors files: reader and writer.
 *
 *   8 bytes little-endian: H, the length of the header | H bytes of JSON | tensor data
 *   header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"k": "v"}}
 *   offsets count from the end of the header.
 * Source: the format description of huggingface/safetensors.
 *
 * The reader maps the file; it checks the whole header before anything is believed: lengths against the file,
 * names, dtypes, shape times dtype against offsets, and that the tensors tile the data without overlap or hole.
 * The writer streams: it knows the header from the list of tensors and never holds more than a small buffer. */
#ifndef FW_STORE_SAFETENSORS_H
#define FW_STORE_SAFETENSORS_H

#include "base/dtype.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status.h"

enum { FW_TENSOR_RANK_MAX = 8 };

typedef enum fw_stored_dtype {
    FW_STORED_F64,
    FW_STORED_F32,
    FW_STORED_F16,
    FW_STORED_BF16,
    FW_STORED_I64,
    FW_STORED_I32,
    FW_STORED_I16,
    FW_STORED_I8,
    FW_STORED_U8,
    FW_STORED_BOOL,
    FW_STORED_DTYPE_N
} fw_stored_dtype;

/* "F32", ... as written in files; bytes of one element. */
const char *fw_stored_dtype_name(fw_stored_dtype dtype);
size_t fw_stored_dtype_bytes(fw_stored_dtype dtype);
/* FW_F32 -> FW_STORED_F32, ...; dtype must be F32, BF16, F16 or F64, I32, I64, U8. */
fw_stored_dtype fw_stored_dtype_of(fw_dtype dtype);

typedef struct fw_stored_tensor {
    char *name; /* owned by the file object */
    fw_stored_dtype dtype;
    int rank; /* 0 for a single value */
    int64_t shape[FW_TENSOR_RANK_MAX];
    int64_t n;           /* elements */
    size_t offset_bytes; /* of the data, from the start of the file */
    size_t bytes;
} fw_stored_tensor;

typedef struct fw_safetensors {
    char *path;
    fw_mapping mapping;
    bool mapped;              /* mapping is ours to unmap (not so after fw_safetensors_parse) */
    fw_stored_tensor *tensor; /* sorted by name (bytes) */
    size_t tensor_n;
    json_t *metadata; /* the object __metadata__ or NULL */
} fw_safetensors;

/* Errors: FW_ERR_INPUT naming the file, the tensor and the value; FW_ERR_NOMEM. On failure *out is empty. */
fw_status fw_safetensors_open(fw_safetensors *out, const char *path);
/* The same over bytes the caller keeps alive; `where` is what messages call them. */
fw_status fw_safetensors_parse(fw_safetensors *out, const uint8_t *data, size_t bytes, const char *where);
void fw_safetensors_close(fw_safetensors *file);
/* NULL when there is none of that name. */
const fw_stored_tensor *fw_safetensors_find(const fw_safetensors *file, const char *name);
/* out[0, n) = elements [first_n, first_n + n) as fp32, from F32, F16 or BF16; any other dtype is FW_ERR_INPUT.
 * Touches only the pages of this range. */
fw_status fw_safetensors_read_f32(float *out, const fw_safetensors *file, const fw_stored_tensor *tensor,
                                  int64_t first_n, int64_t n);
/* "[2, 3]" into text (for messages). */
void fw_stored_shape_text(char *text, size_t text_bytes, const int64_t *shape, int rank);

/* What the writer is told about each tensor; names are borrowed until the writer is open. */
typedef struct fw_safetensors_entry {
    const char *name;
    fw_stored_dtype dtype;
    int rank;
    int64_t shape[FW_TENSOR_RANK_MAX];
} fw_safetensors_entry;

typedef struct fw_safetensors_writer {
    fw_file_writer file;
    uint64_t *tensor_bytes; /* of each tensor, in order */
    fw_stored_dtype *dtype;
    size_t tensor_n, tensor_i; /* the one being written */
    uint64_t tensor_done_bytes;
    uint64_t file_bytes; /* header and data */
    fw_hash hash;        /* of all bytes given to the file so far */
} fw_safetensors_writer;

/* Bytes of the file that these entries make. Errors: FW_ERR_INTERNAL for a size that overflows, FW_ERR_NOMEM. */
fw_status fw_safetensors_file_bytes(uint64_t *bytes, const fw_safetensors_entry *entry, size_t entry_n,
                                    const json_t *metadata);
/* Writes the header. metadata: object of strings, or NULL; "format": "pt" is added when it lacks it.
 * Then the data of each entry in order, whole or in pieces; commit makes the file appear. */
fw_status fw_safetensors_writer_open(fw_safetensors_writer *w, const char *path, const fw_safetensors_entry *entry,
                                     size_t entry_n, const json_t *metadata);
/* Converted from fp32 to the dtype of the entry (F32, F16 or BF16; to nearest, ties to even). */
fw_status fw_safetensors_writer_put_f32(fw_safetensors_writer *w, const float *values, size_t n);
/* As they are; may end inside an element or span tensors of any dtype. */
fw_status fw_safetensors_writer_put_bytes(fw_safetensors_writer *w, const void *bytes, size_t n_bytes);
/* FW_ERR_INTERNAL when data is missing. */
fw_status fw_safetensors_writer_commit(fw_safetensors_writer *w);
/* Release; without a commit nothing is left behind. Takes a zeroed or finished writer. */
void fw_safetensors_writer_close(fw_safetensors_writer *w);

#endif
