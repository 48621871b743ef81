/* Shared memory between the ranks of one host.
 *
 * One memfd holds everything: the control area (barriers, descriptors, small messages, staging) at its start, then
 * one range for each fw_comm_alloc, in which rank r's buffer lies at r * stride. Each rank maps all of it.
 * Why a memfd, handed over by SCM_RIGHTS on an abstract Unix socket:
 *   - it is not limited by the size of /dev/shm (64 MiB in many containers), as shm_open is;
 *   - it has no name, so nothing is left behind however the ranks end (kill -9);
 *   - it needs no right to look into another process, as /proc/PID/fd and process_vm_readv do.
 * Pages are reserved with fallocate, so a lack of memory is an error here and not a SIGBUS later. */
#ifndef FW_COMM_SHM_SHM_INTERNAL_H
#define FW_COMM_SHM_SHM_INTERNAL_H

#include "comm/comm_internal.h"

/* FW_SHM_PAGE: a multiple of every page size there is (arm64: up to 64 KiB). */
enum { FW_SHM_LINE = 64, FW_SHM_PAGE = 65536, FW_SHM_REGIONS = 256, FW_SHM_SLOT_BYTES = 8192 };

/* Two lanes of barriers, since small exchanges run beside the queue of collectives. */
typedef enum fw_shm_lane_kind { FW_SHM_DATA, FW_SHM_SMALL, FW_SHM_LANE_N } fw_shm_lane_kind;

typedef struct fw_shm_lane {
    _Alignas(FW_SHM_LINE) _Atomic uint64_t arrived_n;  /* over all barriers: barrier k is complete at k * world */
    _Alignas(FW_SHM_LINE) _Atomic uint32_t generation; /* the last complete barrier; the futex */
    _Atomic uint32_t sleeper_n;
} fw_shm_lane;

/* Where a pointer lies: an offset in this rank's part of a region; region -1: private memory. */
typedef struct fw_shm_place {
    int32_t region;
    uint64_t offset;
} fw_shm_place;

/* What a rank is about to do, compared before anybody touches data. */
enum { FW_SHM_LABEL_BYTES = 40 };
typedef struct fw_shm_descriptor {
    _Alignas(FW_SHM_LINE) int32_t kind;
    int32_t dtype, root;
    fw_shm_place buffer, part;
    int64_t n;
    uint64_t label_hash;
    char label[FW_SHM_LABEL_BYTES]; /* cut off */
} fw_shm_descriptor;

/* One rank in one group. Two descriptors taken in turn: a rank can write that of collective k + 2 only after all have
 * come to the first barrier of k + 1, and so are done with k. */
typedef struct fw_shm_rank {
    _Alignas(FW_SHM_LINE) _Atomic uint32_t at[FW_SHM_LANE_N]; /* the barrier this rank has come to: names who is late */
    fw_shm_descriptor descriptor[2];
} fw_shm_rank;

/* Barriers and descriptors of one group. */
typedef struct fw_shm_control {
    fw_shm_lane lane[FW_SHM_LANE_N];
    fw_shm_rank rank[FW_COMM_MAX_WORLD];
} fw_shm_control;

/* Where one rank of the job is, for those who wait for it. The lines are written when it falls asleep. */
typedef struct fw_shm_presence {
    _Alignas(FW_SHM_LINE) _Atomic uint64_t asleep[FW_SHM_LANE_N]; /* fw_shm_sleep_word; 0: awake */
    _Atomic uint32_t host_work;                                   /* 1: at long work of its own */
    char last_work[60];                                           /* what that was, for the message of a timeout */
    char title[FW_SHM_LANE_N][FW_COMM_TITLE_BYTES];               /* what it sleeps in */
} fw_shm_presence;

/* One rank's small message; two places taken in turn, so that one barrier an exchange is enough. */
typedef struct fw_shm_small {
    _Alignas(FW_SHM_LINE) char call[32];
    uint64_t bytes;
    char data[FW_COMM_EXCHANGE_BYTES];
} fw_shm_small;

