/* From one command to several ranks: the process that the user started becomes the launcher of its own copies. */
#ifndef FW_CLI_RANKS_H
#define FW_CLI_RANKS_H

#include "base/status.h"

#include <stdbool.h>

/* *must: this process is to start the ranks: more than one is asked for, and no launcher has started this one (RANK and
 * WORLD_SIZE are not set, nor mpirun's OMPI_COMM_WORLD_SIZE). An error when a launcher has, with another number than was asked for. */
fw_status fw_cli_must_launch(bool *must, int process_n);
/* The same without a judgement: *exit_code is the job's (comm/launcher.h). */
fw_status fw_cli_launch_ranks(int process_n, bool keeps_nothing, int *exit_code);
fw_status fw_cli_status_of_exit_code(int code);
/* Start them, with the same arguments, and wait. The failing rank has printed its error; the status returned leads to
 * its exit code and prints nothing more. keeps_nothing: as in fw_launch_options. */
fw_status fw_cli_launch(int process_n, bool keeps_nothing);

#endif
