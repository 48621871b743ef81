/* A device whose kernels are those of GPUs, run by the emulation on the CPU (simt.h). For tests: it is thousands of
 * times slower than the cpu device, so the command line does not offer it and the binary does not contain it.
 * FW_SIMT_SEED in the environment picks the order in which threads of a block run, anew for every kernel. */
#ifndef FW_DEVICE_SIMT_SIMT_DEVICE_H
#define FW_DEVICE_SIMT_SIMT_DEVICE_H

#include "device/device.h"

/* No threads: blocks run one after the other. Its memory counts as a GPU's (on_host is 0), so callers go the way they
 * would go with one. Errors: FW_ERR_NOMEM. */
fw_status fw_device_create_simt(fw_device **out);

#endif
