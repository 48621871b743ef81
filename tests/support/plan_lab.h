/* Plans of known models on known cards, for tests. */
#ifndef FW_TESTS_SUPPORT_PLAN_LAB_H
#define FW_TESTS_SUPPORT_PLAN_LAB_H

#include "plan/scenario.h"

typedef struct fw_test_plan {
    fw_model model, adapted; /* rank 16 on every matrix, or as fw_test_plan_rank has set it */
    fw_plan_scenario s;      /* full, one sequence of 1024, recomputed, gradients in fp32, one micro-batch */
} fw_test_plan;

/* gpu NULL: ranks on this machine's CPU. Fails the test when something is unknown. */
void fw_test_plan_init(fw_test_plan *p, const char *model, const char *gpu, int world);
void fw_test_plan_rank(fw_test_plan *p, int64_t r);
void fw_test_plan_fini(fw_test_plan *p);
fw_plan_case fw_test_plan_case(const fw_test_plan *p, fw_shard_strategy strategy);
/* Weights, gradients and optimizer state of a case, in bytes. */
double fw_test_plan_state(const fw_plan_case *c);
/* Fails the test, with both figures, unless value is within `within` of wanted. */
#define fw_test_near(value, wanted, within) fw_test_near_at((value), (wanted), (within), #value, __FILE__, __LINE__)
void fw_test_near_at(double value, double wanted, double within, const char *what, const char *file, int line);

#endif
