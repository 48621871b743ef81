/* A decoder-only transformer (Llama, Qwen2, Qwen3, Mistral) as operations of a device.
 *
 * The model knows units, not ranks: whoever calls gives the weights (and gradients) of the unit at hand as flat
 * pointers, wherever they came from. Each weight is frozen or trained; without an adapter (model/adapter.h) all are
 * trained. A step is
 *
 *   fw_edge_embed       x[0] = embedding rows of the tokens
 *   fw_block_forward    x[l + 1] = block l of x[l]                      for every block
 *   fw_edge_loss        losses of the target rows, and d = gradient of x[L] (head and final norm included)
 *   fw_block_backward   d = gradient of x[l], weight gradients added     for every block, last first; only as far down as
 *                                                                       something is trained
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

#include "base/loss_weight.h"
#include "device/device.h"
#include "model/adapter.h"
#include "model/param_table.h"

/* Where a parameter lies: in which of the two ranges of its unit, and at which element of it. */
typedef struct fw_place {
    int64_t at_n; /* -1: the model has none */
    bool trained;
} fw_place;

/* A linear module, with its adapter (model/adapter.h). */
typedef struct fw_linear_place {
    fw_place weight, bias;
    int64_t O, I; /* outputs, inputs */
    int64_t r;    /* rank of the adapter; 0: none, and what follows has no meaning */
    float scale;
    int64_t a, b, magnitude; /* in the trained range; magnitude -1: no DoRA */
} fw_linear_place;

/* The parts of a block in the order in which its backward meets them. */
typedef enum fw_block_part {
    FW_BLOCK_NONE,
    FW_BLOCK_DOWN,
    FW_BLOCK_GATE_UP,
    FW_BLOCK_POST_NORM,
    FW_BLOCK_O,
    FW_BLOCK_QKV, /* with their norms */
    FW_BLOCK_INPUT_NORM,
    FW_BLOCK_BELOW /* what the block's input comes from */
} fw_block_part;

typedef struct fw_block_places {
    fw_place input_norm, q_norm, k_norm, post_norm;
    fw_linear_place linear[FW_LINEAR_N];
    fw_block_part reach; /* where backward ends: behind it nothing is trained, here or below */
} fw_block_places;

typedef struct fw_edge_places {
    fw_place embedding, final_norm, head; /* head is the embedding's place when tied, but see FW_PARAM_TIED_HEAD */
} fw_edge_places;

typedef struct fw_model {
    fw_model_config config;
    fw_param_table table; /* all parameters of the model, as its files have them */
    bool adapted;
    fw_adapter adapter;             /* adapted only, as are the next two */
    fw_param_table frozen, trained; /* fw_model_frozen and fw_model_trained find them */
    fw_block_places *block;         /* L */
    fw_edge_places edge;
    fw_dtype t; /* compute type: weights as given to the functions below, and activations */
} fw_model;

/* adapter NULL: none, all of the model is trained. Its texts are borrowed until fini. Errors: FW_ERR_NOMEM, FW_ERR_INPUT; FW_ERR_OPTION of fw_adapter_resolve. */
fw_status fw_model_init(fw_model *out, const fw_model_config *config, fw_dtype t);
fw_status fw_model_init_adapted(fw_model *out, const fw_model_config *config, fw_dtype t,
                                const fw_adapter_request *adapter);
void fw_model_fini(fw_model *model);

/* What is trained: the model's own table, or that of the adapter; and what is frozen beside it, NULL without an adapter.
 * Both have the same units. */
static inline const fw_param_table *fw_model_trained(const fw_model *m) { return m->adapted ? &m->trained : &m->table; }
static inline const fw_param_table *fw_model_frozen(const fw_model *m) { return m->adapted ? &m->frozen : NULL; }

/* The unit at hand: weights in the compute type, and fp32 gradients of the trained ones (NULL when none are wanted). */
typedef struct fw_unit_weights {
    const void *frozen, *trained;
    float *g;
} fw_unit_weights;

