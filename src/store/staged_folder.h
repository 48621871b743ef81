/* A folder that appears under its name only when it is complete.
 *
 * begin makes an empty folder beside PATH; files are written into it; commit syncs it and gives it its name, swapped
 * in one step with what had the name before, which is then removed. Without a commit, close leaves PATH as it was. */
#ifndef FW_STORE_STAGED_FOLDER_H
#define FW_STORE_STAGED_FOLDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_staged_folder {
    char *path;     /* the final name, without slashes at its end */
    char *path_tmp; /* write here; NULL after commit */
    char *parent;
} fw_staged_folder;

/* hidden: the folder is called ".tmp-NAME-PID" until it is complete, otherwise "NAME.tmp-PID". Parents are made only for
 * the latter: what is hidden goes into a folder that is somebody's, and that may just have been moved away.
 * Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_staged_folder_begin(fw_staged_folder *f, const char *path, bool hidden);
fw_status fw_staged_folder_commit(fw_staged_folder *f);
/* Takes a zeroed or finished one. */
void fw_staged_folder_close(fw_staged_folder *f);

/* FW_ERR_IO when fewer than need_bytes are free for us where path is or will be; names both and `what`. */
fw_status fw_store_check_space(const char *path, uint64_t need_bytes, const char *what);

#endif
