/* Who owns which bytes of the training state, and when they move between ranks.
 *
 * The step asks for a unit before it computes with it and gives it back after; what happens in between is decided
 * here by the strategy, and neither the model nor the step knows which one runs:
 *
 *   fw_shard_begin     a pass over the model begins: the order of what will be asked for is known
 *   fw_shard_acquire   the unit's compute weights are complete in memory, and so is the place for its gradient
 *   fw_shard_reduce    this rank has added all it has to the unit's gradient for this micro-batch
 *   fw_shard_release   the unit is not needed for now
 *   fw_shard_finish    gradients of all ranks have been summed where they are owned
 *   fw_shard_share     the owner has updated its range: every rank's compute weights follow
 *
 * Units of the model (model/param_table.h; one may be empty) are gathered, reduced and freed in *buckets* of one or more neighbouring
 * units, as `wrap` says. A bucket is one flat range of n elements, padded so that the S ranks of a shard group each own
 * one part of part_n elements; the parts of all buckets, one behind the other, are the rank's *share*.
 *
 *   strategy     S                 optimizer state   gradients     weights           wire, bytes a step and rank
 *   ddp          1                 full              full          full              2 (W-1)/W g
 *   zero1        W                 share             full          full, w in t      (W-1)/W (g + w)
 *   zero2        W                 share             share         full, w in t      (W-1)/W (g + w)
 *   zero3        W                 share             share         share             (W-1)/W (2 w + g)
 *   hsdp         group             share             share         share             zero3 with S, + 2 (R-1)/R g/S
 *   hsdp_zero2   group             share             share         full, w in t      zero2 with S, + 2 (R-1)/R g/S
 *
 * W ranks, R = W / S replicas of a share; w bytes of all weights in the compute type t, g of all gradients in their
 * type, padding counted. w crosses once more for every further micro-batch under zero3, g for every further one when
 * each is reduced (sync_each).
 *
 * Gradients: in fp32, sums, not means (the divisor is part of the loss scale), added in the order of ranks. Either
 * reduced after every micro-batch into what the rank keeps (sync_each: least memory), or added up in full on each rank
 * and reduced after the last (least traffic). With one micro-batch in a step both give the same bits under every
 * strategy at one world size, and so they do with sync_each at any accumulation. With gradient_t = FW_BF16 they are
 * kept and sent in bf16 (sums over ranks in fp32, rounded once), and a bf16 copy of the weights is kept as well: 2 + 2
 * + 12 bytes a parameter, of which zero1 shares out 12, zero2 14 and zero3 16.
 *
 * fp32 master weights and the optimizer's arrays are kept by the owner, bucket by bucket in *records* (shard/shard_record.h).
 * Compute weights are the master itself in fp32; in bf16 ddp and zero3 keep no copy: one buffer for the edge and one (zero3: 1 + prefetch) for blocks are filled on acquire. Under
 * zero3 the gathers of the next `prefetch` buckets run while the one at hand computes. */
#ifndef FW_SHARD_SHARD_H
#define FW_SHARD_SHARD_H

#include "base/threads.h"
#include "comm/comm.h"
#include "device/arena.h"
#include "device/device.h"
#include "shard/optimizer_state.h"

typedef enum fw_shard_strategy {
    FW_SHARD_DDP,
    FW_SHARD_ZERO1,
    FW_SHARD_ZERO2,
    FW_SHARD_ZERO3,
    FW_SHARD_HSDP,
    FW_SHARD_HSDP_ZERO2,
    FW_SHARD_STRATEGY_N
} fw_shard_strategy;
const char *fw_shard_strategy_name(fw_shard_strategy strategy);

typedef enum fw_shard_wrap {
    FW_SHARD_WRAP_BLOCK, /* every transformer block, and the edge */
    FW_SHARD_WRAP_SIZE,  /* neighbouring blocks until they have wrap_min_n parameters; the edge alone */
    FW_SHARD_WRAP_MODEL  /* all in one */
} fw_shard_wrap;

/* Where something is while it is not used. */
typedef enum fw_shard_place {
    FW_SHARD_HERE, /* memory of the device */
    FW_SHARD_HOST,
    FW_SHARD_FILE
} fw_shard_place;

