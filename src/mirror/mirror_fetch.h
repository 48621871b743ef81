/* The way back: the newest checkpoint of a mirror, for a run that goes on. */
#ifndef FW_MIRROR_MIRROR_FETCH_H
#define FW_MIRROR_MIRROR_FETCH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Is it something to be fetched from (a command with {target}, a repository of the Hub) and no folder? */
bool fw_mirror_must_fetch(const char *from);
/* Fetch into OUTPUT_DIR: *path = OUTPUT_DIR/step-... (fw_free), every byte checked. A sound one of that name is left as it is,
 * a damaged one replaced. A command with {name} is asked for "newest" first, then for what that names; one without is run
 * once and may fetch a checkpoint or a folder of them. is_wished: give it up; NULL: never.
 * Errors: FW_ERR_OPTION, FW_ERR_IO (not to be had), FW_ERR_INPUT (it is damaged, or no checkpoint), FW_ERR_INTERRUPTED. */
fw_status fw_mirror_fetch(char **path, const char *from, const char *output_dir, int (*is_wished)(void));
/* The same from a mirror that is a folder: from is its MIRROR/step-..., and what has that name in OUTPUT_DIR is replaced once
 * every byte has been checked. */
fw_status fw_mirror_fetch_checkpoint(char **path, const char *from, const char *output_dir, int (*is_wished)(void));
/* fw_checkpoint_newest of the folder that --mirror names; NULL: none, or it is no folder. */
fw_status fw_mirror_newest(char **path, const char *to, int64_t before_step);

#endif
