/* Blocks of pieces, read by all threads and checked as they are read: no byte crosses from the system twice, and what is
 * hashed is still in the cache. Internal to the room. */
#ifndef FW_STORE_CHECKPOINT_BLOCKS_H
#define FW_STORE_CHECKPOINT_BLOCKS_H

#include "base/threads.h"
#include "store/manifest_index.h"

#include <pthread.h>
#include <stdatomic.h>

/* Where a piece is read from, and what messages call it. */
typedef struct fw_block_file {
    int fd;
    const char *path, *tensor;
    uint64_t block_bytes;
    size_t value_bytes;
} fw_block_file;

typedef struct fw_block {
    fw_block_file from;
    uint64_t at_bytes, bytes; /* in the file */
    const char *hash;         /* 16 digits */
    uint8_t *out;             /* what is wanted of it: bytes [skip, skip + take); take 0: it is only checked */
    uint64_t skip_bytes, take_bytes;
} fw_block;

typedef struct fw_block_list {
    fw_block *block;
    size_t block_n, cap_n;
} fw_block_list;

/* The blocks of a piece that have values [first_n, first_n + n) of it, n > 0, which go to out; NULL: nowhere. Borrows all
 * that it is given. Error: FW_ERR_NOMEM. */
fw_status fw_blocks_add(fw_block_list *list, const fw_block_file *from, const fw_manifest_piece *piece, int64_t first_n,
                        int64_t n, void *out);
/* Errors: FW_ERR_INPUT naming the file and the tensor of the first block that is damaged or not there; FW_ERR_IO. */
fw_status fw_blocks_read(const fw_block_list *list, fw_threads *threads);
void fw_blocks_fini(fw_block_list *list); /* takes a zeroed one */

/* The same in parts: any number of threads help, at any time between begin and end. */
typedef struct fw_block_reading {
    const fw_block_list *list;
    atomic_size_t next, failed; /* failed: index of the first bad block, block_n: none. Later ones are not begun */
    pthread_mutex_t lock;
    fw_status status;
    fw_trail trail;
} fw_block_reading;
void fw_blocks_begin(fw_block_reading *r, const fw_block_list *list); /* borrows it */
/* A fw_threads_fn: returns when no block is left to be begun; others may still be at theirs. */
void fw_blocks_help(void *reading, int index, int thread_n);
void fw_blocks_stop(fw_block_reading *r); /* no more blocks are begun: what has been read is not wanted any more */
/* When nobody helps any longer. Errors: those of read. */
fw_status fw_blocks_end(fw_block_reading *r);

#endif
