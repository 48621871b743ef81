/* A matrix in 4 bits as bitsandbytes stores it in safetensors files, beside its codes (NAME, U8 [bytes, 1], or as many bytes
 * in numbers of another type):
 *
 *   NAME.absmax                          F32 [blocks]; nested: U8 [blocks]
 *   NAME.quant_map                       F32 [16]
 *   NAME.nested_absmax, .nested_quant_map  F32 [blocks / nested_blocksize], F32 [256]
 *   NAME.quant_state.bitsandbytes__nf4   U8: JSON with quant_type, blocksize, dtype, shape, and nested: nested_blocksize,
 *   (or __fp4)                           nested_dtype, nested_offset
 */
#ifndef FW_STORE_STORED_QUANT_H
#define FW_STORE_STORED_QUANT_H

#include "quant/quant.h"
#include "store/model_folder.h"

typedef struct fw_stored_quant {
    fw_quant_kind kind;
    int64_t n, block, block_n;
    bool nested;
    int64_t nested_block;
    float offset;
    const uint8_t *code;   /* in the mapping, as is the rest; fp32 at any address */
    const uint8_t *absmax; /* fp32, or with nested codes of 8 bits */
    const uint8_t *map4, *nested_absmax, *map8;
} fw_stored_quant;

/* Whether NAME is stored so. */
bool fw_stored_quant_has(const fw_model_folder *folder, const char *name);
/* Whether a tensor is one of those beside the codes of a parameter that is. */
bool fw_stored_quant_belongs(const fw_model_folder *folder, const char *tensor);
/* Checked against the shape [rows, cols] that the model wants. Error: FW_ERR_INPUT naming file, tensor and value. */
fw_status fw_stored_quant_open(fw_stored_quant *out, const fw_model_folder *folder, const char *name, int64_t rows,
                               int64_t cols);
/* Maps and scales are finite. Error: FW_ERR_INPUT naming folder, tensor and element. */
fw_status fw_stored_quant_check(const fw_stored_quant *q, const fw_model_folder *folder, const char *name);
/* Numbers [first, first + n), as bitsandbytes dequantises them, before they are rounded to 16 bits. */
void fw_stored_quant_read(const fw_stored_quant *q, int64_t first, int64_t n, float *out);

#endif
