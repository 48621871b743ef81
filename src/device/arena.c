#include "device/arena.h"

int fw_arena_add(fw_arena *arena, fw_memory_kind kind, const char *what, size_t bytes) {
    if (bytes == 0) return -1;
    FW_ASSERT(arena->block_n < FW_ARENA_BLOCK_MAX);
    size_t *used = &arena->bytes[kind], rounded, end;
    arena->block[arena->block_n] = (fw_arena_block){what, kind, *used, bytes};
    if (__builtin_add_overflow(bytes, (size_t)FW_ARENA_ALIGN - 1, &rounded) ||
        __builtin_add_overflow(*used, rounded / FW_ARENA_ALIGN * FW_ARENA_ALIGN, &end))
        end = SIZE_MAX;
    *used = end;
    return arena->block_n++;
}
