#include "shard/rank_memory.h"

#include <sys/mman.h>

/* Pages come as they are written. */
static fw_status take_host(fw_arena *arena) {
    const size_t bytes = arena->bytes[FW_MEMORY_HOST];
    if (bytes == 0) return FW_OK;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return fw_fail(FW_ERR_NOMEM, "out of memory: %zu bytes for offloaded optimizer state", bytes);
    arena->base[FW_MEMORY_HOST] = base;
    return FW_OK;
}

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
    return take_host(arena);
}

void fw_rank_memory_free(fw_arena *arena, fw_device *device) {
    if (device != NULL) fw_device_free(device, arena->base[FW_MEMORY_DEVICE], arena->bytes[FW_MEMORY_DEVICE]);
    if (arena->base[FW_MEMORY_HOST] != NULL) munmap(arena->base[FW_MEMORY_HOST], arena->bytes[FW_MEMORY_HOST]);
    arena->base[FW_MEMORY_DEVICE] = arena->base[FW_MEMORY_SHARED] = arena->base[FW_MEMORY_HOST] = NULL;
}
