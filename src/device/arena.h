/* The memory of a rank as one table: every block has its name, kind, offset and size before anything is taken.
 *
 * Rooms add the blocks they will use (fw_arena_add), which is arithmetic only and works for any number of ranks on any
 * machine. Whoever runs the job then takes each kind in one piece, sets base[kind], and the rooms find their blocks
 * with fw_arena_at. So what is printed as the plan is what is allocated, byte for byte:
 *
 *   device   | weights | moments | activations kept | in passing | loss chunk | ...     fw_device_alloc
 *   shared   | gradients | gathered units | ...                                         fw_comm_alloc
 *   host     | offloaded state | ...                                                    shard/rank_memory.c
 *
 * Blocks start at multiples of FW_ARENA_ALIGN bytes; what lies between is counted in bytes[kind]. */
#ifndef FW_DEVICE_ARENA_H
#define FW_DEVICE_ARENA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { FW_ARENA_ALIGN = 64, FW_ARENA_BLOCK_MAX = 32 };

typedef enum fw_memory_kind {
    FW_MEMORY_DEVICE, /* private to the rank, where it computes */
    FW_MEMORY_SHARED, /* collectives work on it without a copy */
    FW_MEMORY_HOST,   /* private to the rank, the host's, whatever computes */
    FW_MEMORY_KIND_N
} fw_memory_kind;

typedef struct fw_arena_block {
    const char *what; /* a literal: "gradients (fp32, own share)" */
    fw_memory_kind kind;
    size_t offset_bytes, bytes;
} fw_arena_block;

typedef struct fw_arena {
    fw_arena_block block[FW_ARENA_BLOCK_MAX];
    int block_n;
    size_t bytes[FW_MEMORY_KIND_N];
    char *base[FW_MEMORY_KIND_N]; /* NULL while it is only a plan; owned by who sets it */
} fw_arena;

/* Append a block; returns its number. 0 bytes gives no block and -1. Sizes whose sum overflows are kept at SIZE_MAX,
 * which no machine has. */
int fw_arena_add(fw_arena *arena, fw_memory_kind kind, const char *what, size_t bytes);

/* Where a block starts; NULL for block -1. */
static inline void *fw_arena_at(const fw_arena *arena, int block) {
    if (block < 0) return NULL;
    const fw_arena_block *b = &arena->block[block];
    return arena->base[b->kind] + b->offset_bytes;
}

#endif
