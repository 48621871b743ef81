/* What processes that were killed left half-written in the output folder of a run.
 *
 * Temporaries carry the number of the process that writes them: ".tmp-NAME-PID" and "NAME.tmp-PID", and "-old" behind
 * either for what was moved aside (staged_folder.h, base/file.h). */
#ifndef FW_STORE_STALE_H
#define FW_STORE_STALE_H

#include "store/run_folder.h"

/* Remove the temporaries of checkpoints and of their mirroring, of run.json and of the exported model "final" whose process is gone (or has
 * the number that is ours now: in a container, numbers come again). Only what has such a name and is of the right
 * kind, a folder "final.tmp-PID" only when every file in it is one that an export writes; something moved aside only
 * when the name it had is taken again. Nothing when the lock is not really held. What cannot be removed is warned of.
 * Errors: FW_ERR_NOMEM, FW_ERR_INPUT (the folder cannot be read). */
fw_status fw_stale_remove(const char *output_dir, const fw_output_lock *lock);

#endif
