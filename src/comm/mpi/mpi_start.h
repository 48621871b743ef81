/* Starting the transport of several hosts; called by fw_comm_create. */
#ifndef FW_COMM_MPI_MPI_START_H
#define FW_COMM_MPI_MPI_START_H

#include "comm/comm_internal.h"

/* Before the ranks meet: load the plugin, start MPI, compare its place with c's; where the launcher gave no address, rank 0
 * opens a door and says by messages where it is. Errors: FW_ERR_OPTION (no plugin, not under mpirun), FW_ERR_RANK. */
fw_status fw_mpi_begin(fw_comm *c, uint64_t deadline_ns);
/* After it. */
fw_status fw_mpi_open(fw_comm *c, uint64_t deadline_ns);

/* Tests: take this instead of libfinewire_mpi.so; NULL: no more. */
struct fw_mpi_plugin;
void fw_mpi_replace_plugin(const struct fw_mpi_plugin *plugin);

#endif
