/* The parts of a plan's input that follow from options and model alone. Training and `finewire plan` both take them from
 * here, so that they cannot differ. */
#ifndef FW_PLAN_JOB_INPUT_H
#define FW_PLAN_JOB_INPUT_H

#include "config/options.h"
#include "plan/job_plan.h"

/* Strategy and accumulation of a training: shard (but for group_n), choose_strategy, choose_sync, micro_n. model is set. */
void fw_plan_input_from_options(fw_plan_input *in, const fw_options *options);

/* What --optim is to the shard. Paged ones keep the same state, elsewhere. */
fw_optimizer fw_plan_optimizer(const fw_options *options);

/* What an option says of recomputing, as the model knows it. */
fw_activation_mode fw_plan_activation_mode(fw_recompute recompute);
/* The adapter that the options ask for; its texts are theirs. */
fw_adapter_request fw_plan_adapter_request(const fw_options *options);

/* How QLoRA packs: load_in_4bit and its options. */
fw_packed_options fw_plan_packed_options(const fw_options *options);
/* The model with that adapter. Texts of the options are not kept. Errors: as fw_model_init_adapted. */
fw_status fw_plan_adapted_model(fw_model *out, const fw_model_config *config, fw_dtype t, const fw_options *options);

/* Rows of logits that exist at a time, of `row_n` at most: as many as were asked for, or with 0 some 64 MiB of them. */
int64_t fw_plan_chunk_rows(int64_t asked, const fw_model *model, int64_t row_n);

#endif
