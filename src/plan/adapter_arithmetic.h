/* Arithmetic of adapters (LoRA: Hu and others 2021; QLoRA: Dettmers and others 2023). Training does not have them yet. */
#ifndef FW_PLAN_ADAPTER_ARITHMETIC_H
#define FW_PLAN_ADAPTER_ARITHMETIC_H

#include "model/model_config.h"

/* Matrices of a block that may have an adapter. */
typedef enum fw_adapter_target {
    FW_ADAPT_Q,
    FW_ADAPT_K,
    FW_ADAPT_V,
    FW_ADAPT_O,
    FW_ADAPT_GATE,
    FW_ADAPT_UP,
    FW_ADAPT_DOWN,
    FW_ADAPT_N
} fw_adapter_target;

/* "all-linear" or "q_proj,v_proj" as a set of bits 1 << fw_adapter_target. Errors: FW_ERR_OPTION, nearest name. */
fw_status fw_adapter_parse_targets(unsigned *out, const char *text);

/* Parameters of adapters of rank r: r (inputs + outputs) for each matrix. */
int64_t fw_adapter_parameters(const fw_model_config *config, int64_t r, unsigned targets);

/* Bytes of the frozen weights of one block (edge: embedding, head and final norm), padding not counted: in bf16, or with
 * `four_bit` the matrices of blocks in NF4: half a byte, and for 64 of them one scale of a byte, and for 256 scales one
 * of 4 bytes (double quantisation). Embedding, head, norms and biases stay in bf16. */
double fw_adapter_frozen_block_bytes(const fw_model_config *config, bool four_bit);
double fw_adapter_frozen_edge_bytes(const fw_model_config *config);
/* The largest matrix of a block: with 4-bit weights one at a time is made bf16. */
int64_t fw_adapter_largest_matrix(const fw_model_config *config);

#endif
