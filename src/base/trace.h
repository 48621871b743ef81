/* Where the time of a run went: spans with a name, kept in memory and written as one Chrome trace of all ranks.
 *
 * Recording costs two clock readings and a copy of the name; while it is off, one read of a flag:
 *
 *     uint64_t at_ns = fw_trace_now();
 *     ...
 *     at_ns = fw_trace_since(FW_TRACE_STEP, "forward", at_ns);
 *     ...
 *     fw_trace_since(FW_TRACE_STEP, "backward", at_ns);
 *
 * The buffer of a process is taken once and never grows: when it is full, later spans are dropped, and how many is
 * written into the file. Spans of one lane should lie inside each other or apart, as calls do; viewers draw them so.
 *
 * One file for all ranks, which share the host's monotonic clock. Rank 0 begins it when the run starts, so that a bad
 * path is found then; at the end the ranks append in turn, with barriers of the caller between:
 *
 *     rank 0: fw_trace_file_begin(path, world)  ...  each rank r in turn: fw_trace_file_append(path, r)
 *     rank 0: fw_trace_file_end(path)           or   fw_trace_file_cancel(path) when a rank failed
 *
 * Until the end the file is called PATH.unfinished. Source: Trace Event Format, JSON object format ("X" and "M" events); it
 * opens in Perfetto and chrome://tracing. pid is the rank, tid the lane, ts and dur are microseconds. */
#ifndef FW_BASE_TRACE_H
#define FW_BASE_TRACE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum fw_trace_lane {
    FW_TRACE_STEP,    /* phases of the step */
    FW_TRACE_COMPUTE, /* computing with a unit */
    FW_TRACE_WAIT,    /* time really spent waiting for other ranks */
    FW_TRACE_COMM,    /* the background thread at work on a collective */
    FW_TRACE_HOST,    /* loading, saving, evaluation and other work beside the step */
    FW_TRACE_BEHIND,  /* reading behind the step */
    FW_TRACE_LANE_N
} fw_trace_lane;

enum {
    FW_TRACE_NAME_BYTES = 48, /* with the ending zero byte: longer names are cut off */
    FW_TRACE_EVENT_BYTES = 72,
    FW_TRACE_EVENTS_DEFAULT = 1 << 17 /* 9.4 MB */
};

/* Take the buffer, event_n * FW_TRACE_EVENT_BYTES bytes, and record from now on; what an earlier start recorded is
 * forgotten. Pages are touched as they fill. Errors: FW_ERR_NOMEM. Not while another thread records. */
fw_status fw_trace_start(int64_t event_n);
/* Record no more; what was recorded stays. Any time. */
void fw_trace_pause(void);
/* Record no more and give the buffer back; takes a recorder that never started. Not while another thread records. */
void fw_trace_stop(void);

extern atomic_bool fw_trace_recording; /* private: read it through fw_trace_on */
static inline bool fw_trace_on(void) { return atomic_load_explicit(&fw_trace_recording, memory_order_relaxed); }

/* Any thread, without a lock; does nothing while the recorder is off. An end before the start counts as the start. */
void fw_trace_span(fw_trace_lane lane, const char *name, uint64_t start_ns, uint64_t end_ns);
/* The time when the recorder is on, else 0. */
uint64_t fw_trace_now(void);
/* A span from a fw_trace_now until now, which is returned; nothing, and 0, when the recorder was or is off. */
uint64_t fw_trace_since(fw_trace_lane lane, const char *name, uint64_t start_ns);
/* Spans kept, and spans that found the buffer full. */
void fw_trace_counts(uint64_t *kept_n, uint64_t *dropped_n);

/* Could a trace be begun here? Leaves nothing behind, writes no byte (so that it can be asked on a full disk, before room
 * is made). Errors: FW_ERR_OPTION (PATH or PATH.unfinished is a folder or a device), FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_trace_file_check(const char *path);
/* Write the head to PATH.unfinished; one that a killed run left is replaced. Errors: as the check's. */
fw_status fw_trace_file_begin(const char *path, int world);
/* Record no more and append what this process recorded. Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_trace_file_append(const char *path, int rank);
/* Write the tail and give the file its name. Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_trace_file_end(const char *path);
/* Remove PATH.unfinished; a missing one is no error. */
void fw_trace_file_cancel(const char *path);

#endif
