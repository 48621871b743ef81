/* Parts of a snapshot's JSON; private to the room. */
#ifndef FW_MACHINE_SNAPSHOT_H
#define FW_MACHINE_SNAPSHOT_H

#include "machine/machine.h"

/* "pcie", "nvlinks", "p2p_read", "p2p_write", "nic_to_gpu" and "nvswitch". Errors: FW_ERR_NOMEM. */
fw_status fw_snapshot_put_matrices(json_t *root, const fw_machine *m);
/* The same, for the GPUs and cards that m has already. Errors: FW_ERR_INPUT naming where, key and row. */
fw_status fw_snapshot_take_matrices(fw_machine *m, const json_t *root, const char *where);

#endif
