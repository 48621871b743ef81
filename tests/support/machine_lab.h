/* Machines for tests: the recorded ones of tests/data/machine, and folders that stand for /sys and /proc. */
#ifndef FW_TESTS_SUPPORT_MACHINE_LAB_H
#define FW_TESTS_SUPPORT_MACHINE_LAB_H

#include "machine/doctor.h"

/* "h100_nvswitch_8", "l40s_pcie_8", "rtx4090_x8_2", "a100_vm_acs_4"; the caller destroys it. */
fw_machine *fw_test_machine(const char *name);

/* From now on this is the only variable of the environment that m knows of. */
void fw_test_set_variable(fw_machine *m, const char *name, const char *value);

/* One check of the doctor: it must find something of this level whose text or remedy holds `part`; or nothing at all. */
void fw_test_finds(const char *check, fw_finding_level level, const char *part, const fw_machine *m,
                   const fw_doctor_context *c);
void fw_test_finds_nothing(const char *check, const fw_machine *m, const fw_doctor_context *c);

/* Files below `root`, with the folders above them. `path` begins with "/". */
void fw_test_lay_text(const char *root, const char *path, const char *text);
void fw_test_lay_bytes(const char *root, const char *path, const void *bytes, size_t n_bytes);
/* A symbolic link to another path below root. */
void fw_test_lay_link(const char *root, const char *path, const char *to);
/* A PCI device where its bridges put it: place is "pci0000:15/0000:15:01.0/0000:17:00.0". Links are 16 lanes of
 * generation 4; class "0x030200" is a GPU, vendor "0x10de" is NVIDIA. */
void fw_test_lay_pci(const char *root, const char *place, const char *class, const char *vendor, int numa);

#endif