typedef struct fw_shm_region {
    char *base; /* this process's mapping; rank r's part at base + r * stride_bytes */
    size_t bytes, stride_bytes;
} fw_shm_region;

/* What all groups of the job have in common; owned by the group of all ranks. */
typedef struct fw_shm_host {
    int memory_fd;
    size_t file_bytes;
    fw_shm_presence *presence; /* [world of the job] */
    fw_shm_small *small;       /* [2][world of the job] */
    uint64_t exchange_n;
    uint64_t timeout_ns;
    fw_shm_region region[FW_SHM_REGIONS];
    _Atomic int region_n; /* regions are added by the caller's thread while the background thread looks them up */
} fw_shm_host;

/* One group. */
typedef struct fw_shm {
    fw_shm_host *host;
    char *map; /* what this group has mapped for itself */
    size_t map_bytes;
    fw_shm_control *control;
    char *stage; /* rank r's staging buffer lies at r * stage_step_bytes */
    size_t stage_step_bytes;
    int64_t half_bytes; /* of a staging buffer: two halves, behind them two slots for small collectives */
    _Atomic uint32_t barrier_n[FW_SHM_LANE_N]; /* barriers this rank has come to */
} fw_shm;

static inline fw_shm *fw_shm_of(const fw_comm *c) { return c->state; }
/* Halves and slots are taken in turn, as descriptors are. */
static inline char *fw_shm_half(const fw_shm *s, int rank, uint64_t turn) {
    return s->stage + (size_t)rank * s->stage_step_bytes + (turn & 1) * (size_t)s->half_bytes;
}
static inline char *fw_shm_slot(const fw_shm *s, int rank, uint64_t turn) {
    return s->stage + (size_t)rank * s->stage_step_bytes + 2 * (size_t)s->half_bytes + (turn & 1) * FW_SHM_SLOT_BYTES;
}
static inline fw_shm_presence *fw_shm_presence_of(const fw_comm *c, int rank) {
    return &fw_shm_of(c)->host->presence[fw_comm_job_rank(c, rank)];
}

/* Staging for memory that is not shared: enough to amortise barriers, small in sum. Divides by 64 * 64. */
static inline int64_t fw_shm_half_bytes(int world) { return world <= 8 ? 1 << 19 : 1 << 17; }
static inline size_t fw_shm_stage_bytes(int world) {
    return 2 * (size_t)fw_shm_half_bytes(world) + 2 * FW_SHM_SLOT_BYTES;
}

/* What a barrier belongs to: a collective or a small exchange. */
typedef struct fw_shm_call {
    const char *name, *label; /* label: may be NULL */
    uint64_t number;
} fw_shm_call;

/* Every rank has come to this lane's next barrier. Errors: FW_ERR_RANK: a rank failed, left, did not come in time, or
 * waits elsewhere for this one. */
fw_status fw_shm_barrier(fw_comm *c, fw_shm_lane_kind lane, const fw_shm_call *call);
/* For the slow path of a barrier: FW_OK when there is nothing against waiting on for those who are missing at
 * `barrier`. since_ns: when the waiting began; moved on while a missing rank is at long work of its own. */
fw_status fw_shm_check_missing(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, const fw_shm_call *call,
                               uint64_t *since_ns);
/* Tell the others where this rank sleeps, or that it is awake. */
void fw_shm_tell_asleep(fw_comm *c, fw_shm_lane_kind lane, uint32_t barrier, const fw_shm_call *call);
void fw_shm_tell_awake(fw_comm *c, fw_shm_lane_kind lane);
void fw_shm_wake(fw_comm *c);

/* Make (rank 0) or fetch the memory; leaves s->map, s->host and what points into them set. */
fw_status fw_shm_join(fw_comm *c, fw_shm *s, uint64_t deadline_ns);
fw_status fw_shm_open_group(fw_comm *parent, fw_comm *group);
void fw_shm_leave(fw_comm *c);

fw_status fw_shm_alloc(fw_comm *c, void **out, size_t bytes, const char *what);
fw_status fw_shm_run(fw_comm *c, const fw_comm_op *op);

#endif
