/* How fast a disk takes a checkpoint and gives it back: a file is written in pieces and synced, then read after the system
 * was asked to forget it. One rank measures; nothing is left behind. */
#ifndef FW_MEASURE_DISK_H
#define FW_MEASURE_DISK_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_disk_result {
    int64_t bytes;
    double write_s; /* until fsync has returned */
    double read_s;
    double cached_part; /* of the file that was still in memory when reading began: 0 is an honest reading, 1 none */
} fw_disk_result;

/* A file of `bytes` in `folder`, which must be there. Errors: FW_ERR_OPTION (no folder), FW_ERR_IO, FW_ERR_NOMEM,
 * FW_ERR_INTERRUPTED; the file is gone in any case. */
fw_status fw_disk_measure(fw_disk_result *out, const char *folder, int64_t bytes, bool (*stop)(void));

#endif
