/* A decoder-only transformer (Llama, Qwen2, Qwen3, Mistral) as operations of a device.
 *
 * The model knows units, not ranks: whoever calls gives the weights (and gradients) of the unit at hand as one flat
 * pointer, wherever they came from. A step is
 *
 *   fw_edge_embed       x[0] = embedding rows of the tokens
 *   fw_block_forward    x[l + 1] = block l of x[l]                      for every block
 *   fw_edge_loss        losses of the target rows, and d = gradient of x[L] (head and final norm included)
 *   fw_block_backward   d = gradient of x[l], weight gradients added     for every block, last first
 *   fw_edge_embed_backward
 *
 * A micro-batch is flat: documents lie back to back in N rows, nothing is padded, and first_N keeps documents from
 * seeing each other. Block (pre-norm; every matrix is [outputs, inputs]):
 *
 *   x_mid = x + W_o attention(rope(qk_norm(W_qkv norm(x) + b)))      norms: RMSNorm
 *   x_out = x_mid + W_down (silu(gate) * up),  [gate | up] = W_gu norm(x_mid)
 *
 * Legend: N rows (tokens) of the micro-batch, n rows with a target, C hidden, H query heads, K key/value heads,
 * D head size, F feed-forward, V vocabulary, L blocks, P positions. S = (H + 2 K) D, a row of packed q, k, v. */
#ifndef FW_MODEL_MODEL_H
#define FW_MODEL_MODEL_H

#include "device/device.h"
#include "model/param_table.h"

/* Where the matrices lie in a unit, in elements from its start; -1: the model has none. */
typedef struct fw_block_offsets {
    int64_t input_norm, qkv, qkv_bias, q_norm, k_norm, o, o_bias, post_norm, gate_up, gate_up_bias, down, down_bias;
} fw_block_offsets;

typedef struct fw_edge_offsets {
    int64_t embedding, final_norm, head; /* head == embedding when tied */
} fw_edge_offsets;

typedef struct fw_model {
    fw_model_config config;
    fw_param_table table;
    fw_block_offsets block; /* the same for every block */
    fw_edge_offsets edge;
    fw_dtype t; /* compute type: weights as given to the functions below, and activations */
} fw_model;

/* Errors: FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_model_init(fw_model *out, const fw_model_config *config, fw_dtype t);
void fw_model_fini(fw_model *model);

/* A micro-batch in device memory; borrowed. */
typedef struct fw_micro_batch {
    int64_t N;
    const int32_t *id_N;       /* token ids, checked against V */
    const int32_t *position_N; /* position in the document, < P */
    const int32_t *first_N;    /* row of the document's first token */
    int64_t n;                 /* rows with a target */
    const int32_t *row_n;      /* which rows, ascending */
    const int32_t *label_n;    /* the token each of them must predict */
} fw_micro_batch;

/* Bytes of its arrays, when they have room for N rows each; every array starts at a multiple of 64 bytes. */
enum { FW_MICRO_BATCH_ARRAYS = 5 };
static inline size_t fw_micro_batch_array_bytes(int64_t N) { return ((size_t)N * sizeof(int32_t) + 63) / 64 * 64; }
static inline size_t fw_micro_batch_bytes(int64_t N) { return FW_MICRO_BATCH_ARRAYS * fw_micro_batch_array_bytes(N); }

/* What a block computes on the way and its backward needs. */
typedef struct fw_block_activations {
    void *norm1_NC, *qkv_NS, *qk_NHKD, *o_NHD, *mid_NC, *norm2_NC, *gate_up_N2F, *h_NF;
    float *rstd1_N, *rstd_q_NH, *rstd_k_NK, *lse_NH, *rstd2_N;
} fw_block_activations;

typedef enum fw_activation_mode {
    FW_ACTIVATIONS_FORWARD,   /* evaluation, generation: nothing is kept */
    FW_ACTIVATIONS_RECOMPUTE, /* training: block inputs are kept, the rest is computed again in backward */
    FW_ACTIVATIONS_SELECTIVE, /* training: results of products and attention are kept, norms, rotated q and k and h are not */
    FW_ACTIVATIONS_KEEP       /* training: everything is kept */
} fw_activation_mode;