enum { FW_SHARD_PREFETCH_MAX = 2 };

typedef struct fw_shard_options {
    fw_shard_strategy strategy;
    fw_dtype t;          /* compute type: FW_F32 or FW_BF16 */
    fw_dtype gradient_t; /* of kept and sent gradients: FW_F32, or FW_BF16 when t is FW_BF16 */
    bool training;       /* false: weights in type t only; no gradients, no moments, no master beside bf16 */
    bool frozen;    /* the weights beside which others are trained (shard/units.h): never saved; without training */
    bool packed;    /* frozen weights whose units are words of 2 bytes, and t is FW_BF16: model/packed_table.h */
    bool sync_each; /* reduce gradients after every micro-batch */
    int prefetch;   /* buckets gathered ahead under zero3 and hsdp: 0, 1, 2 */
    int group_n;    /* hsdp: ranks in a shard group, a divisor of the world; else ignored */
    fw_shard_wrap wrap;
    int64_t wrap_min_n;
    fw_optimizer optimizer; /* what is kept of each parameter */
    bool records_leave; /* records are elsewhere between updates: weights to compute with are never taken from them */
    /* Where a share of them is between uses. Not HERE needs S = 1 or zero3, hsdp; and records elsewhere, unless frozen. */
    fw_shard_place weights;
    fw_shard_place records; /* where they are then; not HERE implies records_leave */
    bool update_on_host;    /* HOST: they are updated there, and not brought to the device. FILE: always so */
    bool apart;             /* memory of the device is not memory of the host */
    const char *folder;     /* FILE: of the file; borrowed */
    bool poison;            /* tests: what was freed reads as NaN until it is filled again */
} fw_shard_options;

/* Where the record of a bucket lies among those of a rank (shard/shard_record.h). */
typedef struct fw_shard_record {
    size_t at_bytes, bytes;
} fw_shard_record;

/* One gathered, reduced and freed piece: units [first_unit, first_unit + unit_n). */
typedef struct fw_bucket {
    int32_t first_unit, unit_n;
    int64_t n;      /* elements of its units */
    int64_t part_n; /* of one rank's part; padded_n = part_n * S >= n */
    int64_t padded_n;
    int64_t share_at_n, full_at_n; /* where it starts in a share, and in an array of all buckets */
    fw_shard_record record;        /* no bytes without training */
    uint64_t record_away_at, gradient_away_at,
        weight_away_at; /* in bytes, of what is elsewhere: in the host's memory or the file */
} fw_bucket;

/* Bytes of one rank by kind; what the arena holds for the shard is their sum. */
typedef struct fw_shard_bytes {
    size_t master;         /* fp32 weights that are updated */
    size_t compute;        /* weights in the compute type that are kept beside them */
    size_t gradient;       /* kept gradients */
    size_t state;          /* the optimizer's arrays */
    size_t gathered;       /* units at work: buffers for gathered or rounded weights */
    size_t gradient_units; /* units at work: gradients on their way */
    size_t staging;        /* saving and loading */
    size_t record_slots;   /* records that are here for now */
    size_t host;           /* records in memory of the host, and gradients on their way to them */
    uint64_t file;         /* in the file: no memory */
    size_t sums;           /* sums that an optimizer makes over ranks */
} fw_shard_bytes;

/* The arithmetic of a strategy: who keeps what, where it lies, what crosses. Allocates no memory of the plan itself.
 * `rank`-independent: every rank has the same sizes. */
