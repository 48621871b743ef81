/* Linear modules of a block whose outputs share one packed row: q|k|v, o, gate|up, down; with biases and adapters.
 *
 *   y = W x + b, and for each module with an adapter  y += s B u,  u = A x'    x' = dropout(x) in training, else x
 *   DoRA, no dropout:  y = (W x + s B u) m / norm + b
 *   DoRA, dropout:     y = W x + b - W x' + (W x' + s B u) m / norm            as peft 0.21
 *
 * A module's rows of y begin at its place in the packed row. The weights of all modules are one matrix, and one product
 * computes them, unless some are frozen and some are trained; then each module has a product of its own.
 *
 * Work memory, one at a time (fw_activations): du_NR [N, r]; inputs_NI [N, I], x' or a part of dx; outputs_NO [N, O], the
 * rows of one module as a matrix of its own. */
#ifndef FW_MODEL_PROJECTION_H
#define FW_MODEL_PROJECTION_H

#include "model/model.h"

/* Modules [first, first + n) of block l. */
typedef struct fw_projection {
    const fw_model *m;
    fw_device *d;
    const fw_unit_weights *w;
    const fw_activations *a;
    const fw_block_activations *s; /* of the block: u and norm */
    const fw_micro_batch *b;
    int64_t l;
} fw_projection;

typedef struct fw_projected {
    fw_linear first;
    int n;
} fw_projected;
extern const fw_projected fw_project_qkv, fw_project_o, fw_project_gate_up, fw_project_down;

/* y [N, outputs of all modules] from x [N, I]. Keeps u and norm. */
fw_status fw_project_forward(const fw_projection *p, fw_projected which, void *y, const void *x);
/* Only u and norm, for a backward pass whose forward left y out. */
fw_status fw_project_remember(const fw_projection *p, fw_projected which, const void *x);
/* dx [N, I], written, and gradients of what is trained, added; dy and x are not changed. dx NULL: it is not wanted. */
fw_status fw_project_backward(const fw_projection *p, fw_projected which, void *dx, const void *dy, const void *x);

/* The work memory that the model's projections need, in elements of a row: ranks, inputs, outputs; 0: none. */
typedef struct fw_projection_work {
    int64_t r, I, O;
} fw_projection_work;
fw_projection_work fw_projection_work_of(const fw_model *m);

#endif