typedef struct fw_activation_options {
    fw_activation_mode mode;
    int64_t recompute_every; /* RECOMPUTE and SELECTIVE hold for blocks 0, k, 2 k, ..; others keep. 0: for all, as 1 */
    int64_t N_max, n_max;    /* rows and target rows of the largest micro-batch */
    int64_t chunk_n;         /* rows of logits that exist at a time */
    int64_t P;               /* positions of the rope tables */
    int64_t document_n;      /* documents of a micro-batch at most; 0: not known, attention is left to the device */
    int64_t longest_n;       /* rows of the longest of them */
    fw_attention_choice attention;
} fw_activation_options;

/* All activation memory of a run, as pointers into one block. */
typedef struct fw_activations {
    fw_activation_options options;
    void *x_LNC;                 /* inputs of the blocks and the output of the last: L + 1 times [N, C]; 1 in FORWARD */
    fw_block_activations *block; /* L entries; what is not kept lies in the same memory for all */
    float *cos_PE, *sin_PE;
    void *target_nC, *norm_nC; /* the rows with targets, and their final norm */
    float *rstd_n, *loss_n;
    float *logits_cV; /* one chunk */
    void *dlogits_cV;
    void *d_NC, *dn_NC, *dh_NF, *dqkv_NS, *do_NHD; /* gradients on their way back; dn also serves forward */
    size_t bytes;
    size_t kept_bytes, work_bytes, loss_bytes; /* bytes = their sum: kept for backward, in passing, logits */
} fw_activations;

/* What holds for block l. */
fw_activation_mode fw_activations_mode_of(const fw_activation_options *options, int64_t l);

/* Lay out the activations at `base`, or, with base NULL, only find their sizes. `block` is heap and needs fini.
 * The rope tables are filled by fw_activations_fill_rope once the memory is there. */
fw_status fw_activations_init(fw_activations *out, const fw_model *model, const fw_activation_options *options,
                              void *base);
void fw_activations_fini(fw_activations *a);
fw_status fw_activations_fill_rope(fw_activations *a, const fw_model *model, fw_device *d);
/* Input of block l (l = L: output of the last). */
void *fw_activations_x(const fw_activations *a, const fw_model *model, int64_t l);
/* The device limits these activations need. */
fw_device_limits fw_activations_limits(const fw_activations *a, const fw_model *model);

/* Keys and values of one block for generation: rows [capacity, 2 K D], k then v; NULL elsewhere. */
typedef struct fw_block_cache {
    void *kv;
    int64_t length; /* rows already there; new rows are appended at it by the caller's bookkeeping */
} fw_block_cache;

/* In all functions below, w_unit is the unit's compute weights and g_unit its fp32 gradients. */
fw_status fw_edge_embed(const fw_model *m, fw_device *d, const void *w_unit, fw_activations *a,
                        const fw_micro_batch *b);
/* Losses of the n target rows to a->loss_n (not summed, not divided). With g_unit: gradients of head and final norm are
 * added, and a->d_NC becomes the gradient of x[L], all times grad_scale; without, only the losses. */
fw_status fw_edge_loss(const fw_model *m, fw_device *d, const void *w_unit, float *g_unit, fw_activations *a,
                       const fw_micro_batch *b, float grad_scale);
fw_status fw_edge_embed_backward(const fw_model *m, fw_device *d, float *g_unit, fw_activations *a,
                                 const fw_micro_batch *b);
/* Logits of row_n <= n_max rows of x[L], fp32 [row_n, V] in device memory. */
fw_status fw_edge_logits(const fw_model *m, fw_device *d, const void *w_unit, fw_activations *a, const int32_t *row,
                         int64_t row_n, float *logits);

fw_status fw_block_forward(const fw_model *m, fw_device *d, int64_t l, const void *w_unit, fw_activations *a,
                           const fw_micro_batch *b, fw_block_cache *cache);
/* What was not kept is computed again: with RECOMPUTE the block's forward (but for the last product, which nothing needs),
 * with SELECTIVE what lies between products. By the same operations, so that gradients have the same bits. */
fw_status fw_block_backward(const fw_model *m, fw_device *d, int64_t l, const void *w_unit, float *g_unit,
                            fw_activations *a, const fw_micro_batch *b);

/* Address of element `offset_n` of a tensor of type t. */
static inline void *fw_at(void *base, int64_t offset_n, fw_dtype t) {
    return (char *)base + offset_n * (int64_t)fw_dtype_bytes(t);
}
static inline const void *fw_at_const(const void *base, int64_t offset_n, fw_dtype t) {
    return offset_n < 0 ? NULL : (const char *)base + offset_n * (int64_t)fw_dtype_bytes(t);
}

#endif
