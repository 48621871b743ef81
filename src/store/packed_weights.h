/* The weights of a model folder in 4 bits: packed while they are read, one matrix at a time, or as the folder has them
 * (store/stored_quant.h).
 *
 * Memory at a time: the codes and scales of one matrix, the packed block at hand, and a few pieces of fp32; the numbers of
 * a matrix never exist as a whole. */
#ifndef FW_STORE_PACKED_WEIGHTS_H
#define FW_STORE_PACKED_WEIGHTS_H

#include "model/packed_table.h"
#include "store/stored_quant.h"

/* What a folder says: does it have matrices in 4 bits, and how; which of the frozen table's (heap, NULL when none are).
 * Errors: FW_ERR_INPUT when two matrices differ in type or blocks; FW_ERR_NOMEM. */
fw_status fw_packed_find_stored(bool **packed, fw_packed_options *options, const fw_model_folder *folder,
                                const fw_param_table *frozen);

typedef struct fw_packed_weights {
    const fw_model_folder *folder; /* borrowed, as is the table */
    const fw_packed_table *table;
    int32_t param; /* whose codes and scales are here; -1: none's */
    uint8_t *code, *scale_code;
    float *absmax, *nested, offset;
    float map4[FW_QUANT_MAP4_N], map8[FW_QUANT_MAP8_N]; /* the folder's, once it has shown some */
    bool has_maps;
    int32_t unit; /* whose bytes are in image; -1: none's */
    uint8_t *image;
} fw_packed_weights;

void fw_packed_weights_init(fw_packed_weights *out, const fw_model_folder *folder, const fw_packed_table *table);
void fw_packed_weights_fini(fw_packed_weights *w); /* takes a zeroed one */

/* For fw_shard_load_words: words [first, first + n) of a unit. context: a fw_packed_weights. Errors: FW_ERR_INPUT (a weight
 * or a scale is no number: names tensor and element), FW_ERR_NOMEM. */
fw_status fw_packed_read_words(void *context, int32_t unit, int64_t first, int64_t n, uint16_t *out);

/* Numbers [first, first + n) of the frozen parameter `param` as the model will compute with them, in fp32: what is packed is
 * packed and unpacked. The same errors. */
fw_status fw_packed_read_numbers(fw_packed_weights *w, int32_t param, int64_t first, int64_t n, float *out);

#endif
