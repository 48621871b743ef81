/* The output folder of a run: one run at a time, and one run's files only.
 *
 *   OUTPUT_DIR/.lock      held with flock while a run uses the folder; goes away with the process
 *   OUTPUT_DIR/run.json   identity of the run: what must be the same for a resume to make sense */
#ifndef FW_STORE_RUN_FOLDER_H
#define FW_STORE_RUN_FOLDER_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct fw_output_lock {
    int fd;         /* -1: not held */
    int dir_fd;     /* the folder; as long as it is open, no other gets its inode. With fd */
    bool exclusive; /* nobody else can hold it; false where the file system has no locks */
} fw_output_lock;
/* Makes the folder when missing. Errors: FW_ERR_OPTION when another process holds it (names its pid); FW_ERR_IO. */
fw_status fw_output_lock_take(fw_output_lock *lock, const char *output_dir);
/* Is `output_dir` still the folder that was locked? Nothing may be written where it is not. Errors: FW_ERR_IO: it was moved,
 * removed or unmounted, or another is in its place. */
fw_status fw_output_lock_check(const fw_output_lock *lock, const char *output_dir);
void fw_output_lock_release(fw_output_lock *lock); /* takes a lock with fd = -1 */

typedef enum fw_run_mode {
    FW_RUN_FRESH, /* a folder that holds a run is refused */
    FW_RUN_RESUME, /* the identity must agree with run.json or, where that is damaged or lost, with the newest checkpoint */
    FW_RUN_OVERWRITE, /* checkpoints and run.json of an earlier run are removed */
} fw_run_mode;

/* identity: an object of strings and numbers, such as {"model": ..., "data_hash": ..., "seed": ...}.
 * Writes run.json. Errors: FW_ERR_OPTION: the folder holds another run (names it and the ways out), or, on resume,
 * every key that differs with both values. */
fw_status fw_run_begin(const char *output_dir, const json_t *identity, fw_run_mode mode);
/* Two identities; `path` holds the first. Errors: FW_ERR_OPTION: every key that differs with both values. */
fw_status fw_run_compare(const json_t *was, const json_t *is, const char *path);

#endif