typedef struct fw_shard_layout {
    fw_shard_options options;
    const fw_param_table *table; /* borrowed */
    int world, S, R;
    fw_bucket *bucket;
    int32_t bucket_n;
    int32_t *bucket_of_unit;
    int64_t share_n, full_n;             /* elements of a share, and of all buckets with their padding */
    int64_t edge_n, block_n;             /* padded_n of bucket 0, and of the largest other */
    int weight_slot_n, gradient_slot_n;  /* buffers for buckets other than 0; bucket 0 has one more of its own */
    bool weights_full, weights_share;    /* compute weights are kept beside the master: all, or the share */
    bool weights_in_place;               /* fp32: the kept compute weights hold the master's share */
    bool gradients_full, gradient_units; /* gradients are kept in full; they pass through buffers of their own */
    bool gradients_away;                 /* kept in the file, but for those of bucket 0: shard_gradients_away.c */
    bool weights_away;                   /* a share of them: shard_weights_away.c */
    int record_slot_n;                   /* buffers for records of buckets other than 0; 0: they do not move */
    size_t record_edge_bytes, record_block_bytes; /* of such a buffer: of bucket 0, of another */
    bool master_in_record;
    bool by_tensor;                         /* parameters have arrays of different kinds (optimizer_state.h); else: */
    int array_n;                            /* arrays of one fp32 value an element in a record */
    size_t record_bytes, record_most_bytes; /* all records of a rank, and the largest */
    struct {
        int master, compute, gradient, records, gathered, gradient_units, send, staging; /* blocks of the arena */
        int record_slots, record_store, gradient_host, weight_stage, sums;
    } block;
    fw_shard_bytes bytes;
} fw_shard_layout;

/* Adds the blocks of one rank to the arena. Errors: FW_ERR_NOMEM; FW_ERR_OPTION (group_n does not divide the world). */
fw_status fw_shard_layout_init(fw_shard_layout *out, const fw_param_table *table, const fw_shard_options *options,
                               int world, fw_arena *arena);
void fw_shard_layout_fini(fw_shard_layout *layout);

/* Payload that one rank sends in one optimizer step of micro_n micro-batches, by collective; what it receives is the
 * same. Equal to the counters of fw_comm to the byte. */
typedef struct fw_shard_traffic {
    uint64_t all_reduce_bytes, reduce_scatter_bytes, all_gather_bytes;
} fw_shard_traffic;
/* Error: FW_ERR_NOMEM. */
fw_status fw_shard_traffic_of(fw_shard_traffic *out, const fw_shard_layout *layout, int64_t micro_n);

typedef struct fw_shard fw_shard;

/* The arena's bases are set and its memory is zero (weights, gradients) or may be anything until it is written (the
 * rest). Borrows everything until destroy. Collective. Errors: FW_ERR_NOMEM, FW_ERR_RANK. */
fw_status fw_shard_create(fw_shard **out, const fw_shard_layout *layout, const fw_arena *arena, fw_device *device,
                          fw_comm *comm);
void fw_shard_destroy(fw_shard *s); /* takes NULL */
/* What computes updates: the device, or with update_on_host the one that is set here, which works on memory of the host;
 * borrowed. */
void fw_shard_set_update_device(fw_shard *s, fw_device *device);
fw_device *fw_shard_update_device(const fw_shard *s);
/* How the file is read and written, and how much so far; NULL and 0 where there is none. */
typedef struct fw_shard_file {
    const char *way;
    uint64_t read_bytes, written_bytes, wait_ns;
} fw_shard_file;
fw_shard_file fw_shard_file_of(const fw_shard *s);
const fw_shard_layout *fw_shard_layout_of(const fw_shard *s);

/* ---- filling and reading the state */

/* The weights, and the optimizer's arrays of one fp32 value an element, called by AdamW's names: the first and the second
 * of those that layout.array_n counts. */
typedef enum fw_shard_array { FW_SHARD_WEIGHT, FW_SHARD_EXP_AVG, FW_SHARD_EXP_AVG_SQ, FW_SHARD_ARRAY_N } fw_shard_array;

/* The weights will be loaded soon: memory of the host for them is taken behind what the caller does until then. Borrows the pool,
 * whose CPUs it may use, until the load. */
void fw_shard_expect_load(fw_shard *s, const fw_threads *pool);

/* Gives out[0, n) = elements [first_n, first_n + n) of a unit, fp32, padding 0; host memory. Called by
 * one thread; it may use all of the pool. */
typedef fw_status (*fw_unit_reader)(void *context, int32_t unit, int64_t first_n, int64_t n, float *out);
/* Fill an array; only owned ranges are asked for. Collective: after the weights, every rank's compute weights follow. When
 * reading fails on one rank it fails on all, with that rank's message, and the job may go on: the array holds anything. */
