/* The one table of a model's parameters: names, shapes, and where each lies in its unit.
 *
 * A *unit* is what is gathered, reduced and freed as a piece: unit 0 is the edge (embedding, final norm and,
 * when untied, the head), unit 1 + l is transformer block l. A unit is one contiguous flat range of elements;
 * the same offsets hold for its fp32 master weights, its copy in the compute type, its gradients and its moments.
 *
 * Inside a block the order is fixed so that products can be fused: the rows of q, k, v follow each other without
 * a gap, and so do gate and up, and their biases. All other parameters start at a multiple of 256 elements (whole
 * blocks of 8-bit optimizer state); a unit's size is a multiple of FW_UNIT_ALIGN. Padding is zero and stays zero.
 *
 *   block:  input norm | q k v | (q k v bias) | (q norm) | (k norm) | o | (o bias) | post-attention norm
 *           | gate up | (gate up bias) | down | (down bias)
 *   edge:   embedding | final norm | (head)
 */
#ifndef FW_MODEL_PARAM_TABLE_H
#define FW_MODEL_PARAM_TABLE_H

#include "model/model_config.h"

enum { FW_UNIT_ALIGN = 256, FW_PARAM_NAME_BYTES = 96 };

/* What a parameter is: one of the model, or what an adapter adds (model/adapter.h). */
typedef enum fw_param_kind {
    FW_PARAM_BASE,
    FW_PARAM_TIED_HEAD, /* the head of a tied model, trained apart: it begins as the embedding */
    FW_PARAM_LORA_A,
    FW_PARAM_LORA_B,
    FW_PARAM_MAGNITUDE /* of DoRA */
} fw_param_kind;

typedef struct fw_param {
    char name[FW_PARAM_NAME_BYTES]; /* as in files: "model.layers.0.self_attn.q_proj.weight" */
    fw_param_kind kind;
    int32_t base;       /* in the table of all parameters of the model: itself, or the matrix that the adapter is for */
    int64_t rows, cols; /* [rows, cols]; a vector has rows = its size and cols = 0 */
    int64_t n;          /* elements */
    int32_t unit;
    int64_t offset_n; /* from the start of the unit, in elements */
    bool trainable;
    bool decay;  /* weight decay applies: matrices, not norms and biases */
    bool joined; /* starts right behind its neighbour, so that both are one matrix */
} fw_param;

typedef struct fw_param_table {
    fw_param *param; /* in order of unit and offset */
    int32_t param_n;
    int32_t unit_n;         /* 1 + L */
    int64_t *unit_size_n;   /* elements of each unit, padding included */
    int64_t *unit_offset_n; /* start of each unit in a flat range of all units */
    int64_t total_n;        /* all units, padding included */
    int64_t parameter_n;    /* parameters of the model; a tied weight once */
    int32_t *unit_first;    /* index of the first parameter of each unit; unit_n + 1 entries */
} fw_param_table;

/* Errors: FW_ERR_NOMEM; FW_ERR_INPUT when the sizes overflow. */
fw_status fw_param_table_init(fw_param_table *out, const fw_model_config *config);
void fw_param_table_fini(fw_param_table *table);
/* NULL when there is none of that name. */
const fw_param *fw_param_table_find(const fw_param_table *table, const char *name);

#endif
