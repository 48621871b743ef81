/* Taking what an arena planned: one piece of device memory, one piece that collectives work on. */
#ifndef FW_SHARD_RANK_MEMORY_H
#define FW_SHARD_RANK_MEMORY_H

#include "comm/comm.h"
#include "device/arena.h"
#include "device/device.h"

/* Sets the arena's bases. Collective: every rank's arena has the same sizes. The shared piece belongs to comm and is
 * freed with it. Errors: FW_ERR_NOMEM, FW_ERR_FIT, FW_ERR_RANK. */
fw_status fw_rank_memory_take(fw_arena *arena, fw_device *device, fw_comm *comm);
/* Gives the device's piece back; takes an arena that has none. */
void fw_rank_memory_free(fw_arena *arena, fw_device *device);

#endif
