/* Records that are somewhere else between updates. Internal to the room; shard_record.c calls it. */
#ifndef FW_SHARD_SHARD_RECORD_AWAY_H
#define FW_SHARD_SHARD_RECORD_AWAY_H

#include "shard/shard_record.h"
#include "spill/spill.h"

enum { FW_SHARD_RECORD_SLOTS = 3 };

/* Places of the records in the file or the host's memory, and the blocks of the arena for them. The records are laid out.
 * what: of the buffers they come into. */
void fw_shard_record_plan_away(fw_shard_layout *l, fw_arena *arena, const char *what);
void fw_shard_record_away_lay_out(fw_shard *s, const fw_arena *arena);

/* An update comes: begin to bring in what it opens first. */
fw_status fw_shard_record_fetch_first(fw_shard *s);

fw_status fw_shard_record_away_open(fw_shard *s, int32_t bucket, fw_shard_record_use use, char **out);
fw_status fw_shard_record_away_close(fw_shard *s, int32_t bucket);

#endif
