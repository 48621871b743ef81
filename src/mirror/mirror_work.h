/* What an attempt to copy is allowed, and how far it is. Written by the thread that copies, read by the one that trains. */
#ifndef FW_MIRROR_MIRROR_WORK_H
#define FW_MIRROR_MIRROR_WORK_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fw_mirror_work {
    atomic_bool given_up;   /* stop as soon as possible; nothing is wrong */
    int (*is_wished)(void); /* the same, asked; NULL: never */
    uint64_t end_ns;        /* the attempt counts as failed from then on; 0: never */
    double limit_s;         /* for the message */
    _Atomic uint64_t done_bytes, total_bytes;
} fw_mirror_work;

/* FW_OK: go on. Errors: FW_ERR_IO (too slow), FW_ERR_INTERRUPTED (given up). Call it at least once a second. */
fw_status fw_mirror_work_check(const fw_mirror_work *w);
/* From now on the attempt has limit_s; 0: as long as it takes. */
void fw_mirror_work_begin(fw_mirror_work *w, double limit_s);

#endif
