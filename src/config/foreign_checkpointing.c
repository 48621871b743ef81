/* gradient_checkpointing_kwargs of TrainingArguments: how torch.utils.checkpoint works. What is computed again, and that it
 * gives the same bits, does not depend on any of it here. */
#include "config/foreign.h"

static const char no_code[] = "finewire calls no code of yours; see gradient_checkpointing selective, and leave it out";

static const fw_foreign_row rows[] = {
    {.path = "use_reentrant"},
    {.path = "preserve_rng_state"}, /* random numbers here are functions of where they are used */
    {.path = "determinism_check"},
    {.path = "early_stop"},
    {.path = "debug"},
    {.path = "context_fn", .allowed = "none", .remark = no_code},
};

fw_status fw_foreign_checkpointing(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from) {
    fw_foreign f = {.o = o, .leaves = leaves, .where = where, .below = "", .what = "transformers", .from = from};
    return fw_foreign_apply(&f, rows, sizeof rows / sizeof rows[0]);
}
