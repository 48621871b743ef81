/* Where a run goes on from, as --resume_from_checkpoint says: the newest of its output folder or of its mirror, a checkpoint, a
 * folder of checkpoints, or what a command fetches. Rank 0 looks; what it finds is tried, and passed over when it is damaged. */
#ifndef FW_TRAIN_RESUME_SOURCE_H
#define FW_TRAIN_RESUME_SOURCE_H

#include "config/options.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_resume_source {
    const fw_options *options;
    /* Only checkpoints of earlier steps are left to try: in the folder that is looked into, and in --mirror, where the same
     * step may be sound. */
    int64_t before_step, mirror_before_step;
    bool found_in_mirror;
} fw_resume_source;

/* Nothing is looked at yet. */
void fw_resume_source_init(fw_resume_source *r, const fw_options *options);
/* What can be said of a checkpoint that was given before the output folder counts as a run's. Errors: FW_ERR_INPUT. */
fw_status fw_resume_source_check(const fw_resume_source *r);
/* *checkpoint (fw_free): what to try next; NULL: start from the base. Errors: FW_ERR_INPUT, those of fw_mirror_fetch. */
fw_status fw_resume_source_next(fw_resume_source *r, char **checkpoint);
/* What was found is of `step`, and damaged: this thread's last message says how. Warns, and the next is the one before.
 * Errors: FW_ERR_INPUT when there is no other to try, or --resume_strict forbids it. */
fw_status fw_resume_source_pass_over(fw_resume_source *r, const char *path, int64_t step);

#endif
