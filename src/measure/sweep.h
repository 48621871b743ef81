/* The sizes of a sweep, stepped as nccl-tests does: the smallest, then times `factor` or plus `step`, up to the largest. */
#ifndef FW_MEASURE_SWEEP_H
#define FW_MEASURE_SWEEP_H

#include "base/status.h"

#include <stdint.h>

enum { FW_SWEEP_SIZES = 4096 };

typedef struct fw_sweep {
    int64_t min_bytes, max_bytes;
    int64_t factor;     /* at least 2, or 0 */
    int64_t step_bytes; /* with factor 0 */
} fw_sweep;

/* The size after `bytes` (0: the first); 0 when there is no other. */
int64_t fw_sweep_next(const fw_sweep *s, int64_t bytes);
/* Errors: FW_ERR_OPTION: more than FW_SWEEP_SIZES sizes. */
fw_status fw_sweep_check(const fw_sweep *s);

#endif
