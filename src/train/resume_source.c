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

static const char *name_in(const char *path) { return strrchr(path, '/') + 1; }

static bool is_in_output(const fw_options *o, const char *prefix, const char *name) {
    fw_strbuf path = {0};
    const bool there = fw_strbuf_printf(&path, "%s/%s%s", o->output_dir, prefix, name) == FW_OK &&
                       fw_dir_exists(fw_strbuf_text(&path));
    fw_strbuf_fini(&path);
    return there;
}

/* The mirror's newest, when it is newer than `local`, which may be NULL. What this folder has set aside is of a course that was
 * given up, and is not newer for being still in the mirror. */
static fw_status find_in_mirror(fw_resume_source *r, char **there, const char *local) {
    const fw_options *o = r->options;
    const int64_t local_step = local == NULL ? -1 : fw_checkpoint_step_of(name_in(local));
    for (int64_t before_step = r->mirror_before_step;;) {
        FW_TRY(fw_mirror_newest(there, o->mirror, before_step));
        if (*there == NULL) return FW_OK;
        const int64_t step = fw_checkpoint_step_of(name_in(*there));
        const bool is_newer = step > local_step, is_given_up = is_in_output(o, "set-aside-", name_in(*there));
        if (is_newer && (local == NULL || !is_given_up)) return FW_OK;
        fw_free(*there);
        *there = NULL;
        if (!is_newer) return FW_OK;
        before_step = step;
    }
}

/* *checkpoint: of the mirror. It comes into the output folder where that has older ones, or a damaged one of its step, which
 * would be copied over the sound one; an empty folder reads it where it is. */
static fw_status bring_here(fw_resume_source *r, char **checkpoint, const char *local) {
    const fw_options *o = r->options;
    char *here;
    if (local == NULL && !is_in_output(o, "", name_in(*checkpoint))) return FW_OK;
    fw_status status = fw_mirror_fetch_checkpoint(&here, *checkpoint, o->output_dir, fw_interrupt_requested);
    if (status == FW_ERR_NOMEM || status == FW_ERR_INTERRUPTED) return status;
    if (status != FW_OK) { /* no room, or damaged after all: reading it will tell */
        fw_log_warning("%s is not copied to %s, and read where it is: %s", *checkpoint, o->output_dir,
                       fw_trail_message());
        return FW_OK;
    }
    fw_free(*checkpoint);
    *checkpoint = here;
    return FW_OK;
}

/* The newest of the folder, or of the mirror where that has a newer one: the folder's may be damaged or lost. */
static fw_status find_newest(fw_resume_source *r, char **checkpoint) {
    const fw_options *o = r->options;
    char *local = NULL, *there = NULL;
    FW_TRY(fw_checkpoint_newest(&local, o->output_dir, r->before_step, o->resume_strict));
    fw_status status = o->mirror == NULL ? FW_OK : find_in_mirror(r, &there, local);
    if (status != FW_OK && status != FW_ERR_NOMEM && local != NULL) {
        fw_log_warning("the mirror cannot be looked at: %s", fw_trail_message());
        status = FW_OK;
    }
    FW_TRY_OR(status, done);
    r->found_in_mirror = there != NULL;
    if (there == NULL) {
        *checkpoint = local;
        return FW_OK;
    }
    if (local == NULL)
        fw_log_info("%s has no sound checkpoint: going on from the mirror's, %s", o->output_dir, there);
    else
        fw_log_info("the newest sound checkpoint here is %s: going on from the mirror's, which is newer, %s", local,
                    there);
    FW_TRY_OR(bring_here(r, &there, local), done);
    *checkpoint = there;
    there = NULL;
done:
    fw_free(local);
    fw_free(there);
    return status;
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
    if (o->resume_strict && !r->found_in_mirror)
        return fw_checkpoint_refuse_damaged(takes_newest(o) ? o->output_dir : given, step);
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
