/* A unit as the model computes with it: its frozen weights, its trained ones, and the gradient of those.
 *
 * A training whose model is frozen but for an adapter (model/adapter.h) has two engines with the same units, one without
 * and one with training state; all others have the second alone. Frozen weights may be in 4 bits: the engine carries them as
 * words, and a block is unpacked when it is acquired. Both run the same strategy. Their collectives are
 * issued by one thread, frozen before trained, so every rank has the same order. */
#ifndef FW_SHARD_UNITS_H
#define FW_SHARD_UNITS_H

#include "model/model.h"
#include "model/packed_table.h"
#include "shard/shard.h"

typedef struct fw_units {
    fw_shard *frozen; /* NULL: none; all borrowed */
    fw_shard *trained;
    const fw_packed_table *packed; /* the frozen ones are in 4 bits; NULL: they are not */
    void *unpacked;                /* packed->work_n elements: the block at work, in the compute type */
    fw_device *device;
} fw_units;

/* As fw_shard_begin, fw_shard_acquire (gradient: out->g is wanted) and fw_shard_release. */
fw_status fw_units_begin(const fw_units *u, fw_shard_pass pass, bool more);
fw_status fw_units_acquire(const fw_units *u, int32_t unit, fw_shard_use use, bool gradient, fw_unit_weights *out);
fw_status fw_units_release(const fw_units *u, int32_t unit, fw_shard_use use);
/* What this rank has sent for both. */
void fw_units_get_counters(const fw_units *u, fw_shard_counters *out);

/* The options of the frozen engine beside a trained one of these. packed: in 4 bits. */
fw_shard_options fw_units_frozen_options(const fw_shard_options *trained, bool packed);

#endif
