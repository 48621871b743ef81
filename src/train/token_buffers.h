/* The tokens of one micro-batch on the device, made from a flat host batch (data/batcher.h). */
#ifndef FW_TRAIN_TOKEN_BUFFERS_H
#define FW_TRAIN_TOKEN_BUFFERS_H

#include "data/batcher.h"
#include "model/model.h"

typedef struct fw_token_buffers {
    fw_device *device;                                      /* borrowed */
    fw_batch host;                                          /* filled by the batcher */
    int32_t *row, *label;                                   /* host: rows that have a target, and the target */
    int32_t *id_N, *position_N, *first_N, *row_n, *label_n; /* device */
    fw_loss_weight *weight;                                 /* host: of the targets */
    float *loss_n;                                          /* host copy of the losses */
    int64_t cap_n;
    uint64_t *key, *key_N; /* host, device; NULL: no keys */
    uint64_t seed;
} fw_token_buffers;

/* memory: fw_micro_batch_bytes(cap_n, keys) of the device, borrowed. keys: rows have keys for dropout, from `seed`. */
fw_status fw_token_buffers_init(fw_token_buffers *out, fw_device *device, void *memory, int64_t cap_n, bool keys,
                                uint64_t seed);
void fw_token_buffers_fini(fw_token_buffers *t);

/* Bring t->host to the device; *out borrows from t. step: of training, from 1, or 0: nothing is dropped. A row's key is a
 * function of seed, step, conversation and position: not of the rank, nor of the micro-batch. */
fw_status fw_token_buffers_upload(fw_token_buffers *t, int64_t step, fw_micro_batch *out);

/* Sum of losses as a fixed-point number of 2^-24: additions are exact, so the total does not depend on how tokens are
 * spread over micro-batches and ranks. */
typedef struct fw_loss_sum {
    int64_t fixed; /* weight * loss * 2^24 */
    int64_t target_n;
    int64_t not_finite; /* losses that are NaN or infinite; they are not in the sum */
    int64_t weight;     /* sum of all weights */
} fw_loss_sum;
/* Add the n losses on the device. weight_n: of each, in host memory; NULL: all count as one. */
fw_status fw_token_buffers_add_losses(fw_token_buffers *t, fw_loss_sum *sum, const float *loss_n,
                                      const fw_loss_weight *weight_n, int64_t n);
/* Weighted mean; NaN when not_finite. */
double fw_loss_mean(const fw_loss_sum *sum);

#endif
