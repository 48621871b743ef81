/* Run a command: no shell between, its output kept, its end bounded, and nothing of it left when we are gone. */
#ifndef FW_MIRROR_MIRROR_RUN_H
#define FW_MIRROR_MIRROR_RUN_H

#include "mirror/mirror_work.h"

/* argv as for execvp. What it writes is appended to log_path (NULL: dropped). It runs in a process group of its own: Ctrl-C
 * of a terminal does not reach it, and when this process dies, however, the whole group gets SIGTERM and, after two
 * seconds, SIGKILL. Errors: FW_ERR_IO: the exit code or signal and the last line that it wrote, or the last that begins with
 * "error", where there is one, or that it cannot be started; and those of fw_mirror_work_check, after it has been stopped. */
fw_status fw_mirror_run(char *const *argv, const char *log_path, fw_mirror_work *work);

/* A file of that name that may be run is in PATH, or where the name says when it has a slash. */
bool fw_mirror_can_run(const char *program);

#endif
