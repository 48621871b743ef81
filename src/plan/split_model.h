/* Parallelism that splits the model itself, so that it can be ruled in or out by figures of its own. Training has neither.
 *
 * Tensor parallel (Shoeybi and others 2019): every matrix in `way` parts, an all_reduce of the activations after attention
 * and after the feed-forward, forward and backward, and again where blocks are recomputed. Nothing hides it.
 * Pipeline (GPipe, Huang and others 2019; 1F1B): blocks in `way` stages; activations cross at their borders, and stages
 * idle for (way - 1) of micro_n + way - 1 turns. */
#ifndef FW_PLAN_SPLIT_MODEL_H
#define FW_PLAN_SPLIT_MODEL_H

#include "plan/scenario.h"

typedef struct fw_plan_split {
    int way;
    uint64_t wire_bytes; /* of one rank in one step */
    double wire_ms;
    double bubble; /* part of the time that stages idle; 0 for tensor parallel */
    bool ruled_in; /* worth having here, if training had it */
    char reason[320];
} fw_plan_split;

/* way: as many ranks as a machine has, at most as many as there are key/value heads (tensor) or blocks (pipeline). */
void fw_plan_split_tensor(fw_plan_split *out, const fw_plan_scenario *scenario, const fw_plan_case *best);
void fw_plan_split_pipeline(fw_plan_split *out, const fw_plan_scenario *scenario, const fw_plan_case *best);

#endif
