/* Communication between the ranks of one job. Only shard, store and train call this.
 *
 * A rank is one process. A fw_comm is the group of all ranks; world 1 is a valid group (transport "self").
 * Every rank issues the same collectives in the same order. A collective is started, runs in the background,
 * and is waited for; collectives finish in the order in which they were started. Sums are carried in fp32 and
 * added in the order of ranks, so the result has the same bits on every rank and in every run.
 *
 * Failure: when one rank fails (fw_comm_abort, or its process ends), every wait on every other rank returns
 * FW_ERR_RANK within seconds, and the message names the rank and its reason. Nothing here waits for ever:
 * a wait longer than timeout_s (ddp_timeout) for a rank that is alive but does not come is FW_ERR_RANK too.
 */
#ifndef FW_COMM_COMM_H
#define FW_COMM_COMM_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdint.h>

typedef struct fw_comm fw_comm;

/* Where this process stands, from the launcher's environment. */
typedef struct fw_comm_options {
    int rank, world;
    int local_rank, local_world; /* on this host */
    char master_address[256];
    int master_port;
    double timeout_s;
} fw_comm_options;

/* Read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. *found = 0 and a world of 1
 * when none is set. Errors: FW_ERR_OPTION when only some are set, or a value makes no sense (by name). */
fw_status fw_comm_options_from_environment(fw_comm_options *out, int *found);

/* Meet the other ranks: rank 0 listens at master_address:master_port, all agree on world size and transport.
 * Errors: FW_ERR_RANK (nobody came in time, duplicate rank, another world size: by name). */
fw_status fw_comm_create(fw_comm **out, const fw_comm_options *options);
void fw_comm_destroy(fw_comm *c); /* takes NULL; does not wait for others */

int fw_comm_rank(const fw_comm *c);
int fw_comm_world(const fw_comm *c);
const char *fw_comm_transport(const fw_comm *c); /* "self", "shm" */

/* Memory that collectives can work on without a copy. Collective call: same bytes on every rank. 64-byte aligned,
 * zeroed, freed by destroy. Errors: FW_ERR_NOMEM, FW_ERR_IO with the shortage named. */
fw_status fw_comm_alloc(fw_comm *c, void **out, size_t bytes, const char *what);

/* One started collective; owned by the caller, valid until waited for. */
typedef struct fw_comm_request {
    uint64_t ticket;
} fw_comm_request;

/* buffer[i] = sum over ranks, n elements of fp32 or bf16 (summed in fp32, rounded once), in place. */
fw_status fw_comm_all_reduce(fw_comm *c, void *buffer, int64_t n, fw_dtype dtype, fw_comm_request *request);
/* Rank r gets the sum of part r: out has n / world elements and may be buffer + r * n / world; n % world == 0. */
fw_status fw_comm_reduce_scatter(fw_comm *c, void *out, const void *buffer, int64_t n, fw_dtype dtype,
                                 fw_comm_request *request);
/* buffer of n elements = the parts of all ranks in order; part may be buffer + r * n / world. */
fw_status fw_comm_all_gather(fw_comm *c, void *buffer, const void *part, int64_t n, fw_dtype dtype,
                             fw_comm_request *request);
fw_status fw_comm_broadcast(fw_comm *c, void *buffer, size_t bytes, int root, fw_comm_request *request);
fw_status fw_comm_wait(fw_comm *c, fw_comm_request *request);
/* Every rank has come here. */
fw_status fw_comm_barrier(fw_comm *c);

/* Small messages, host memory, at once: all[r * bytes ..] = what rank r gave; bytes <= 4096. */
fw_status fw_comm_exchange(fw_comm *c, void *all, const void *mine, size_t bytes);
/* Sum or maximum over ranks of a few integers; n <= 512. */
fw_status fw_comm_sum_i64(fw_comm *c, int64_t *values, int n);
fw_status fw_comm_max_i64(fw_comm *c, int64_t *values, int n);
/* After work that one rank alone can fail: returns FW_OK on every rank only when every rank passed FW_OK;
 * else the status of the lowest failing rank, with its message, on every rank. */
fw_status fw_comm_agree(fw_comm *c, fw_status mine);

/* This rank cannot go on: tell the others why (the message of this thread's trail). Never blocks. */
void fw_comm_abort(fw_comm *c, fw_status reason);

/* What crossed between ranks since the start, payload of this rank, by the formulas of nccl-tests:
 * all_reduce 2 (W-1)/W * bytes, reduce_scatter and all_gather (W-1)/W * bytes, broadcast bytes. */
typedef struct fw_comm_counters {
    uint64_t all_reduce_bytes, reduce_scatter_bytes, all_gather_bytes, broadcast_bytes;
    uint64_t wait_ns; /* time spent in fw_comm_wait: communication not hidden behind computing */
    uint64_t busy_ns; /* time the background thread worked on collectives */
} fw_comm_counters;
void fw_comm_get_counters(const fw_comm *c, fw_comm_counters *out);

#endif
