/* The files of a checkpoint for as long as it is copied: save_total_limit may remove the checkpoint meanwhile.
 *
 * Each file gets a second name (a hard link) in OUTPUT_DIR/.tmp-mirror-PID/NAME. So the copy is of whole files, the removal is
 * not held up, and only the disk space is kept a little longer. What a killed process leaves is removed by stale.h. */
#ifndef FW_MIRROR_MIRROR_LINKS_H
#define FW_MIRROR_MIRROR_LINKS_H

#include "base/status.h"

#include <stdbool.h>

/* *dir (fw_free): where to copy from. *held: these are links; false where the file system has none: then *dir is the checkpoint
 * itself, and a copy of it fails when it is removed. *gone: it is not there any more (*dir is NULL).
 * Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_mirror_links_make(char **dir, bool *held, bool *gone, const char *output_dir, const char *name);
/* All links of this process, and the folder that they are in. */
fw_status fw_mirror_links_remove(const char *output_dir);
/* OUTPUT_DIR/.tmp-mirror-PID; *path: fw_free. */
fw_status fw_mirror_links_place(char **path, const char *output_dir);

#endif
