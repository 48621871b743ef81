#include "shard/rank_memory.h"

fw_status fw_rank_memory_take(fw_arena *arena, fw_device *device, fw_comm *comm) {
    void *base = NULL;
    if (arena->bytes[FW_MEMORY_SHARED] > 0) {
        FW_TRY(fw_comm_alloc(comm, &base, arena->bytes[FW_MEMORY_SHARED], "gradients and units at work"));
        arena->base[FW_MEMORY_SHARED] = base;
    }
    if (arena->bytes[FW_MEMORY_DEVICE] > 0) {
        /* Weights get their pages when they are read, moments in the first update, activations in the first pass. */
        FW_TRY(fw_device_alloc_lazy(device, &base, arena->bytes[FW_MEMORY_DEVICE], "weights, moments, activations"));
        arena->base[FW_MEMORY_DEVICE] = base;
    }
    return FW_OK;
}

void fw_rank_memory_free(fw_arena *arena, fw_device *device) {
    if (device != NULL) fw_device_free(device, arena->base[FW_MEMORY_DEVICE], arena->bytes[FW_MEMORY_DEVICE]);
    arena->base[FW_MEMORY_DEVICE] = arena->base[FW_MEMORY_SHARED] = NULL;
}
