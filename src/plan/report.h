/* Everything that `finewire plan` says, worked out from options: the model, the place, a case for each strategy, the
 * recommendation, and the answers to the questions the other way round. */
#ifndef FW_PLAN_REPORT_H
#define FW_PLAN_REPORT_H

#include "plan/advice.h"
#include "plan/split_model.h"

enum { FW_PLAN_STRATEGY_N = 5, FW_PLAN_CHANGES_MAX = 16 };
extern const fw_shard_strategy fw_plan_strategies[FW_PLAN_STRATEGY_N]; /* ddp, zero1, zero2, zero3, hsdp */

/* Of one method, under every strategy. */
typedef struct fw_plan_table {
    fw_method method;
    fw_plan_case row[FW_PLAN_STRATEGY_N];
} fw_plan_table;

/* One case of --what_if, as it is: under the strategy that was named, or the lowest that fits. */
typedef struct fw_plan_change {
    const char *text; /* "gradient_accumulation_steps=8": into the report's copy of the option */
    fw_model adapted; /* the model with the case's adapter, in its type */
    fw_plan_advice advice;
} fw_plan_change;

/* One way to recompute, of what is recommended. */
typedef struct fw_plan_recompute {
    fw_recompute recompute;
    int64_t every;
    fw_plan_case one;
} fw_plan_recompute;
enum { FW_PLAN_RECOMPUTE_MAX = 4 };

typedef struct fw_plan_report {
    char name[160]; /* of the model, as it was given */
    fw_model model;
    fw_model adapted;    /* the same with the adapter that was asked for */
    fw_model other_type; /* the same in the other computing type, where a case of --what_if has it */
    fw_plan_scenario asked;
    fw_plan_table table;    /* of the method that was asked for; of all weights where that was left open */
    fw_plan_table other[2]; /* where it was left open: of LoRA and QLoRA */
    int other_n;
    fw_plan_advice advice;
    fw_plan_recompute
        recompute[FW_PLAN_RECOMPUTE_MAX]; /* off, selective, on, and what was asked where that is another */
    int recompute_n;
    fw_plan_split tensor, pipeline;
    int fewest_devices[FW_PLAN_STRATEGY_N];  /* of table: under each strategy, with recomputing; 0: no number does */
    int fewest_other[2][FW_PLAN_STRATEGY_N]; /* the same of other */
    int64_t longest_length, largest_batch;   /* as recommended */
    uint64_t checkpoint_bytes, final_bytes;  /* on disk, as recommended; the final model in bf16 */
    uint64_t copy_bytes;      /* what --save_async holds of a checkpoint on a rank, in memory of the host */
    fw_plan_advice unchanged; /* what the cases of --what_if are compared with: what was asked */
    fw_plan_change change[FW_PLAN_CHANGES_MAX];
    int change_n;
    char *change_text; /* heap */
} fw_plan_report;

/* Options of FW_COMMAND_PLAN, checked. Errors: FW_ERR_OPTION, FW_ERR_INPUT, FW_ERR_NOMEM. */
fw_status fw_plan_report_create(fw_plan_report **out, const fw_options *options);
void fw_plan_report_destroy(fw_plan_report *report); /* takes NULL */

/* The scenario of these options for a model that is there, without and with their adapter; fills in the options that follow from others now that the number
 * of ranks is known. fw_plan_site_fini is to be called on its site, whatever the result. */
fw_status fw_plan_scenario_from_options(fw_plan_scenario *out, const fw_model *model, const fw_model *adapted,
                                        fw_options *options);

#endif