fw_status fw_shard_load(fw_shard *s, fw_shard_array array, fw_unit_reader read, void *context);
/* The same where state stays (below): everything is asked for first, and is there when `fill` has returned, so that it can be
 * read in one go. */
fw_status fw_shard_load_whole(fw_shard *s, fw_shard_array array, fw_unit_reader ask, fw_status (*fill)(void *context),
                              void *context);
/* The same for packed weights: words as they are. */
typedef fw_status (*fw_word_reader)(void *context, int32_t unit, int64_t first, int64_t n, uint16_t *out);
fw_status fw_shard_load_words(fw_shard *s, fw_word_reader read, void *context);

/* Elements of a unit wherever they are owned, for saving: rank 0 reads, in any order, then ends; all others serve until
 * then. Errors: FW_ERR_RANK. FW_SHARD_WEIGHT is the master; without training in bf16, the compute weights. */
fw_status fw_shard_read(fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n, int64_t n, float *out);
fw_status fw_shard_read_end(fw_shard *s);
fw_status fw_shard_serve(fw_shard *s);

/* What a rank writes of a unit when the state is saved by all ranks at once: elements [*first_n, *first_n + *n), n may be
 * 0. It is a part of what it owns: ranks that own the same share it out. The ranges of all ranks have every element once. */
void fw_shard_saved_range(const fw_shard_layout *layout, int rank, int32_t unit, int64_t *first_n, int64_t *n);
/* The place of a rank's ranges among all: ascending with the elements. 0 <= place < world. */
int fw_shard_saved_place(const fw_shard_layout *layout, int rank);
/* Elements that this rank owns, into memory of the host. Not collective. */
fw_status fw_shard_read_own(fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n, int64_t n, float *out);
/* The optimizer's arrays, parameter by parameter, raw: values [first_n, first_n + n) of array k of the parameter with index
 * `param` in the table, of those that this rank holds (fw_state_held). Not collective. */
typedef fw_status (*fw_state_reader)(void *context, int32_t param, int k, int64_t first_n, int64_t n, void *out);
fw_status fw_shard_load_state(fw_shard *s, fw_state_reader read, void *context);
/* What a reader is given to fill with weights or the optimizer's arrays is where they stay. So the latter may be filled later, by
 * any thread, before the first that uses them, which is an update. Of what is trained. */
bool fw_shard_state_stays(const fw_shard *s);
/* All of them to zeros, as they begin. */
fw_status fw_shard_clear_state(fw_shard *s);
fw_status fw_shard_read_state(fw_shard *s, int32_t param, int k, int64_t first_n, int64_t n, void *out);
/* Where such an element lies, the rest of the owned range of its unit behind it; NULL where it is not fp32 in memory of the
 * host, or not there all the time (records_leave). */
const float *fw_shard_own_in_place(const fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n);

/* ---- the life of a unit */

typedef enum fw_shard_pass { FW_SHARD_PASS_FORWARD, FW_SHARD_PASS_TRAIN } fw_shard_pass;
typedef enum fw_shard_use {
    FW_SHARD_FORWARD,
    FW_SHARD_LOSS, /* unit 0: head and final norm, forward and, when training, backward */
    FW_SHARD_BACKWARD,
    FW_SHARD_GRADIENT /* unit 0 at the end of backward: its gradient only, no weights */
} fw_shard_use;

/* A pass asks for units in this order: FORWARD 0, 1 .. L; LOSS 0; when training BACKWARD L .. 1, GRADIENT 0.
 * more: another pass of the same kind follows before weights change, so that its first unit may be gathered early. */
fw_status fw_shard_begin(fw_shard *s, fw_shard_pass pass, bool more);
/* *w: the unit's compute weights; *g (g may be NULL): its fp32 gradient, to be added to. Valid until release. */
fw_status fw_shard_acquire(fw_shard *s, int32_t unit, fw_shard_use use, const void **w, float **g);
fw_status fw_shard_release(fw_shard *s, int32_t unit, fw_shard_use use);
fw_status fw_shard_reduce(fw_shard *s, int32_t unit, bool last_micro_batch);
fw_status fw_shard_finish(fw_shard *s);
/* After finish: the gradients are not wanted, and are zeros as before the first micro-batch. Only where they are not kept in a
 * file. */
