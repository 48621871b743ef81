/* How fast memory is, all ranks and their threads at it at once: a copy, and a pass of AdamW, which is bound by it. On a
 * GPU its own memory, and the ways from and to the host. */
#ifndef FW_MEASURE_MEMORY_H
#define FW_MEASURE_MEMORY_H

#include "comm/comm.h"
#include "device/device.h"

#include <stdbool.h>

typedef struct fw_memory_row {
    const char *what; /* "copy", "adamw", "host to device", "device to host" */
    int64_t bytes;    /* amount of work of one rank: a copy's bytes; read and written ones of adamw */
    double seconds;   /* of the slowest rank */
    bool is_copy, is_adamw;
} fw_memory_row;

/* AdamW reads and writes weight, two moments and gradient in fp32, and writes the weight in bf16: 34 bytes a parameter. */
enum { FW_MEMORY_ADAMW_BYTES = 34 };

/* Collective; `show` is called on every rank. Errors: as fw_gemm_measure. */
fw_status fw_memory_measure(fw_comm *comm, fw_device *device, bool (*stop)(void),
                            void (*show)(void *context, const fw_memory_row *row), void *context);

#endif
