/* Questions the other way round: the least or the most of something that fits. The answers are exact for the plan of
 * scenario.h: the next one, larger or smaller, does not fit. */
#ifndef FW_PLAN_SOLVE_H
#define FW_PLAN_SOLVE_H

#include "plan/scenario.h"

enum { FW_PLAN_MOST_DEVICES = 16384 };

/* The fewest devices of this kind, in whole machines above one; 0 when FW_PLAN_MOST_DEVICES are not enough. */
fw_status fw_plan_fewest_devices(int *out, const fw_plan_scenario *scenario, fw_shard_strategy strategy);
/* The longest sequence (at this batch), and the largest batch (at this length); 0 when not even 1 fits. */
fw_status fw_plan_longest(int64_t *out, const fw_plan_scenario *scenario, fw_shard_strategy strategy);
fw_status fw_plan_largest_batch(int64_t *out, const fw_plan_scenario *scenario, fw_shard_strategy strategy);

#endif
