/* The order in which a pass asks for buckets. Internal to the room. */
#ifndef FW_SHARD_SHARD_SCHEDULE_H
#define FW_SHARD_SHARD_SCHEDULE_H

#include "shard/shard.h"

/* One stay of a bucket in memory: it is needed for use_n acquires that follow each other, then not for a while. */
typedef struct fw_shard_stay {
    int32_t bucket;
    int32_t use_n;
} fw_shard_stay;

typedef struct fw_shard_schedule {
    fw_shard_stay *stay;
    int32_t stay_n;
} fw_shard_schedule;

/* The acquires of fw_shard_begin's comment, FW_SHARD_GRADIENT left out (it needs no weights), neighbours of one bucket
 * joined: so the last block of a group stays for its backward, and a model in one bucket is gathered once. */
fw_status fw_shard_schedule_init(fw_shard_schedule *out, const fw_shard_layout *layout, fw_shard_pass pass);
void fw_shard_schedule_fini(fw_shard_schedule *schedule);

#endif
