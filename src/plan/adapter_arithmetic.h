/* Arithmetic of adapters on 4-bit weights (QLoRA: Dettmers and others 2023). */
#ifndef FW_PLAN_ADAPTER_ARITHMETIC_H
#define FW_PLAN_ADAPTER_ARITHMETIC_H

#include "model/adapter.h"

/* Bytes of the frozen weights of one block (edge: embedding, head and final norm), padding not counted: the matrices of
 * blocks in NF4, half a byte, and for 64 of them one scale of a byte, and for 256 scales one of 4 bytes (double
 * quantisation). Embedding, head, norms and biases stay in bf16. */
double fw_adapter_frozen_block_bytes(const fw_model_config *config);
double fw_adapter_frozen_edge_bytes(const fw_model_config *config);
/* The largest matrix of a block: one at a time is made bf16. */
int64_t fw_adapter_largest_matrix(const fw_model_config *config);

#endif
