/* Matrix products of a training step, by the device's own operations: y = x w^T, dx = dy w, dw += dy^T x, square, of
 * growing size. All ranks work at once, each with its threads, as in training; the time is that of the slowest. */
#ifndef FW_MEASURE_GEMM_H
#define FW_MEASURE_GEMM_H

#include "comm/comm.h"
#include "device/device.h"

#include <stdbool.h>

typedef struct fw_gemm_row {
    int64_t size; /* m = n = k */
    fw_dtype dtype;
    double forward_s, input_s, weight_s; /* of one product each: 2 size^3 operations */
} fw_gemm_row;

static inline double fw_gemm_operations(int64_t size) { return 2.0 * (double)size * (double)size * (double)size; }

/* Both types, sizes from 256 to 2048 (8192 on a GPU), as long as a matrix has at most most_bytes; `show` is called on every
 * rank. stop: as in collective.h.
 * Collective. Errors: FW_ERR_NOMEM, FW_ERR_FIT, FW_ERR_INTERRUPTED, those of comm. */
fw_status fw_gemm_measure(fw_comm *comm, fw_device *device, int64_t most_bytes, bool (*stop)(void),
                          void (*show)(void *context, const fw_gemm_row *row), void *context);

#endif
