/* A stand-in for libfinewire_mpi.so: messages between the forked ranks of a test, through rings of bytes in shared memory.
 * Long messages go piece by piece and only while both sides ask, as MPI's do. */
#ifndef FW_TESTS_SUPPORT_FAKE_MPI_H
#define FW_TESTS_SUPPORT_FAKE_MPI_H

#include "comm/mpi/mpi_plugin.h"

/* Before the ranks of a world are forked. Returns 0. */
int fw_fake_mpi_reset(int world);
/* In the rank's process: its place, and the table. */
const fw_mpi_plugin *fw_fake_mpi(int rank);

#endif
