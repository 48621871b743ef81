/* Collectives, timed and checked as nccl-tests does it, with its counts and its two bandwidths:
 *
 *     algorithm bandwidth  bytes / time
 *     bus bandwidth        algorithm bandwidth * f, what the busiest link carries whatever the number n of ranks:
 *                          f = 2 (n - 1) / n   all_reduce
 *                              (n - 1) / n     all_gather, reduce_scatter, all_to_all
 *                              1               broadcast
 *
 * `bytes` is the larger of what a rank gives and gets. In place: the result is where the data was. Out of place: it is
 * somewhere else; as finewire's all_reduce and broadcast work in place, that is a copy and then they, and the time is
 * that of both. all_to_all cannot be in place. The time of a call is the mean over the calls, of the slowest rank.
 * Source: NVIDIA nccl-tests, doc/PERFORMANCE.md. */
#ifndef FW_MEASURE_COLLECTIVE_H
#define FW_MEASURE_COLLECTIVE_H

#include "comm/comm.h"
#include "device/device.h"
#include "machine/measured.h"
#include "measure/sweep.h"

#include <stdbool.h>

/* How a buffer of `asked_bytes` is used; parts are multiples of 16 bytes, as in nccl-tests. */
typedef struct fw_collective_shape {
    int64_t n;     /* elements of the whole buffer */
    int64_t count; /* what nccl-tests calls so: elements of a part, where there are parts, else n */
    int64_t bytes; /* of the whole buffer; 0: too small to be cut into parts */
} fw_collective_shape;
fw_collective_shape fw_collective_shape_of(fw_measured_what what, int64_t asked_bytes, fw_dtype dtype, int world);

/* GB/s (1e9 bytes); 0 for a time of 0. */
double fw_collective_algorithm_bandwidth(int64_t bytes, double seconds);
double fw_collective_bus_bandwidth(fw_measured_what what, int64_t bytes, double seconds, int world);

typedef struct fw_collective_bench {
    fw_comm *comm;
    fw_device *device;
    fw_measured_what what;
    fw_dtype dtype;
    int root;
    int warmup_n, iter_n;
    bool check;
    fw_sweep sweep;
    bool (*stop)(void); /* asked every quarter of a second, on every rank; one that says so stops all. May be NULL */
    /* Tests: called with the result before it is compared, in memory of the host. May be NULL. */
    void (*tamper)(int rank, void *result, size_t bytes);
    void *send, *receive; /* memory of fw_comm_alloc */
    void *host;           /* where data is made and looked at; NULL: the buffers are memory of the host */
} fw_collective_bench;

/* Take the buffers, of sweep.max_bytes each; send and receive live as long as the group. Collective. */
fw_status fw_collective_take_buffers(fw_collective_bench *b);
void fw_collective_free_buffers(fw_collective_bench *b); /* takes one without */

typedef struct fw_collective_timing {
    bool done;       /* there is such a way */
    double seconds;  /* of one call */
    int64_t wrong_n; /* elements of all ranks that were not what they must be; -1: not compared */
} fw_collective_timing;

typedef struct fw_collective_row {
    fw_collective_shape shape;
    fw_collective_timing out_of_place, in_place;
} fw_collective_row;

/* Measure every size of the sweep; `show` is called on every rank after each. Collective, the buffers taken. Errors: those
 * of comm, FW_ERR_INTERRUPTED. */
fw_status fw_collective_measure(const fw_collective_bench *b, void (*show)(void *context, const fw_collective_row *row),
                                void *context);

#endif
