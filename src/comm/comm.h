/* Communication between the ranks of one job. Only shard, store and train call this.
 *
 * A rank is one process. A fw_comm is the group of all ranks; world 1 is a valid group (transport "self").
 * Every rank issues the same collectives in the same order. A collective is started, runs in the background,
 * and is waited for (who waits for what nobody has begun yet works himself); collectives finish in the order in which
 * they were started. Sums are carried in fp32 and added in the order of ranks, so the result has the same bits on
 * every rank and in every run, whichever rank comes first.
 *
 * Ranks that go different ways are told so at once: collectives are compared (kind, type, number of elements, root,
 * label) before any data is touched, and two ranks that wait for each other in different calls are found; the message
 * names both.
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

enum { FW_COMM_MAX_WORLD = 64, FW_COMM_SECRET_BYTES = 64, FW_COMM_EXCHANGE_BYTES = 4096 };

/* What carries data between CPU ranks. AUTO: shared memory where all ranks are on one host; where mpirun has started them
 * on several, MPI. */
typedef enum fw_comm_link { FW_COMM_LINK_AUTO, FW_COMM_LINK_SHM, FW_COMM_LINK_MPI } fw_comm_link;

/* Where this process stands, from the launcher's environment. A time of 0 means its default. */
typedef struct fw_comm_options {
    int rank, world;
    int local_rank, local_world; /* on this host */
    char master_address[256];
    int master_port;
    double timeout_s;                  /* a rank that is alive but does not come (ddp_timeout); default 1800 */
    double connect_timeout_s;          /* meeting the others at the start; default 60 */
    double heartbeat_s;                /* a rank that gives no sign of life at all counts as lost; default 60 */
    char secret[FW_COMM_SECRET_BYTES]; /* the job's secret, zero-terminated; "": derived from the address */
    int listen_fd;    /* rank 0: a socket that listens already, given by our launcher; 0 or less: none */
    int port_tries;   /* how many ports from master_port on may be the meeting point; 0 counts as 1 */
    int own_launcher; /* started by fw_launch: the launcher, too, says how a rank ended */
    fw_comm_link link;
    int by_mpirun;        /* what is above comes from mpirun's variables */
    int address_is_guess; /* nobody gave an address: one of this host that ranks of one mpirun have in common */
} fw_comm_options;

/* Read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and from our own launcher
 * FINEWIRE_JOB_SECRET and FINEWIRE_LISTEN_FD. LOCAL_* may be missing: then all ranks are on this host.
 * *found = 0 and a world of 1 when none is set. Under a foreign launcher (no FINEWIRE_JOB_SECRET) ranks know each
 * other by MASTER_ADDR, MASTER_PORT and WORLD_SIZE only; own_launcher is 0 then, so that the caller can say so.
 * Under torchrun, whose agent itself listens at MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the ports after it
 * are used. Under mpirun of Open MPI its variables (OMPI_COMM_WORLD_RANK and so on) say the same where RANK and
 * WORLD_SIZE do not; MASTER_ADDR and MASTER_PORT may be missing then. MASTER_* alone mean nothing. Errors: FW_ERR_OPTION when only some are set, or a value makes no sense (by
 * name). */
fw_status fw_comm_options_from_environment(fw_comm_options *out, int *found);

/* Meet the other ranks: rank 0 listens at master_address:master_port, all agree on world size and transport.
 * Call it before threads are pinned: the background thread inherits the caller's CPUs (see fw_comm_set_cpus).
 * Errors: FW_ERR_RANK (nobody came in time, duplicate rank, another world size, another version, a wrong secret,
 * ranks on different hosts: by name), FW_ERR_OPTION (rank or world out of range; no MPI), FW_ERR_NOMEM. */
fw_status fw_comm_create(fw_comm **out, const fw_comm_options *options);
/* Takes NULL. Does not wait for others, except where MPI does: by mpirun ranks end together. */
void fw_comm_destroy(fw_comm *c);

int fw_comm_rank(const fw_comm *c);
int fw_comm_world(const fw_comm *c);
const char *fw_comm_transport(const fw_comm *c); /* "self", "shm", "mpi", "nccl" */
/* The most ranks of one host. */
int fw_comm_host_ranks(const fw_comm *c);

