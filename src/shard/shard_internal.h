/* The engine as the files of this room see it. */
#ifndef FW_SHARD_SHARD_INTERNAL_H
#define FW_SHARD_SHARD_INTERNAL_H

#include "base/behind.h"
#include "shard/shard.h"
#include "shard/shard_schedule.h"
#include "spill/spill.h"

/* A collective that may be on its way. */
typedef struct fw_flight {
    fw_comm_request request;
    bool started;
} fw_flight;

/* A buffer for one bucket at a time. */
typedef struct fw_slot {
    void *data;
    int32_t bucket; /* whose it is; -1: free */
} fw_slot;

enum { FW_SHARD_SLOT_MAX = 2 + FW_SHARD_PREFETCH_MAX, FW_SHARD_LABEL_BYTES = 32 };

/* What is kept of a gradient that is kept in the file. */
typedef enum fw_gradient_life {
    FW_GRADIENT_NONE,
    FW_GRADIENT_ADDING,  /* a micro-batch is at it */
    FW_GRADIENT_HELD,    /* of earlier micro-batches, not summed over ranks */
    FW_GRADIENT_SUMMING, /* on its way between ranks */
    FW_GRADIENT_SUMMED
} fw_gradient_life;

typedef struct fw_bucket_state {
    char label[FW_SHARD_LABEL_BYTES]; /* "edge", "layers.3", "layers.4-7" */
    fw_flight weights;                /* gather, or the all-gather after an update */
    fw_flight scatter, across;        /* gradients: within the shard group, then between replicas */
    int weight_slot, gradient_slot;   /* -1: none */
    bool gradient_sent;               /* what is in the gradient slot is complete and on its way: not to be added to */
    /* Kept elsewhere: shard_gradients_away.c, shard_record_away.c. */
    fw_spill_move gradient_move, record_move, weight_move;
    bool weight_coming; /* the part is on its way to the slot, or to weight_stage; it is not gathered yet */
    fw_gradient_life gradient_life;
    char *gradient_part;     /* this rank's, summed, where it is in memory */
    double gradient_squares; /* of the sum */
    int record_slot;         /* -1: none */
    bool record_changed;
} fw_bucket_state;

struct fw_shard {
    fw_shard_layout layout; /* borrows the caller's arrays */
    fw_device *device;
    fw_comm *comm;
    fw_comm *group, *replicas; /* S and R ranks; may be comm itself; NULL where there is nothing to send */
    int rank, group_rank;      /* in the world, in the shard group */

    /* Memory, see shard_layout.c. NULL: not kept.
     *
     *   master    [share_n] fp32; or inside compute, or in the records
     *   compute   [full_n] or [share_n] t
     *   gradient  [full_n] or [share_n] gradient_t
     *   records   one for each bucket: shard/shard_record.h */
    float *master;
    char *compute, *gradient, *records;
    float *sums;
    size_t *state_at; /* [param_n] by_tensor: from the start of a record to the arrays of a parameter */
    void *staging;
    char *record_store, *gradient_host; /* in memory of the host; NULL: there is none */
    fw_spill *spill;                    /* NULL: nothing is in a file */
    fw_device *update_device;           /* what updates, where that is not the device */
    bool has_pages;                     /* gradients and units at work */
    struct {                            /* of the weights: shard_pages.c */
        fw_behind thread;
        atomic_bool stop;
    } pages;
    /* Slot 0 belongs to bucket 0, the others to the rest in turn. send[i] is the bf16 copy of gradient slot i. */
    fw_slot weight_slot[FW_SHARD_SLOT_MAX], gradient_slot[FW_SHARD_SLOT_MAX];
    void *send[FW_SHARD_SLOT_MAX];
    int next_gradient_slot;
    fw_slot record_slot[FW_SHARD_SLOT_MAX];
    int next_record_slot;
    /* Weights on their way to the file and, apart, from it: weight_slot, or two buffers in memory of the host. */
    fw_slot weight_stage[FW_SHARD_SLOT_MAX];
    int next_weight_stage, stage_n;

    fw_bucket_state *state;
    fw_shard_schedule schedule[2]; /* by fw_shard_pass */
    struct {
        const fw_shard_schedule *schedule;
        int32_t at, left; /* the stay at hand and how many of its uses are to come; at = -1 before the first */
        bool more;
    } pass;
    fw_shard_residency residency;
    uint64_t acquired_ns; /* for the trace */
    struct {
        fw_shard_update_hook fn; /* NULL: none */
        void *context;
    } before_update;
};

/* Elements of one of S equal parts of n, rounded up. */
int64_t fw_shard_part_n(int64_t n, int S);
static inline const fw_bucket *fw_shard_bucket(const fw_shard *s, int32_t b) { return &s->layout.bucket[b]; }

/* Elements from the start of its bucket to the start of a unit. */
int64_t fw_shard_unit_at(const fw_shard *s, int32_t unit);
/* This rank's part of a bucket: in the master (record: the bucket's, open), and in the kept compute weights. NULL when
 * there is none. */
float *fw_shard_master_part(const fw_shard *s, int32_t b, char *record);
void *fw_shard_compute_part(const fw_shard *s, int32_t b);
/* Start of a bucket in the full gradients, or of this rank's part in the kept ones. */
void *fw_shard_gradient_full(const fw_shard *s, int32_t b);
void *fw_shard_gradient_part(const fw_shard *s, int32_t b);

/* Where the weights of unit are being waited for (shard_weights.c). */
fw_status fw_shard_weights_acquire(fw_shard *s, int32_t unit, const void **w);
fw_status fw_shard_weights_release(fw_shard *s, int32_t unit);
/* The master's part has changed, its record is open: copies follow; a gather after an update is left running. */
fw_status fw_shard_weights_renew(fw_shard *s, int32_t b, char *record);

/* Weights are about to come, or never will: no more pages are taken for them. */
void fw_shard_end_pages(fw_shard *s);

/* shard_gradients.c */
fw_status fw_shard_gradient_acquire(fw_shard *s, int32_t unit, float **g);
/* `all`: a bucket's padded_n elements, of which this rank's part is left with the sum over all ranks once wait returns. */
fw_status fw_shard_gradient_start_sum(fw_shard *s, int32_t b, char *all);
fw_status fw_shard_gradient_wait_for_sum(fw_shard *s, int32_t b);
/* This rank's share in the sum of the squares of a bucket. */
fw_status fw_shard_gradient_part_squares(fw_shard *s, int32_t b, double *out);
/* After the update: what is kept is zero again. */
fw_status fw_shard_gradient_clear(fw_shard *s, int32_t b);
/* This rank's part as fp32, valid until clear. */
fw_status fw_shard_gradient_part_f32(fw_shard *s, int32_t b, int64_t first_n, int64_t n, float **g);

/* Adds what the engine's own groups have sent: not its world, which others use as well. */
void fw_shard_add_group_counters(const fw_shard *s, fw_shard_counters *sum);

static inline fw_status fw_flight_wait(fw_comm *c, fw_flight *f) {
    if (!f->started) return FW_OK;
    f->started = false;
    return fw_comm_wait(c, &f->request);
}

#endif
