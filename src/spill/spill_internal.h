/* A queue of ranges between the caller and those who move their pieces. */
#ifndef FW_SPILL_SPILL_INTERNAL_H
#define FW_SPILL_SPILL_INTERNAL_H

#include "spill/spill.h"

#include <pthread.h>

enum { FW_SPILL_QUEUE = 64, FW_SPILL_THREADS = 4, FW_SPILL_WAY_BYTES = 256 };

/* A range that was asked for and how far it has been given to lanes. */
typedef struct fw_spill_range {
    fw_spill_move *move;
    char *memory;
    uint64_t at;
    size_t bytes, taken_bytes;
    bool write;
} fw_spill_range;

/* One piece on its way. `data` is where the disk reads or writes: the range's memory, or the lane's buffer. */
typedef struct fw_spill_piece {
    fw_spill_move *move;
    char *memory, *data;
    uint64_t at;
    size_t bytes;    /* of the range */
    size_t io_bytes; /* whole pages */
    size_t done_bytes;
    bool write;
} fw_spill_piece;

struct fw_spill {
    int fd;
    char *folder;
    bool direct;
    char way[FW_SPILL_WAY_BYTES];
    char *buffers; /* one a lane, FW_SPILL_ALIGN */
    struct fw_spill_ring *ring;
    pthread_t thread[FW_SPILL_THREADS];
    int thread_n, lane_n; /* lanes of the threads: one each */

    pthread_mutex_t mutex;
    pthread_cond_t asked; /* there is something in the queue, or the end */
    pthread_cond_t moved; /* a piece is done, or the queue has room */
    fw_spill_range queue[FW_SPILL_QUEUE];
    unsigned queue_first, queue_n;
    bool ending;
    fw_status status; /* of what failed first; the trail has the rest */
    fw_trail trail;
    fw_spill_counters counters;
};

/* spill_file.c: an open file of so many bytes without a name; *direct: it takes direct I/O, which is tried with `page`. */
fw_status fw_spill_file_open(int *fd, bool *direct, const fw_spill_options *options, void *page);

/* Under the lock: the next piece for the lane with this buffer; false: the queue is empty. */
bool fw_spill_take(fw_spill *s, fw_spill_piece *out, char *buffer);
/* Without the lock, before and after the disk: copies between memory and buffer where they differ. */
void fw_spill_before(const fw_spill_piece *piece);
void fw_spill_after(const fw_spill_piece *piece);
/* Without the lock: `result` of a call that was to move what is left of the piece: bytes or -errno. True: it is done, well or
 * not, and the caller is told; false: there is more of it to move. */
bool fw_spill_advance(fw_spill *s, fw_spill_piece *piece, long result);
char *fw_spill_lane_buffer(const fw_spill *s, int lane);

/* spill_threads.c, spill_ring.c: what moves the pieces; begun last, ended first. */
fw_status fw_spill_threads_start(fw_spill *s);
/* *why: what is in the way when there is no ring; NULL when there is one. */
fw_status fw_spill_ring_start(fw_spill *s, const char **why);
void fw_spill_ring_free(struct fw_spill_ring *ring); /* takes NULL */

#endif
