/* How GPUs are joined, by NVML; private to the room. */
#ifndef FW_MACHINE_READ_LINKS_H
#define FW_MACHINE_READ_LINKS_H

#include "machine/machine.h"
#include "machine/nvml.h"

/* m->gpu and m->pair for n GPUs, everything unknown. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_alloc_gpus(fw_machine *m, int n);
/* NVLinks, levels and peer access of all pairs. device: handles of m->gpu. */
void fw_machine_read_links(fw_machine *m, const fw_nvml *nvml, fw_nvml_device *device);

#endif
