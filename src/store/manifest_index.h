/* What a manifest says of files and tensors, checked and in an order that can be searched. Internal to the room. */
#ifndef FW_STORE_MANIFEST_INDEX_H
#define FW_STORE_MANIFEST_INDEX_H

#include "store/checkpoint_pieces.h"

typedef struct fw_manifest_file {
    const char *name; /* borrows from the manifest, as all texts here */
    uint64_t bytes;
    bool weights; /* a safetensors file of pieces; else a small file */
    uint64_t header_bytes;
    uint64_t hash; /* of a small file, all of it; of weights, the header: pieces have their own */
} fw_manifest_file;

typedef struct fw_manifest_piece {
    fw_piece box;
    size_t file;          /* index */
    uint64_t start_bytes; /* from the start of the file */
    const char *hashes;   /* 16 digits a block */
} fw_manifest_piece;

typedef struct fw_manifest_tensor {
    const char *name;
    fw_stored_dtype dtype; /* F32, or U8 for codes */
    size_t value_bytes;
    int rank;
    int64_t shape[2], n;
    fw_manifest_piece *piece; /* in order of their first element: no gap, no overlap */
    size_t piece_n;
} fw_manifest_tensor;

typedef struct fw_manifest_index {
    json_t *manifest;           /* a reference of its own */
    fw_manifest_file *file;     /* by name */
    fw_manifest_tensor *tensor; /* by name */
    size_t file_n, tensor_n;
    uint64_t block_bytes; /* of a piece that one checksum is of */
} fw_manifest_index;

/* Errors: FW_ERR_INPUT naming `where`, the tensor and what does not fit; FW_ERR_NOMEM. On failure *out is empty. */
fw_status fw_manifest_index_init(fw_manifest_index *out, json_t *manifest, const char *where);
void fw_manifest_index_fini(fw_manifest_index *index); /* takes a zeroed one */
/* NULL when there is none of that name. */
const fw_manifest_tensor *fw_manifest_find(const fw_manifest_index *index, const char *name);

#endif