/* Collectives work on memory of this device from now on: on the host's where it computes on the host, else on its GPU's,
 * between GPUs by NCCL (transport "nccl"). Then what a collective gives is there for operations of the device that are
 * issued after fw_comm_wait, which does not block the host; fw_copy from it waits, as always. Memory of the host may
 * still be broadcast, but not in groups. Sums are NCCL's: the same on every rank, in an order that is the same in every
 * run with the same GPUs, links and settings, in fp32 when the data is fp32.
 * Collective; once, before fw_comm_alloc. The device must live longer than c. Errors: FW_ERR_OPTION (ranks on different
 * kinds of devices, two ranks on one GPU without FINEWIRE_SHARE_GPU=1, no NCCL), FW_ERR_RANK. */
struct fw_device;
fw_status fw_comm_use_device(fw_comm *c, struct fw_device *device);
/* How many ranks use this rank's GPU, itself counted; 1 without a GPU. */
int fw_comm_ranks_on_gpu(const fw_comm *c);

/* The background thread may run on these CPUs: this rank's share. A wish: being refused costs speed only. */
void fw_comm_set_cpus(fw_comm *c, const int *cpus, int cpu_n);

/* Memory that collectives can work on without a copy. Collective call: same bytes on every rank. 64-byte aligned,
 * zeroed, freed by destroy. Errors: FW_ERR_NOMEM, FW_ERR_IO with the shortage named. */
fw_status fw_comm_alloc(fw_comm *c, void **out, size_t bytes, const char *what);

/* A group of ranks first, first + stride, ... (n of them) of `parent`, this rank among them; its rank in the group is
 * its place in this row. Collective over the parent: every rank calls it in the same order, and the groups of one call
 * partition the parent (first and stride may differ between them, and n). For hybrid sharding: shard groups
 * (consecutive ranks, stride 1) and replica groups (one rank of each shard group).
 *
 * On a group these are allowed: the collectives, wait, barrier, rank, world, transport, get_counters, what is
 * said of failures (abort, abort_origin, reports_failure: those of the job), and destroy (before the parent's, which
 * ends the groups that are left); all else is the parent's (FW_ERR_INTERNAL, or FW_ASSERT where nothing is returned).
 * A group's collectives run in the parent's queue, in the order in which this rank starts them, and work in place on
 * memory of the parent's fw_comm_alloc. What two ranks have in common (parent's and groups'), both start in the same
 * order. A failure anywhere in the parent ends every wait in a group.
 * n = 1 is valid: its collectives move nothing between ranks and finish in order like all others.
 * Errors: FW_ERR_INTERNAL (a group of a group, this rank not in it, ranks outside the parent), FW_ERR_RANK (the groups
 * of this call overlap or leave a rank out: names two ranks and their groups), FW_ERR_NOMEM. */
fw_status fw_comm_group(fw_comm **out, fw_comm *parent, int first, int stride, int n);

/* What fw_comm_alloc has given this rank, as it was asked for. */
size_t fw_comm_allocated_bytes(const fw_comm *c);

/* One started collective; owned by the caller, valid until waited for. Zero-initialise it.
 * label: set by the caller before the start, or NULL: what is moved, e.g. "layers.3". The same on every rank (its
 * first 39 bytes are compared); must outlive the wait. Appears in messages and in the trace. */
typedef struct fw_comm_request {
    uint64_t ticket;
    const char *label;
} fw_comm_request;

/* buffer[i] = sum over ranks, n elements of fp32 or bf16 (summed in fp32, rounded once), in place. */
fw_status fw_comm_all_reduce(fw_comm *c, void *buffer, int64_t n, fw_dtype dtype, fw_comm_request *request);
/* Rank r gets the sum of part r: out has n / world elements and may be buffer + r * n / world; n % world == 0. */
fw_status fw_comm_reduce_scatter(fw_comm *c, void *out, const void *buffer, int64_t n, fw_dtype dtype,
                                 fw_comm_request *request);
