/* The recorder: a buffer of slots that threads take by counting up. */
#include "base/trace.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/trace_event.h"

#include <string.h>

atomic_bool fw_trace_recording;

static struct {
    fw_trace_event *event;
    uint64_t event_n;
    atomic_uint_fast64_t taken_n; /* goes on counting when the buffer is full */
} recorder;

_Static_assert(sizeof(fw_trace_event) == FW_TRACE_EVENT_BYTES, "the documented size of a span is not its size");

fw_status fw_trace_start(int64_t event_n) {
    FW_ASSERT(event_n > 0);
    fw_trace_stop();
    FW_TRY(FW_NEW_ARRAY(recorder.event, (size_t)event_n));
    recorder.event_n = (uint64_t)event_n;
    atomic_store(&fw_trace_recording, true);
    return FW_OK;
}

void fw_trace_pause(void) { atomic_store(&fw_trace_recording, false); }

void fw_trace_stop(void) {
    fw_trace_pause();
    fw_free(recorder.event);
    recorder.event = NULL;
    recorder.event_n = 0;
    atomic_store(&recorder.taken_n, 0);
}

void fw_trace_span(fw_trace_lane lane, const char *name, uint64_t start_ns, uint64_t end_ns) {
    if (!fw_trace_on()) return;
    uint64_t i = atomic_fetch_add_explicit(&recorder.taken_n, 1, memory_order_relaxed);
    if (i >= recorder.event_n) return;
    fw_trace_event *e = &recorder.event[i];
    e->start_ns = start_ns;
    e->end_ns = end_ns > start_ns ? end_ns : start_ns;
    e->lane = (uint8_t)lane;
    size_t name_bytes = strnlen(name, FW_TRACE_NAME_BYTES - 1);
    memcpy(e->name, name, name_bytes); /* the rest is zero: a slot is used once */
    atomic_store_explicit(&e->complete, true, memory_order_release);
}

uint64_t fw_trace_now(void) { return fw_trace_on() ? fw_host_now_ns() : 0; }

uint64_t fw_trace_since(fw_trace_lane lane, const char *name, uint64_t start_ns) {
    if (start_ns == 0 || !fw_trace_on()) return 0;
    uint64_t now_ns = fw_host_now_ns();
    fw_trace_span(lane, name, start_ns, now_ns);
    return now_ns;
}

void fw_trace_counts(uint64_t *kept_n, uint64_t *dropped_n) {
    uint64_t taken_n = atomic_load(&recorder.taken_n);
    *kept_n = taken_n < recorder.event_n ? taken_n : recorder.event_n;
    *dropped_n = taken_n - *kept_n;
}

fw_status fw_trace_collect(const fw_trace_event ***out, size_t *n) {
    uint64_t kept_n, dropped_n;
    fw_trace_counts(&kept_n, &dropped_n);
    FW_TRY(FW_NEW_ARRAY(*out, (size_t)kept_n));
    *n = 0;
    for (uint64_t i = 0; i < kept_n; i++)
        if (atomic_load_explicit(&recorder.event[i].complete, memory_order_acquire))
            (*out)[(*n)++] = &recorder.event[i];
    return FW_OK;
}
