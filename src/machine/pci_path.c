#include "machine/pci_path.h"

#include "machine/pci_id.h"
#include "machine/sysfs.h"

#include <string.h>

void fw_pci_path_parse(fw_pci_path *out, const char *sysfs_path) {
    *out = (fw_pci_path){0};
    char word[FW_MACHINE_PCI_BYTES];
    for (const char *at = sysfs_path; *at != 0; at += strspn(at, "/")) {
        const size_t n = strcspn(at, "/");
        const bool fits = n < sizeof word;
        if (fits) snprintf(word, sizeof word, "%.*s", (int)n, at);
        at += n;
        if (!fits) continue;
        if (strncmp(word, "pci", 3) == 0 && strchr(word, ':') != NULL) { /* below a bridge that is a host of its own */
            *out = (fw_pci_path){0};
            memcpy(out->host_bridge, word, sizeof word);
        } else if (out->host_bridge[0] != 0 && out->part_n < FW_PCI_DEPTH &&
                   fw_pci_id_parse(out->part[out->part_n], word)) {
            out->part_n++;
        }
    }
}

void fw_pci_path_read(fw_pci_path *out, const char *root, const char *pci_id) {
    char path[FW_SYSFS_PATH_BYTES];
    *out = (fw_pci_path){0};
    if (pci_id[0] != 0 && fw_sysfs_real_path(path, root, "/sys/bus/pci/devices/%s", pci_id))
        fw_pci_path_parse(out, path);
}

fw_machine_level fw_pci_path_level(const fw_pci_path *a, int numa_a, const fw_pci_path *b, int numa_b) {
    if (a->part_n == 0 || b->part_n == 0) return FW_LEVEL_UNKNOWN;
    if (strcmp(a->host_bridge, b->host_bridge) != 0) return numa_a == numa_b ? FW_LEVEL_NODE : FW_LEVEL_SYS;
    int shared_n = 0;
    while (shared_n < a->part_n && shared_n < b->part_n && strcmp(a->part[shared_n], b->part[shared_n]) == 0)
        shared_n++;
    if (shared_n == a->part_n && shared_n == b->part_n) return FW_LEVEL_SELF;
    if (shared_n == 0) return FW_LEVEL_PHB;
    /* Below the shared bridge: a port of the switch and the device. More on either side is another switch. */
    const int deeper = a->part_n > b->part_n ? a->part_n : b->part_n;
    return deeper - shared_n <= 2 ? FW_LEVEL_PIX : FW_LEVEL_PXB;
}

int fw_pci_acs_control(const uint8_t *config, size_t bytes) {
    enum { FIRST = 0x100, ACS = 0x000d, CONTROL = 6 };
    if (bytes < FIRST + 4) return FW_MACHINE_UNKNOWN;
    size_t at = FIRST;
    for (int step = 0; step < 1024 && at >= FIRST && at + CONTROL + 2 <= bytes; step++) {
        const unsigned id = config[at] | (unsigned)config[at + 1] << 8;
        if (id == 0xffff) return FW_MACHINE_UNKNOWN; /* reading gave nothing: the device sleeps or is gone */
        if (id == ACS) return config[at + CONTROL] | config[at + CONTROL + 1] << 8;
        at = ((size_t)config[at + 2] >> 4 | (size_t)config[at + 3] << 4) & 0xffcu;
    }
    return FW_ACS_NONE;
}
