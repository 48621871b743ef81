/* What of a checkpoint is not needed at once: collected first, then read and checked by a thread of its own behind other work,
 * and in the end by all who wait for it.
 *
 *   fw_checkpoint_later_add(&l, files, ...)       as fw_checkpoint_read, but nothing has been read yet
 *   fw_checkpoint_later_start(&l, threads)        `out` is written from here on
 *   fw_checkpoint_later_finish(&l, threads)       `out` can be used
 *
 * What is collected takes 88 bytes a MiB. */
#ifndef FW_STORE_CHECKPOINT_LATER_H
#define FW_STORE_CHECKPOINT_LATER_H

#include "base/behind.h"
#include "store/checkpoint.h"
#include "store/checkpoint_blocks.h"

/* Stays where it is from start to finish or stop. Zeroed: nothing is collected. */
typedef struct fw_checkpoint_later {
    fw_block_list blocks;
    fw_block_reading reading;
    fw_behind thread;
} fw_checkpoint_later;

/* As fw_checkpoint_read and fw_checkpoint_read_values. files, and out, are borrowed until finish or stop.
 * Error: FW_ERR_NOMEM. */
fw_status fw_checkpoint_later_add(fw_checkpoint_later *l, const fw_checkpoint_files *files, fw_checkpoint_array array,
                                  int32_t unit, int64_t first_n, int64_t n, float *out);
fw_status fw_checkpoint_later_add_values(fw_checkpoint_later *l, const fw_checkpoint_files *files,
                                         fw_checkpoint_array array, int32_t param, int64_t first_n, int64_t n,
                                         void *out);
/* The thread may run on the CPUs of the pool, which it does not use. */
void fw_checkpoint_later_start(fw_checkpoint_later *l, const fw_threads *pool);
bool fw_checkpoint_later_is_started(const fw_checkpoint_later *l);
/* Wait, and work meanwhile; what was not started is read now. Errors: those of fw_checkpoint_read, of the first bad block. Then it is as if zeroed. */
fw_status fw_checkpoint_later_finish(fw_checkpoint_later *l, fw_threads *threads);
/* What was read is not wanted. Takes a zeroed one. */
void fw_checkpoint_later_stop(fw_checkpoint_later *l);

/* Internal to the room: the blocks that such a range is in. */
fw_status fw_checkpoint_collect(fw_block_list *blocks, const fw_checkpoint_files *files, fw_checkpoint_array array,
                                int32_t unit, int64_t first_n, int64_t n, float *out);
fw_status fw_checkpoint_collect_values(fw_block_list *blocks, const fw_checkpoint_files *files,
                                       fw_checkpoint_array array, int32_t param, int64_t first_n, int64_t n, void *out);

#endif