/* buffer of n elements = the parts of all ranks in order; part may be buffer + r * n / world. Without a copy in between
 * already when the parts, or the buffers, are memory of fw_comm_alloc on every rank. */
fw_status fw_comm_all_gather(fw_comm *c, void *buffer, const void *part, int64_t n, fw_dtype dtype,
                             fw_comm_request *request);
fw_status fw_comm_broadcast(fw_comm *c, void *buffer, size_t bytes, int root, fw_comm_request *request);
/* Part r of out = part `me` of rank r's buffer: the transpose. Both of n elements, n % world == 0; they do not overlap. */
fw_status fw_comm_all_to_all(fw_comm *c, void *out, const void *buffer, int64_t n, fw_dtype dtype,
                             fw_comm_request *request);
fw_status fw_comm_wait(fw_comm *c, fw_comm_request *request);
/* Every rank has come here. */
fw_status fw_comm_barrier(fw_comm *c);

/* Small messages, host memory, at once: all[r * bytes ..] = what rank r gave; bytes <= 4096. */
fw_status fw_comm_exchange(fw_comm *c, void *all, const void *mine, size_t bytes);
/* Sum or maximum over ranks of a few integers; n <= 512. */
fw_status fw_comm_sum_i64(fw_comm *c, int64_t *values, int n);
fw_status fw_comm_max_i64(fw_comm *c, int64_t *values, int n);
/* After work that one rank alone can fail: returns FW_OK on every rank only when every rank passed FW_OK;
 * else the status of the lowest failing rank, with its message, on every rank; that rank is then the origin. The
 * group stays usable. */
fw_status fw_comm_agree(fw_comm *c, fw_status mine);

/* This rank cannot go on: tell the others why (the message of this thread's trail). Never blocks. Without effect
 * when the job has failed already: the first reason stands. Takes NULL. */
void fw_comm_abort(fw_comm *c, fw_status reason);
/* The rank whose failure came first (by abort, agree, or its end); -1 while nothing failed. */
int fw_comm_abort_origin(const fw_comm *c);
/* Whether this rank is the one that prints the failure: it is the origin, or nothing is known of another origin,
 * or the origin died without a word, no launcher of ours is there to say so, and this is the lowest rank left.
 * NULL: of this thread's last fw_comm_create that failed; 1 when none has. */
int fw_comm_reports_failure(const fw_comm *c);

/* Long work of this rank alone (saving, tokenising) is no reason for a timeout: between these two calls the clocks
 * of ranks that wait for this one stand still (a dead rank is noticed all the same). `what` for messages.
 * May not be nested. */
void fw_comm_host_work_begin(fw_comm *c, const char *what);
void fw_comm_host_work_end(fw_comm *c);

/* Tests: the n-th collective this process starts from now on (1 = the next) fails, as if the transport had
 * failed; 0 switches it off. */
void fw_comm_fail_at(uint64_t n);

/* What crossed between ranks since the start, payload of this rank by the formulas of nccl-tests, each collective
 * rounded down to a byte, W ranks:
 *   all_reduce                  sent = received = 2 (W-1)/W * bytes of the buffer
 *   reduce_scatter, all_gather  sent = received = (W-1)/W * bytes of the whole buffer
 *   all_to_all                  the same
 *   broadcast                   the root sends the bytes once; every other rank receives them
 * A group counts its own collectives; the parent's counters do not contain those of its groups. */
typedef struct fw_comm_traffic {
    uint64_t call_n; /* collectives done */
    uint64_t sent_bytes, received_bytes;
} fw_comm_traffic;

typedef struct fw_comm_counters {
    fw_comm_traffic all_reduce, reduce_scatter, all_gather, broadcast, all_to_all;
    fw_comm_traffic total; /* their sum */
    uint64_t wait_ns;      /* time spent in fw_comm_wait: communication not hidden behind computing */
    uint64_t busy_ns;      /* time the background thread worked on collectives, waiting for other ranks included; with
                            * GPUs both are the host's time only, since it does not wait */
} fw_comm_counters;
void fw_comm_get_counters(const fw_comm *c, fw_comm_counters *out);

#endif