fw_status fw_shard_forget_gradients(fw_shard *s);
/* Sum of squares of the whole gradient, every element once whatever is replicated; the same bits on every rank, and
 * under every strategy with S = 1 or S = W. After finish. Collective. */
fw_status fw_shard_gradient_squares(fw_shard *s, double *out);

/* The part of a unit that this rank updates: elements [first_n, first_n + n) of the unit, as pointers to the first of
 * them; n may be 0. g is fp32 whatever the gradients are kept in, and is read before share of the same unit. */
typedef struct fw_owned_range {
    int64_t first_n, n;
    float *w, *g;
    float *array[FW_STATE_DENSE_MAX]; /* of the optimizer; NULL beyond layout.array_n */
} fw_owned_range;
/* Who still reads what is about to be changed is told first, and returns when it may be. fn NULL: nobody. */
typedef void (*fw_shard_update_hook)(void *context, int32_t unit);
void fw_shard_set_update_hook(fw_shard *s, fw_shard_update_hook fn, void *context);
/* Makes the record of the unit's bucket present. Units in ascending order, each followed by its share. */
fw_status fw_shard_owned(fw_shard *s, int32_t unit, fw_owned_range *out);
/* What this rank holds of the arrays of a parameter of that unit, in the order of fw_state_arrays, when layout.by_tensor;
 * NULL where it owns none of its elements. Returns those elements. Between owned and share. */
fw_status fw_shard_owned_state(fw_shard *s, int32_t param, void *array[FW_STATE_ARRAYS_MAX], fw_state_range *elements);

/* Sums over a unit that an optimizer needs: each rank makes its part of a sum from the elements [*first_n, *first_n + *n)
 * of the unit, which are among those that it owns, and the parts are added in the order of ranks. Every element is in one
 * rank's part, or in one rank's of each replica; the sums have the same bits on every rank, and under every strategy with
 * S = 1 or S = W. */
void fw_shard_counted_range(const fw_shard *s, int32_t unit, int64_t *first_n, int64_t *n);
enum { FW_SHARD_SUMS_MAX = 64 };
/* sum[0, n) in fp64, n <= FW_SHARD_SUMS_MAX. Collective. */
fw_status fw_shard_sum(fw_shard *s, double *sum, int n);
/* The same in fp32 for the rows and columns of a unit's matrices (adafactor): fw_shard_sums gives where this rank writes its
 * part of all of them, fw_shard_sum_sums adds them up there. Collective. */
float *fw_shard_sums(fw_shard *s);
fw_status fw_shard_sum_sums(fw_shard *s, int32_t unit);
/* Rows and columns of the matrices of a unit. */
int64_t fw_shard_sums_n(const fw_param_table *table, int32_t unit);

/* The owned range has been updated: gradients are cleared, copies of the weights made anew, in the background where
 * they cross ranks; after the last unit of its bucket the record is not used any more. */
fw_status fw_shard_share(fw_shard *s, int32_t unit);

/* What is gathered at this moment and at most, in buckets: the permanent share and the units in flight are all there
 * is. Asserted to be at most 2 + prefetch (edge, block at hand, blocks ahead). */
typedef struct fw_shard_residency {
    int now_n, peak_n;
} fw_shard_residency;
fw_shard_residency fw_shard_residency_of(const fw_shard *s);

/* Wait for what runs on behind the last update, so that the counters hold all of it. */
fw_status fw_shard_settle(fw_shard *s);

/* What has crossed since the start, sent by this rank, over all its groups; what it waited and what the background
 * thread worked. */
typedef struct fw_shard_counters {
    uint64_t all_reduce_bytes, reduce_scatter_bytes, all_gather_bytes;
    uint64_t wait_ns, busy_ns;
} fw_shard_counters;
void fw_shard_get_counters(const fw_shard *s, fw_shard_counters *out);

#endif
