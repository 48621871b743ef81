/* Shares of weights that wait in memory of the host or in the file. Internal to the room; shard_weights.c calls it where the
 * layout says so. */
#ifndef FW_SHARD_SHARD_WEIGHTS_AWAY_H
#define FW_SHARD_SHARD_WEIGHTS_AWAY_H

#include "shard/shard_internal.h"

/* Places in the file, from l->bytes.file on, which grows; blocks of the arena. */
void fw_shard_weights_plan_away(fw_shard_layout *l, fw_arena *arena);
void fw_shard_weights_away_lay_out(fw_shard *s, const fw_arena *arena);

/* This rank's part of a bucket, to `own`: in the background where it comes from the file. */
fw_status fw_shard_weights_away_begin_in(fw_shard *s, int32_t bucket, char *own);
fw_status fw_shard_weights_away_end_in(fw_shard *s, int32_t bucket, char *own);
/* Where this rank's part is made, in memory of the host; when it is closed it goes where it is kept. */
fw_status fw_shard_weights_away_open(fw_shard *s, int32_t bucket, char **data);
fw_status fw_shard_weights_away_close(fw_shard *s, int32_t bucket, const char *data);
/* The master in the open record has changed. */
fw_status fw_shard_weights_away_renew(fw_shard *s, int32_t bucket, char *record);

#endif
