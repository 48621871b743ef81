/* Memory that lies in a file: large ranges go out and come back while the rank computes.
 *
 *   fw_spill_write(s, &move, from, at, bytes)   begins; `from` is not to be changed before fw_spill_wait(s, &move)
 *   fw_spill_read(s, &move, to, at, bytes)      the same for reading
 *   fw_spill_wait(s, &move)                     until it is done
 *
 * A range is cut into pieces of FW_SPILL_PIECE_BYTES; FW_SPILL_LANES of them are on their way at a time, in the order in
 * which they were asked for, each with a buffer of its own for memory that direct I/O cannot take as it is. So the memory
 * that spilling needs is FW_SPILL_BUFFER_BYTES, whatever is spilled.
 *
 * Pieces go through io_uring with O_DIRECT (raw system calls: three of them and two rings; a library would be one more
 * thing to be there at build and at run time). Where the kernel or the headers have no io_uring, threads that pread and
 * pwrite; where the file system takes no direct I/O (some tmpfs, some network mounts), the page cache. fw_spill_way says
 * which and why.
 *
 * The file has no name: it is gone with the process, however that ends. Its blocks are taken when it is made, so that a
 * disk is full at the start or never. */
#ifndef FW_SPILL_SPILL_H
#define FW_SPILL_SPILL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FW_SPILL_ALIGN = 4096, /* of ranges in the file; memory at such addresses is not copied on its way */
    FW_SPILL_PIECE_BYTES = 1 << 20,
    FW_SPILL_LANES = 8,
    FW_SPILL_BUFFER_BYTES = FW_SPILL_LANES * FW_SPILL_PIECE_BYTES
};

/* Bytes that a range of n takes in the file. */
static inline uint64_t fw_spill_round(uint64_t bytes) {
    return (bytes + FW_SPILL_ALIGN - 1) / FW_SPILL_ALIGN * FW_SPILL_ALIGN;
}

typedef struct fw_spill fw_spill;

typedef struct fw_spill_options {
    const char *folder; /* made when it is not there */
    uint64_t bytes;     /* of the file */
    bool no_ring;       /* tests: as on a kernel without io_uring */
    bool no_direct;     /* tests: as on a file system without direct I/O */
} fw_spill_options;

/* Errors: FW_ERR_IO (folder, free space, disk), FW_ERR_NOMEM. */
fw_status fw_spill_create(fw_spill **out, const fw_spill_options *options);
void fw_spill_destroy(fw_spill *s); /* takes NULL; waits for what is on its way */

/* "io_uring, direct I/O", "4 threads, the page cache (this kernel has no io_uring; ...)": how it works here. */
const char *fw_spill_way(const fw_spill *s);

/* A range on its way. Zeroed: none. */
typedef struct fw_spill_move {
    uint32_t piece_n; /* not done yet */
} fw_spill_move;

/* at: a multiple of FW_SPILL_ALIGN; the range's end, rounded up so, lies in the file. What is written beyond `bytes` to
 * the end of its last page is 0. One thread calls. Errors of what was begun before come with any of these: FW_ERR_IO, once
 * and for all; the data is lost then. */
fw_status fw_spill_write(fw_spill *s, fw_spill_move *move, const void *from, uint64_t at, size_t bytes);
fw_status fw_spill_read(fw_spill *s, fw_spill_move *move, void *to, uint64_t at, size_t bytes);
fw_status fw_spill_wait(fw_spill *s, fw_spill_move *move);

typedef struct fw_spill_counters {
    uint64_t read_bytes, written_bytes;
    uint64_t wait_ns; /* that the caller stood in fw_spill_wait */
} fw_spill_counters;
void fw_spill_get_counters(fw_spill *s, fw_spill_counters *out);

/* Tests: the n-th piece that is read (written) from now on fails with EIO (ENOSPC); 0 switches it off. */
void fw_spill_fail_read_at(uint64_t n);
void fw_spill_fail_write_at(uint64_t n);

#endif
