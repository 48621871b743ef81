/* --save_async: a rank's part of a checkpoint is copied to memory of the host and written behind the training.
 *
 * What is saved does not change until the next update, and then unit by unit. So the copy is made behind the next forward and
 * backward, by the thread that writes afterwards, and what is left of a unit when its update comes is copied then, by all
 * threads. What does not lie in memory of the host (devices, offload, arrays of tensors) is copied before the training goes on.
 *
 * The memory is taken once, when the run begins, and is in the memory plan: what a rank writes of weights and optimizer
 * state, with AdamW 12 bytes a parameter over all ranks. One thread copies and writes; nothing here is collective. */
#ifndef FW_TRAIN_SAVE_ASYNC_H
#define FW_TRAIN_SAVE_ASYNC_H

#include "base/behind.h"
#include "shard/shard.h"
#include "store/checkpoint.h"

#include <stdbool.h>

typedef struct fw_save_async fw_save_async;

/* What is taken on every rank: enough for any, whatever the strategy; the same before there is a layout. */
size_t fw_save_async_bytes(const fw_param_table *table, fw_optimizer optimizer, int world);
/* Borrows the shard, whose update hook it is until it is destroyed, and the threads. Errors: FW_ERR_NOMEM. */
fw_status fw_save_async_create(fw_save_async **out, fw_shard *shard, const fw_param_table *table, int rank, int world,
                               fw_threads *threads);
/* Waits for the thread. Takes NULL. */
void fw_save_async_destroy(fw_save_async *a);

/* Begin to copy and to write into dir, which is borrowed until wait; `also` (NULL: nothing) is called by the thread that
 * writes, before that, and fails the save when it fails. None may be running. */
fw_status fw_save_async_start(fw_save_async *a, const char *dir, fw_behind_fn also, void *context);
bool fw_save_async_is_running(const fw_save_async *a); /* started, and not waited for */
bool fw_save_async_is_done(const fw_save_async *a);    /* the thread has nothing left to do */
/* What fw_checkpoint_write_part gave in the thread. */
fw_status fw_save_async_wait(fw_save_async *a, json_t **part);

#endif
