/* Who owns which bytes of the training state, and when they move between ranks.
 *
 * The step asks for a unit before it computes with it and gives it back after; what happens in between is decided
 * here by the strategy, and neither the model nor the step knows which one runs:
 *
 *   fw_shard_acquire   the unit's compute weights (and gradients) are complete in memory
 *   fw_shard_reduce    this rank has added all it has to the unit's gradient for this micro-batch
 *   fw_shard_release   the unit is not needed for now
 *   fw_shard_finish    gradients of all ranks have been summed where they are owned
 *   fw_shard_share     the owner has updated its range: every rank's compute weights follow
 *
 * ddp: every rank owns everything, and a unit's gradients are summed over ranks after the last micro-batch, in the
 * background, while earlier units still compute. Gradients are reduced in fp32 and are sums, not means: the divisor is
 * part of the loss scale.
 *
 * Per unit and rank the owned range has fp32 master weights w, moments m and v, and the fp32 gradient g: 16 bytes a
 * parameter. Compute weights are w itself in fp32. In bf16 a copy exists only while a unit computes: one buffer for the
 * edge, one for the block at hand, rounded from w on acquire (6 bytes of traffic a parameter, against hundreds of
 * operations on it). Without training the weights are kept in the compute type only. */
#ifndef FW_SHARD_SHARD_H
#define FW_SHARD_SHARD_H

#include "comm/comm.h"
#include "device/device.h"
#include "model/param_table.h"

typedef enum fw_shard_strategy { FW_SHARD_DDP } fw_shard_strategy;

typedef struct fw_shard_options {
    fw_shard_strategy strategy;
    fw_dtype t;    /* compute type: FW_F32 or FW_BF16 */
    bool training; /* false: weights in type t only; no gradients, no moments, no master beside bf16 */
} fw_shard_options;

/* Bytes of one rank, exactly what fw_shard_create takes. Allocates nothing. */
typedef struct fw_shard_bytes {
    size_t master, compute, gradient, moments;
} fw_shard_bytes;
fw_shard_bytes fw_shard_bytes_of(const fw_param_table *table, const fw_shard_options *options, int world);

typedef struct fw_shard fw_shard;

/* Borrows table, device and comm until destroy. Collective. Errors: FW_ERR_NOMEM, FW_ERR_FIT, FW_ERR_IO. */
fw_status fw_shard_create(fw_shard **out, const fw_param_table *table, fw_device *device, fw_comm *comm,
                          const fw_shard_options *options);
void fw_shard_destroy(fw_shard *s); /* takes NULL */

/* Fill the weights: `read` gives out[0, n) = elements [first_n, first_n + n) of a unit, fp32, padding 0; host memory.
 * Only owned ranges are asked for. */
typedef fw_status (*fw_unit_reader)(void *context, int32_t unit, int64_t first_n, int64_t n, float *out);
fw_status fw_shard_load(fw_shard *s, fw_unit_reader read, void *context);
/* Master weights were changed from outside (a checkpoint): copies made from them are out of date. */
void fw_shard_refresh(fw_shard *s);

/* *w: the unit's compute weights; g (may be NULL): its gradient. Valid until release. */
fw_status fw_shard_acquire(fw_shard *s, int32_t unit, const void **w, float **g);
fw_status fw_shard_release(fw_shard *s, int32_t unit);
fw_status fw_shard_reduce(fw_shard *s, int32_t unit, bool last_micro_batch);
fw_status fw_shard_finish(fw_shard *s);
fw_status fw_shard_share(fw_shard *s, int32_t unit);

/* The part of a unit that this rank owns: elements [first_n, first_n + n), as pointers to the first of them. */
typedef struct fw_owned_range {
    int64_t first_n, n;
    float *w, *m, *v, *g;
} fw_owned_range;
fw_owned_range fw_shard_owned(fw_shard *s, int32_t unit);
/* Sum of squares of a whole gradient, every element once whatever is replicated; the same bits on every rank. */
fw_status fw_shard_gradient_squares(fw_shard *s, double *out);

/* Flat arrays [table->total_n] for checkpoints and export; m and v are NULL without training. w is NULL when there is
 * no master (bf16 without training). */
typedef struct fw_shard_flat {
    float *w, *m, *v;
} fw_shard_flat;
fw_shard_flat fw_shard_flat_arrays(fw_shard *s);

#endif
