/* Frozen weights in 4 bits (QLoRA: Dettmers et al. 2023): which bytes of a unit mean what.
 *
 * Each matrix of a block (or those that a folder has in 4 bits) is packed as quant/quant.h has it, by itself, though the model computes with several as one:
 *
 *   unit 0 (embedding, final norm, head)   as in the frozen table, in the compute type
 *   block      map4 | (map8) | for each parameter in the order of the table:
 *     matrix   codes | scales, fp32; or, nested:  codes | scale codes | nested scales | their mean
 *     others   the numbers, in the compute type
 *
 * Every piece starts at a multiple of 64 bytes. A unit is measured in words of 2 bytes, so that the engine of shard/ can
 * treat it as weights of a 16-bit type: it never looks into them. The unit at work is unpacked to the layout of the frozen
 * table. */
#ifndef FW_MODEL_PACKED_TABLE_H
#define FW_MODEL_PACKED_TABLE_H

#include "device/device.h"
#include "model/param_table.h"
#include "quant/quant.h"

typedef struct fw_packed_options {
    fw_quant_kind kind;
    int64_t block; /* even */
    bool nested;
    int64_t nested_block;
} fw_packed_options;

/* Where the pieces of a parameter lie, in bytes from the start of its unit. */
typedef struct fw_packed_param {
    bool packed; /* else only at_bytes has a meaning */
    size_t at_bytes, absmax_at, scale_code_at, nested_at, offset_at;
} fw_packed_param;

typedef struct fw_packed_table {
    fw_packed_options options;
    fw_dtype t;
    const fw_param_table *frozen; /* borrowed */
    fw_packed_param *param;       /* as frozen->param */
    fw_param_table words;         /* sizes of units in words; it has no parameters */
    int64_t work_n;               /* elements of the largest unpacked block */
    uint64_t packed_n;            /* weights in 4 bits */
} fw_packed_table;

enum { FW_PACKED_WORD_BYTES = 2, FW_PACKED_MAP4_AT = 0, FW_PACKED_MAP8_AT = 64, FW_PACKED_FIRST_AT = 64 + 1024 };

/* packed: by parameter of the frozen table, which are; NULL: every matrix of a block. Errors: FW_ERR_NOMEM; the table needs
 * fini whatever the result. */
fw_status fw_packed_table_init(fw_packed_table *out, const fw_param_table *frozen, const fw_packed_options *options,
                               const bool *packed, fw_dtype t);
void fw_packed_table_fini(fw_packed_table *table); /* takes a zeroed one */

/* work, in the layout of the frozen table, = a block's packed words; both in device memory. */
fw_status fw_packed_unpack(const fw_packed_table *table, fw_device *d, int32_t unit, const void *words, void *work);

#endif
