/* Missing barriers, seen in the accesses to shared memory: two threads touch the same bytes, one of them writes, and no
 * barrier lies between. Kernel files are compiled with -fsanitize=thread, which has every load and store call a function;
 * these functions are ours (simt_races.cc), not the thread sanitizer's. FW_SIMT_RACES is 1 where this is built in: not
 * together with a sanitizer, which would want the same functions. In the environment, FW_SIMT_RACES=0 turns it off.
 *
 * For every byte the last write and two reads, by threads of different warps, are remembered. What is found does not hang on
 * the schedule, but for a byte that several lanes of one warp read before one of them overwrites it. */
#ifndef FW_DEVICE_SIMT_SIMT_RACES_H
#define FW_DEVICE_SIMT_SIMT_RACES_H

#include <stddef.h>

namespace fw_simt {

/* A block starts; its shared memory is these two ranges. */
void races_start_block(void *dynamic, size_t dynamic_bytes, void *fixed, size_t fixed_bytes);
/* Every thread of the block has come to a __syncthreads. */
void races_block_barrier();
/* Every lane of the warp has come to a __syncwarp. */
void races_warp_barrier(unsigned warp);
/* The running thread starts a cp.async to here, and has waited for it. */
void races_copy_starts(const void *to, size_t bytes);
void races_copy_arrives(const void *to, size_t bytes);

} // namespace fw_simt

#endif
