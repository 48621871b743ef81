#include "train/run_trace.h"

#include "base/trace.h"

fw_status fw_run_trace_begin(fw_comm *comm, const char *path) {
    if (path == NULL) return FW_OK;
    fw_status status = FW_OK;
    if (fw_comm_rank(comm) == 0) status = fw_trace_file_begin(path, fw_comm_world(comm));
    if (status == FW_OK) status = fw_trace_start(FW_TRACE_EVENTS_DEFAULT);
    status = fw_comm_agree(comm, status);
    if (status != FW_OK) fw_run_trace_abandon(comm, path);
    return status;
}

/* One rank after the other; ends at the first that cannot. */
static fw_status write_parts(fw_comm *comm, const char *path) {
    int rank = fw_comm_rank(comm);
    for (int turn = 0; turn < fw_comm_world(comm); turn++) {
        fw_status status = turn == rank ? fw_trace_file_append(path, rank) : FW_OK;
        FW_TRY(fw_comm_agree(comm, status));
    }
    return fw_comm_agree(comm, rank == 0 ? fw_trace_file_end(path) : FW_OK);
}

fw_status fw_run_trace_end(fw_comm *comm, const char *path) {
    if (path == NULL) return FW_OK;
    fw_status status = write_parts(comm, path);
    fw_run_trace_abandon(comm, path); /* a whole file has its name already and stays */
    if (status == FW_OK) fw_trace_stop();
    return status;
}

void fw_run_trace_abandon(const fw_comm *comm, const char *path) {
    if (path == NULL) return;
    fw_trace_pause(); /* the buffer stays: the background thread may still be in a collective that will never end */
    if (comm != NULL && fw_comm_rank(comm) == 0) fw_trace_file_cancel(path);
}
