/* One recorded span; between the recorder (trace.c) and the file (trace_file.c) only. */
#ifndef FW_BASE_TRACE_EVENT_H
#define FW_BASE_TRACE_EVENT_H

#include "base/trace.h"

typedef struct fw_trace_event {
    uint64_t start_ns, end_ns;
    char name[FW_TRACE_NAME_BYTES];
    uint8_t lane;
    atomic_bool complete; /* set last: a thread may be cut short while it fills a slot */
} fw_trace_event;

/* *out = the complete spans in the order they were recorded; release with fw_free, the spans are the recorder's. */
fw_status fw_trace_collect(const fw_trace_event ***out, size_t *n);

#endif
