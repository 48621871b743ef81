/* libfinewire_mpi.so: the table of mpi_plugin.h on an MPI library. */
#include "comm/mpi/mpi_plugin.h"

#include "device/cuda/host/plugin_base.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into its handle");

static fw_status mpi_status(const char *doing, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return FW_OK;
    MPI_Error_string(code, text, &n);
    return fw_fail(FW_ERR_RANK, "mpi: %s: %s", doing, text);
}

static void put(fw_mpi_request *r, MPI_Request request) {
    r->handle = 0;
    memcpy(&r->handle, &request, sizeof request);
    r->pending = 1;
}

static fw_status start(int *rank, int *world) {
    int given, was_started = 0;
    MPI_Initialized(&was_started);
    if (!was_started) {
        FW_TRY(mpi_status("starting", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given)));
        if (given < MPI_THREAD_SERIALIZED)
            return fw_fail(FW_ERR_RANK, "mpi: this library was built without threads (MPI_THREAD_SERIALIZED)");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    FW_TRY(mpi_status("asking for the rank", MPI_Comm_rank(MPI_COMM_WORLD, rank)));
    return mpi_status("asking for the number of ranks", MPI_Comm_size(MPI_COMM_WORLD, world));
}

/* The first words: "Open MPI v4.1.4, package: ..." */
static void describe(char *text, size_t text_bytes) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(version, &n);
    snprintf(text, text_bytes, "%.*s", (int)strcspn(version, ",\n"), version);
}

static fw_status send_message(fw_mpi_request *r, const void *data, size_t bytes, int to, int tag) {
    MPI_Request request;
    FW_TRY(mpi_status("sending", MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request)));
    put(r, request);
    return FW_OK;
}

static fw_status receive(fw_mpi_request *r, void *data, size_t bytes, int from, int tag) {
    MPI_Request request;
    FW_TRY(mpi_status("receiving", MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request)));
    put(r, request);
    return FW_OK;
}

static fw_status test(fw_mpi_request *r) {
    MPI_Request request;
    int done = 0;
    if (!r->pending) return FW_OK;
    memcpy(&request, &r->handle, sizeof request);
    int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    put(r, request);
    r->pending = !done;
    return mpi_status("waiting for a message", code);
}

static fw_status probe(int tag, int *from) {
    MPI_Status found;
    int is_there = 0;
    FW_TRY(mpi_status("looking for a message", MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &is_there, &found)));
    *from = is_there ? found.MPI_SOURCE : -1;
    return FW_OK;
}

static void stop(void) { MPI_Finalize(); }

FW_PLUGIN_EXPORT const fw_plugin_head *finewire_mpi_plugin(const fw_plugin_host *host);

const fw_plugin_head *finewire_mpi_plugin(const fw_plugin_host *host) {
    static const fw_mpi_plugin plugin = {.head = {FW_PLUGIN_ABI, FW_PLUGIN_BUILD},
                                         .start = start,
                                         .describe = describe,
                                         .send = send_message,
                                         .receive = receive,
                                         .test = test,
                                         .probe = probe,
                                         .stop = stop};
    fw_plugin_base_set(host);
    return &plugin.head;
}
