/* PCI bus ids in one way of writing. */
#ifndef FW_MACHINE_PCI_ID_H
#define FW_MACHINE_PCI_ID_H

#include "machine/machine.h"

/* *out = "0000:17:00.0" of "0000:17:00.0", "00000000:17:00.0" (NVML), "0000:17:00" (CUDA) or "17:00.0", in lower case.
 * False for anything else: *out is "" then. */
bool fw_pci_id_parse(char out[FW_MACHINE_PCI_BYTES], const char *text);

#endif
