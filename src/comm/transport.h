/* What a transport gives: the data plane below comm.h. One folder each: self/ (world 1), shm/ (ranks of one host), nccl/ (GPUs).
 * To add one: a folder with an fw_transport, a line in comm.c where it is chosen. */
#ifndef FW_COMM_TRANSPORT_H
#define FW_COMM_TRANSPORT_H

#include "comm/comm.h"

enum { FW_COMM_LABEL_BYTES = 40 };

typedef enum fw_comm_kind {
    FW_COMM_ALL_REDUCE,
    FW_COMM_REDUCE_SCATTER,
    FW_COMM_ALL_GATHER,
    FW_COMM_BROADCAST,
    FW_COMM_ALL_TO_ALL,
    FW_COMM_KIND_N
} fw_comm_kind;

/* One collective. `number` counts from 1 in its group and is the same on every rank. */
typedef struct fw_comm_op {
    fw_comm *comm;                   /* the group */
    char label[FW_COMM_LABEL_BYTES]; /* a copy: the caller's may be gone when the job fails; "": none */
    fw_comm_kind kind;
    fw_dtype dtype;  /* broadcast: FW_U8 */
    int root;        /* broadcast; else 0 */
    int injected;    /* fails on this rank (fw_comm_fail_at) */
    int64_t n;       /* elements of buffer */
    void *buffer;    /* n elements; reduce_scatter only reads it, unless part lies in it */
    void *part;      /* n / world elements: reduce_scatter writes, all_gather reads it; all_to_all writes n */
    uint64_t number; /* 1, 2, ... */
} fw_comm_op;

/* Bytes of the buffer, and of what lies at `part`. */
static inline size_t fw_comm_op_bytes(const fw_comm_op *op) { return (size_t)op->n * fw_dtype_bytes(op->dtype); }
static inline size_t fw_comm_op_part_bytes(const fw_comm_op *op, int world) {
    return op->kind == FW_COMM_ALL_TO_ALL ? fw_comm_op_bytes(op) : fw_comm_op_bytes(op) / (size_t)world;
}

typedef struct fw_transport {
    const char *name;
    int runs_inline; /* run() costs no waiting: call it at once, no background thread */

    /* The functions of comm.h. All may fail; what fails here ends the job. */
    fw_status (*alloc)(fw_comm *c, void **out, size_t bytes, const char *what);
    /* Do all of `op`; called by the background thread (or inline), in order. */
    fw_status (*run)(fw_comm *c, const fw_comm_op *op);
    /* With runs_inline, where run() only begins: what is issued after this on the device comes after the collective.
     * NULL: run() has done it all. */
    fw_status (*await)(fw_comm *c, uint64_t ticket);
    /* all = what each rank gave; `call` names the caller's function, which must be the same on every rank. */
    fw_status (*exchange)(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call);
    /* Long work of this rank begins (what) or ends (NULL). */
    void (*set_host_work)(fw_comm *c, const char *what);
    /* Give `group`, some ranks of `parent`, its transport and state. Collective over the parent, part_n > 1 on some
     * rank; the rows of ranks are known to be good. */
    fw_status (*open_group)(fw_comm *parent, fw_comm *group);
    /* With runs_inline: the collective, of any group, that this rank of the job has begun and that is not done; "": none
     * is known. NULL: ranks sleep in a barrier for it, where the others see them. */
    const char *(*unfinished)(const fw_comm *all, int rank);
    /* Something happened (failure, a rank left, stop): whoever waits must look again. Any thread. */
    void (*wake)(fw_comm *c);
    void (*destroy)(fw_comm *c);
} fw_transport;

/* Where a rank's slice of n elements begins, when each takes one of them: slices differ by at most one grain of 32, so
 * that they start on cache lines. */
static inline int64_t fw_comm_slice_start(int64_t n, int rank, int world) {
    int64_t grains = (n + 31) / 32, start = grains * rank / world * 32;
    return start < n ? start : n;
}

const char *fw_comm_kind_name(fw_comm_kind kind);
/* NULL when it has none. */
static inline const char *fw_comm_op_label(const fw_comm_op *op) { return op->label[0] ? op->label : NULL; }

/* World 1. */
fw_status fw_comm_open_self(fw_comm *c);
/* Ranks of one host; needs the control plane. deadline_ns: by fw_host_now_ns. */
fw_status fw_comm_open_shm(fw_comm *c, uint64_t deadline_ns);

#endif
