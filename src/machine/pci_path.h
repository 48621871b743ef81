/* Where a device sits in the tree of PCI bridges, from where /sys puts it:
 * /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0 is the device 17:00.0 below two bridges of the host
 * bridge pci0000:15. */
#ifndef FW_MACHINE_PCI_PATH_H
#define FW_MACHINE_PCI_PATH_H

#include "machine/machine.h"

enum { FW_PCI_DEPTH = 16 };

typedef struct fw_pci_path {
    char host_bridge[FW_MACHINE_PCI_BYTES];        /* "pci0000:15" */
    char part[FW_PCI_DEPTH][FW_MACHINE_PCI_BYTES]; /* bridges from the top down, the device last */
    int part_n;                                    /* 0: unknown */
} fw_pci_path;

/* Of the device with this id; part_n is 0 when /sys does not know it. */
void fw_pci_path_read(fw_pci_path *out, const char *root, const char *pci_id);
/* The same from the path itself. */
void fw_pci_path_parse(fw_pci_path *out, const char *sysfs_path);
/* How far two devices are from each other; numa_*: their nodes, FW_MACHINE_UNKNOWN on a machine with one node. */
fw_machine_level fw_pci_path_level(const fw_pci_path *a, int numa_a, const fw_pci_path *b, int numa_b);

/* The ACS control register in `bytes` of a bridge's configuration space, as /sys/.../config gives it; FW_ACS_NONE: the
 * bridge has no such capability; FW_MACHINE_UNKNOWN: too few bytes (only root gets more than 64). Source: PCI Express
 * Base Specification, extended capability 0x000d. */
int fw_pci_acs_control(const uint8_t *config, size_t bytes);

#endif
