/* What to do: the questions of somebody who has cards and a model, in their order.
 *
 *   1. Does it fit on one card?       Then the others are for throughput: one job per card, or ddp for one faster run.
 *   2. Must all weights be trained?   If not said, an adapter, on 4-bit weights if need be, with recomputing.
 *   3. It does not fit, and must be.  The lowest sharding that fits; on a slow wire over at least 8 micro-batches. */
#ifndef FW_PLAN_ADVICE_H
#define FW_PLAN_ADVICE_H

#include "plan/scenario.h"

enum { FW_PLAN_ADVICE_BYTES = 1400, FW_PLAN_SLOW_MICRO_N = 8 };

typedef struct fw_plan_advice {
    bool fits; /* false: nothing does, and the reason says what would help */
    fw_method method;
    fw_shard_strategy strategy;
    bool one_job_each;         /* the whole run fits on one device */
    fw_plan_scenario scenario; /* as recommended: method, accumulation, recomputing */
    fw_plan_case best;         /* of that, under that strategy */
    char reason[FW_PLAN_ADVICE_BYTES];
} fw_plan_advice;

/* asked: with the method that was asked for; FW_METHOD_AUTO lets it be chosen. Errors: FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_plan_advise(fw_plan_advice *out, const fw_plan_scenario *asked);
/* The strategy that was asked for, or the lowest sharding that fits this scenario as it is, and only that: method, strategy, scenario, best, fits. zero3 when none
 * does; hsdp where zero3 fits, machines are several, and hsdp is faster. Error beside memory: FW_ERR_OPTION,
 * when the strategy is not possible. */
fw_status fw_plan_lowest(fw_plan_advice *out, const fw_plan_scenario *scenario);
/* A wire on which steps should be few and large: not NVLink, or a network that is much slower than it. */
bool fw_plan_is_slow(const fw_plan_site *site);

#endif
