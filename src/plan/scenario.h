/* One way to run a training, and what it takes under one strategy: memory by what it is for, bytes on the wire, time.
 *
 * Full fine-tuning and adapters, also on 4-bit weights, are planned by the code that training allocates by (job_plan.h):
 * equal to the byte. */
#ifndef FW_PLAN_SCENARIO_H
#define FW_PLAN_SCENARIO_H

#include "config/options.h"
#include "plan/job_plan.h"
#include "plan/site.h"
#include "plan/step_time.h"

typedef struct fw_plan_scenario {
    const fw_model *model;   /* borrowed */
    const fw_model *adapted; /* the same with the adapter that was asked for, trained beside it; borrowed */
    fw_plan_site site;
    fw_method method;         /* full, lora or qlora */
    fw_packed_options packed; /* how qlora packs */
    bool strategy_said;       /* else any may be recommended */
    fw_shard_strategy strategy;
    int64_t batch, length, micro_n;
    fw_recompute recompute;
    int64_t recompute_every;
    int64_t chunk_rows;     /* asked for; 0: chosen */
    fw_shard_options shard; /* but for strategy and group_n */
    int group_n;            /* of hsdp */
    bool choose_sync;       /* hold gradients until the last micro-batch when that fits */
    uint64_t device_memory; /* a rank may take no more; 0: no such limit */
    fw_optim optim;
    int64_t adapter_r; /* for words */
} fw_plan_scenario;

typedef enum fw_plan_part {
    FW_PLAN_WEIGHTS,
    FW_PLAN_GRADIENTS,
    FW_PLAN_OPTIMIZER,
    FW_PLAN_ACTIVATIONS,
    FW_PLAN_GATHERED, /* units at work: weights and gradients on their way */
    FW_PLAN_LOSS,
    FW_PLAN_BUFFERS,  /* tokens, scratch, staging, and what alignment leaves */
    FW_PLAN_HEADROOM, /* outside the plan: driver and libraries on a GPU, the program on a CPU */
    FW_PLAN_PART_N
} fw_plan_part;
/* "weights", "gathered units": as tables have it; "weights_bytes", "gathered_bytes": the key in JSON. */
const char *fw_plan_part_name(fw_plan_part part);
const char *fw_plan_part_key(fw_plan_part part);

enum { FW_PLAN_WHY_BYTES = 160 };

typedef struct fw_plan_case {
    fw_shard_strategy strategy;
    bool possible; /* false: `why` says what is in the way, and the rest is 0 */
    char why[FW_PLAN_WHY_BYTES];
    uint64_t part[FW_PLAN_PART_N], total_bytes;
    uint64_t arena_bytes;            /* of that what training takes in one piece a kind of memory, scratch included */
    uint64_t host_bytes, disk_bytes; /* offloaded, of one rank */
    uint64_t limit_bytes;            /* what total may be */
    bool fits;
    bool held;         /* gradients are held until the last micro-batch */
    int64_t trained_n; /* parameters that are trained */
    fw_plan_wire wire;
    fw_plan_times times;
    double work_n, again_n; /* operations of a step on one device, and of these: what backward computes again */
    double again_bytes;     /* memory that recomputing reads and writes beside its products */
} fw_plan_case;

/* Does every block keep its input only? That is the least that is kept. */
bool fw_plan_recomputes_all(const fw_plan_scenario *scenario);
void fw_plan_recompute_all(fw_plan_scenario *scenario);

/* Errors: FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_plan_case_make(fw_plan_case *out, const fw_plan_scenario *scenario, fw_shard_strategy strategy);

/* What a rank may take. */
fw_memory_budget fw_plan_scenario_budget(const fw_plan_scenario *scenario);

#endif
