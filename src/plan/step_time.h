/* How long a step takes: counted operations over a rate, bytes over links, and what of the one hides the other.
 *
 * The model and each of its assumptions: docs/plan.md. In short: forward and backward compute while collectives run
 * beside them; of these, what is longer than the computing that could hide it is waited for, and so is what has nothing
 * to hide behind (the first gather, the last sum); while both run, collectives take some of the processors away. */
#ifndef FW_PLAN_STEP_TIME_H
#define FW_PLAN_STEP_TIME_H

#include "model/model.h"
#include "plan/site.h"
#include "shard/shard.h"

/* What one rank sends in a step, by when; receiving is the same. */
typedef struct fw_plan_wire {
    uint64_t gather_bytes;                /* weights for forward and backward of all micro-batches */
    uint64_t update_bytes;                /* updated weights, once */
    uint64_t scatter_bytes, across_bytes; /* gradients: inside the shard group, between its copies */
    uint64_t host_bytes;                  /* between device and host memory (offload), not between ranks */
    uint64_t disk_bytes;                  /* from and to the disk, of one rank */
    uint64_t bytes;                       /* between ranks, all of it */
    int64_t gather_n, update_n, reduce_n; /* collectives of each kind */
    int S, R;                             /* ranks of a shard group, and of a group of copies */
    bool reduce_each;                     /* after every micro-batch */
    int unit_n;                           /* pieces of a pass that follow each other */
    double edge_part;                     /* the first and last piece, of all */
    bool prefetch;                        /* pieces are gathered ahead */
    fw_dtype weight_t, gradient_t;        /* of what is sent */
    int64_t rounded_n; /* fp32 weights that a pass rounds to the computing type as it comes to them */
} fw_plan_wire;

/* One kind of matrix product: operations of one, and how many there are in a pass. */
typedef struct fw_plan_product {
    double each_n;
    double forward, backward; /* recomputing is part of backward */
} fw_plan_product;
enum { FW_PLAN_PRODUCTS = 5 };

typedef struct fw_plan_work {
    fw_plan_product product[FW_PLAN_PRODUCTS];        /* qkv, o, gate and up, down, head */
    double forward_attention_n, backward_attention_n; /* operations of a micro-batch */
    double forward_n, backward_n;                     /* all of them */
    double again_n, again_bytes;                      /* of backward's: what is computed again */
    double forward_bytes, backward_bytes;             /* of activations that are read and written between products */
    double update_bytes;                              /* bytes that the optimizer reads and writes */
    bool update_on_host;                              /* the optimizer runs where its state is */
    int64_t micro_n;
    int64_t token_n; /* of one micro-batch */
} fw_plan_work;

typedef struct fw_plan_times {
    double compute_ms;       /* forward and backward of all micro-batches */
    double update_ms;        /* optimizer, and offloaded state on its way */
    double wire_headline_ms; /* all bytes at the data sheet's rate of the slowest link they cross */
    double wire_ms;          /* at the rate that collectives reach, with latencies */
    double exposed_ms;       /* of that waited for */
    double slowed_ms;        /* computing slowed by collectives beside it */
    double step_ms;
    double tokens_per_s; /* of all ranks */
} fw_plan_times;

typedef struct fw_plan_method_work {
    fw_activation_options activations; /* mode and recompute_every count */
    bool frozen;                       /* base weights get no gradients */
    int64_t chunk_n;                   /* rows of the head's products */
    size_t element_bytes;              /* of activations */
} fw_plan_method_work;
/* Operations of a micro-batch of `batch` sequences of `length` tokens: 2 a weight and token forward, twice that backward
 * (once for frozen weights), and attention, which grows with the square of the length; recomputing adds the forward of the
 * blocks that do it, or what lies between their products. */
void fw_plan_count_work(fw_plan_work *out, const fw_model_config *config, int64_t batch, int64_t length,
                        fw_plan_method_work method);

void fw_plan_step_time(fw_plan_times *out, const fw_plan_site *site, const fw_plan_wire *wire,
                       const fw_plan_work *work);

/* Seconds for `bytes` that each of `member_n` ranks sends in ring collectives, collective_n of them. stride: distance
 * between ranks of one group; together: groups of the same kind that send at the same time on a machine. */
typedef struct fw_plan_ring {
    int member_n, stride;
    uint64_t bytes;
    int64_t collective_n;
    fw_measured_what what; /* all_gather, reduce_scatter, or all_reduce, which has twice the hops */
    fw_dtype dtype;
} fw_plan_ring;
double fw_plan_ring_seconds(const fw_plan_site *site, const fw_plan_ring *ring, bool headline);

#endif
