/* Gradients that are kept in the file. Internal to the room; shard_gradients.c calls it where the layout says so. */
#ifndef FW_SHARD_SHARD_GRADIENTS_AWAY_H
#define FW_SHARD_SHARD_GRADIENTS_AWAY_H

#include "shard/shard_internal.h"

/* Places in the file, from l->bytes.file on, which grows. */
void fw_shard_gradients_plan_away(fw_shard_layout *l);

fw_status fw_shard_gradient_away_acquire(fw_shard *s, int32_t bucket);
fw_status fw_shard_gradient_away_reduce(fw_shard *s, int32_t bucket, bool last_micro_batch);
fw_status fw_shard_gradient_away_finish(fw_shard *s);
/* This rank's part, as it is kept: in a buffer until clear. */
fw_status fw_shard_gradient_away_part(fw_shard *s, int32_t bucket, char **part);
void fw_shard_gradient_away_clear(fw_shard *s, int32_t bucket);

#endif
