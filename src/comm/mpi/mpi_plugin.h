/* What libfinewire_mpi.so gives: messages between the ranks of an MPI job. Nothing here knows of collectives, failures or
 * labels: that is the rest of this folder, which is tested with a stand-in for this table.
 *
 * No call waits for another rank. One thread at a time calls (the caller's lock), from any thread. Messages between two
 * ranks with one tag arrive in the order in which they were sent. Errors: FW_ERR_RANK with MPI's words. */
#ifndef FW_COMM_MPI_MPI_PLUGIN_H
#define FW_COMM_MPI_MPI_PLUGIN_H

#include "device/plugin_host.h"

enum { FW_MPI_MESSAGE_BYTES = 1 << 30 }; /* the longest message */

/* A message on its way. Zero-initialised: none. */
typedef struct fw_mpi_request {
    uint64_t handle;
    int pending;
} fw_mpi_request;

typedef struct fw_mpi_plugin {
    fw_plugin_head head;
    /* Start MPI, once a process, from the main thread; this process's place in it. */
    fw_status (*start)(int *rank, int *world);
    void (*describe)(char *text, size_t text_bytes); /* "Open MPI 4.1.4" */
    /* The data must stay until test has said that it is done. */
    fw_status (*send)(fw_mpi_request *r, const void *data, size_t bytes, int to, int tag);
    /* A message of at most `bytes`. */
    fw_status (*receive)(fw_mpi_request *r, void *data, size_t bytes, int from, int tag);
    fw_status (*test)(fw_mpi_request *r);   /* clears r->pending when it is done */
    fw_status (*probe)(int tag, int *from); /* a rank whose message with this tag has come; -1: none */
    /* All ranks end now and nothing is on its way. Waits for them. */
    void (*stop)(void);
} fw_mpi_plugin;

#endif
