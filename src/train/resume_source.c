#include "train/resume_source.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "mirror/mirror_fetch.h"
#include "store/checkpoint_tools.h"
#include "train/interrupt.h"

#include <string.h>

static bool starts_fresh(const fw_options *o) {
    return o->overwrite_output_dir || strcmp(o->resume_from_checkpoint, "never") == 0;
}

static bool takes_newest(const fw_options *o) { return strcmp(o->resume_from_checkpoint, "auto") == 0; }

/* A mirror, or another run's output folder. */
static bool is_folder_of_checkpoints(const char *given) {
    char *manifest;
    if (!fw_dir_exists(given) || fw_path_join(&manifest, given, "manifest.json") != FW_OK) return false;
    const bool is_one = fw_file_exists(manifest);
    fw_free(manifest);
    return !is_one;
}

void fw_resume_source_init(fw_resume_source *r, const fw_options *options) {
    *r = (fw_resume_source){options, INT64_MAX, INT64_MAX, false};
}

fw_status fw_resume_source_check(const fw_resume_source *r) {
    const char *given = r->options->resume_from_checkpoint;
    if (starts_fresh(r->options) || takes_newest(r->options) || fw_mirror_must_fetch(given)) return FW_OK;
    if (!is_folder_of_checkpoints(given)) return fw_checkpoint_verify_with(NULL, given, FW_CHECKPOINT_SMALL_FILES);
    char *newest;
    FW_TRY(fw_checkpoint_resolve(&newest, given)); /* which says what else it may be */
    fw_free(newest);
    return FW_OK;
}

/* The newest of the folder; where there is none, of the mirror: this may be another machine. */
static fw_status find_newest(fw_resume_source *r, char **checkpoint) {
    const fw_options *o = r->options;
    FW_TRY(fw_checkpoint_newest(checkpoint, o->output_dir, r->before_step, o->resume_strict));
    if (*checkpoint != NULL || o->mirror == NULL) return FW_OK;
    FW_TRY(fw_mirror_newest(checkpoint, o->mirror, r->mirror_before_step));
    r->found_in_mirror = *checkpoint != NULL;
    if (*checkpoint != NULL)
        fw_log_info("%s has no sound checkpoint: going on from the mirror's, %s", o->output_dir, *checkpoint);
    return FW_OK;
}

fw_status fw_resume_source_next(fw_resume_source *r, char **checkpoint) {
    const fw_options *o = r->options;
    const char *given = o->resume_from_checkpoint;
    *checkpoint = NULL;
    r->found_in_mirror = false;
    if (starts_fresh(o)) return FW_OK;
    if (takes_newest(o)) return find_newest(r, checkpoint);
    if (fw_mirror_must_fetch(given)) return fw_mirror_fetch(checkpoint, given, o->output_dir, fw_interrupt_requested);
    if (!is_folder_of_checkpoints(given)) return fw_strdup(checkpoint, given);
    FW_TRY(fw_checkpoint_newest(checkpoint, given, r->before_step, o->resume_strict));
    if (*checkpoint != NULL) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s holds no sound checkpoint", given);
}

fw_status fw_resume_source_pass_over(fw_resume_source *r, const char *path, int64_t step) {
    const fw_options *o = r->options;
    const char *given = o->resume_from_checkpoint;
    /* The message that is there says it. */
    if (!takes_newest(o) && (fw_mirror_must_fetch(given) || !is_folder_of_checkpoints(given))) return FW_ERR_INPUT;
    if (o->resume_strict)
        return fw_fail(FW_ERR_INPUT, "%s; without --resume_strict the checkpoint before it would be taken",
                       fw_trail_message());
    fw_log_warning("checkpoint %s does not count: %s", path, fw_trail_message());
    if (r->found_in_mirror)
        r->mirror_before_step = step;
    else
        r->before_step = step;
    return FW_OK;
}
