/* The parts of fw_machine_read; private to the room. Each fills its part of a snapshot whose numbers are unknown yet. */
#ifndef FW_MACHINE_READ_H
#define FW_MACHINE_READ_H

#include "machine/machine.h"

/* Cores, caches, NUMA nodes (fills m->numa), memory. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_cpu(fw_machine *m, const char *root);
/* Memory, /dev/shm, limits, container and virtual machine, clock. */
void fw_machine_read_system(fw_machine *m, const char *root);
/* GPUs and how they are joined, by NVML. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_nvml(fw_machine *m, const char *root, const char *library);
/* What /sys knows of the GPUs: NUMA nodes, slots, levels where NVML gave none, bridges, IOMMU, GPUs without a driver.
 * Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_pci(fw_machine *m, const char *root);
/* Network cards, and how far they are from the GPUs. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_nics(fw_machine *m, const char *root);
/* This host's name; it and the names in `hosts` ("a,b") looked up, unless hosts is NULL. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_hosts(fw_machine *m, const char *hosts);
/* NCCL_* and CUDA_* of this process's environment, and NCCL's files. Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read_settings(fw_machine *m, const char *root);

/* Name, state and parent of a process, from /proc. */
void fw_machine_read_process(fw_machine_process *process, const char *root);

#endif