/* A micro-batch, in device memory where nothing else is said; borrowed. */
typedef struct fw_micro_batch {
    int64_t N;
    const int32_t *id_N;            /* token ids, checked against V */
    const int32_t *position_N;      /* position in the document, < P */
    const int32_t *first_N;         /* row of the document's first token */
    int64_t n;                      /* rows with a target */
    const int32_t *row_n;           /* which rows, ascending */
    const int32_t *label_n;         /* the token each of them must predict */
    const fw_loss_weight *weight_n; /* of each of them in the loss, in host memory; NULL: all count as one */
    const uint64_t *key_N;          /* of each row, for dropout; NULL: nothing is dropped */
} fw_micro_batch;

/* Bytes of its arrays, when they have room for N rows each; every array starts at a multiple of 64 bytes. */
enum { FW_MICRO_BATCH_ARRAYS = 5 };
static inline size_t fw_micro_batch_array_bytes(int64_t N) { return ((size_t)N * sizeof(int32_t) + 63) / 64 * 64; }
/* keys: with those for dropout, behind the others. */
static inline size_t fw_micro_batch_bytes(int64_t N, bool keys) {
    return (size_t)(FW_MICRO_BATCH_ARRAYS + (keys ? 2 : 0)) * fw_micro_batch_array_bytes(N);
}
static inline bool fw_model_drops(const fw_model *m) { return m->adapted && m->adapter.request.dropout > 0; }

/* What a block computes on the way and its backward needs. */
typedef struct fw_block_activations {
    void *norm1_NC, *qkv_NS, *qk_NHKD, *o_NHD, *mid_NC, *norm2_NC, *gate_up_N2F, *h_NF;
    float *rstd1_N, *rstd_q_NH, *rstd_k_NK, *lse_NH, *rstd2_N;
    void *u_NR[FW_LINEAR_N];    /* A x of adapters; NULL: none */
    float *norm_O[FW_LINEAR_N]; /* |W + s B A| of DoRA */
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
    void *du_NR, *inputs_NI, *outputs_NO;          /* adapters: see model/projection.h */
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

fw_status fw_edge_embed(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                        const fw_micro_batch *b);
/* Losses of the n target rows to a->loss_n (not summed, not weighted, not divided). With grad_scale > 0: gradients of head
 * and final norm are added, and a->d_NC becomes the gradient of x[L], all of the losses times their weights and grad_scale;
 * with 0, only the losses. */
fw_status fw_edge_loss(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                       const fw_micro_batch *b, float grad_scale);
fw_status fw_edge_embed_backward(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                                 const fw_micro_batch *b);
/* Logits of row_n <= n_max rows of x[L], fp32 [row_n, V] in device memory. */
fw_status fw_edge_logits(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                         const int32_t *row, int64_t row_n, float *logits);

fw_status fw_block_forward(const fw_model *m, fw_device *d, int64_t l, const fw_unit_weights *w, fw_activations *a,
                           const fw_micro_batch *b, fw_block_cache *cache);
/* What was not kept is computed again: with RECOMPUTE the block's forward (but for the last product, which nothing needs),
 * with SELECTIVE what lies between products. By the same operations, so that gradients have the same bits. */
fw_status fw_block_backward(const fw_model *m, fw_device *d, int64_t l, const fw_unit_weights *w, fw_activations *a,
                            const fw_micro_batch *b);

/* Address of element `offset_n` of a tensor of type t. */
static inline void *fw_at(void *base, int64_t offset_n, fw_dtype t) {
    return (char *)base + offset_n * (int64_t)fw_dtype_bytes(t);
}
static inline const void *fw_at_const(const void *base, int64_t offset_n, fw_dtype t) {
    return offset_n < 0 ? NULL : (const char *)base + offset_n * (int64_t)fw_dtype_bytes(t);
}
/* Of a parameter; NULL when the model has none. */
static inline const void *fw_weight(const fw_model *m, const fw_unit_weights *w, fw_place p) {
    return fw_at_const(p.trained ? w->trained : w->frozen, p.at_n, m->t);
}
/* Of its gradient; NULL when it has none. */
static inline float *fw_gradient(const fw_unit_weights *w, fw_place p) {
    return p.trained && p.at_n >= 0 && w->g != NULL ? w->g + p.at_n : NULL;
}

#endif
