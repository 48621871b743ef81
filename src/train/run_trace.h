/* The trace of a run (base/trace.h) written by all of its ranks into one file: option --trace. */
#ifndef FW_TRAIN_RUN_TRACE_H
#define FW_TRAIN_RUN_TRACE_H

#include "comm/comm.h"

/* Begin the file on rank 0, so that a path that cannot be written is found before the first step, and record on every
 * rank from now on. path NULL: no trace, nothing is done. Collective. Errors: FW_ERR_OPTION, FW_ERR_IO, FW_ERR_NOMEM,
 * the same on every rank. */
fw_status fw_run_trace_begin(fw_comm *comm, const char *path);
/* Record no more; the ranks write their parts in turn, and the file gets its name. Collective. Errors: FW_ERR_IO,
 * FW_ERR_NOMEM, the same on every rank; an older file of that name is then as it was. */
fw_status fw_run_trace_end(fw_comm *comm, const char *path);
/* The run failed and the ranks cannot meet any more: nothing is recorded any longer, and rank 0 takes its unfinished file
 * away. Takes a trace that never began, or has ended. */
void fw_run_trace_abandon(const fw_comm *comm, const char *path);

#endif
