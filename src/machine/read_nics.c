/* Network cards: those that write into other hosts' memory (InfiniBand, RoCE) and plain ones. */
#include "machine/read.h"

#include "base/alloc.h"
#include "base/file.h"
#include "machine/pci_path.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>

/* The PCI id of the device behind a class's entry; "" of a virtual one. */
static void read_pci_id(fw_pci_path *path, fw_machine_nic *nic, const char *root, const char *class) {
    char real[FW_SYSFS_PATH_BYTES];
    *path = (fw_pci_path){0};
    if (!fw_sysfs_real_path(real, root, "/sys/class/%s/%s/device", class, nic->name)) return;
    fw_pci_path_parse(path, real);
    if (path->part_n > 0) memcpy(nic->pci_id, path->part[path->part_n - 1], sizeof nic->pci_id);
}

/* "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand" of the first port. */
static void read_rdma(fw_machine_nic *nic, const char *root) {
    char line[64];
    nic->rdma = true;
    if (fw_sysfs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/ports/1/state", nic->name)) {
        const char *word = strchr(line, ' ');
        snprintf(nic->state, sizeof nic->state, "%.15s", word != NULL ? word + 1 : line);
    }
    fw_sysfs_read_line(nic->layer, sizeof nic->layer, root, "/sys/class/infiniband/%s/ports/1/link_layer", nic->name);
    if (fw_sysfs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/ports/1/rate", nic->name)) {
        const double rate = atof(line);
        if (rate > 0 && rate < 1e5) nic->gbit_per_s = rate;
    }
}

static void read_plain(fw_machine_nic *nic, const char *root) {
    snprintf(nic->layer, sizeof nic->layer, "Ethernet");
    fw_sysfs_read_line(nic->state, sizeof nic->state, root, "/sys/class/net/%s/operstate", nic->name);
    const int64_t mbit = fw_sysfs_read_number(1, 100000000, root, "/sys/class/net/%s/speed", nic->name);
    if (mbit > 0) nic->gbit_per_s = (double)mbit / 1000;
}

static fw_status read_class(fw_machine *m, const char *root, const char *class) {
    char folder[64], **names;
    size_t name_n;
    const bool rdma = strcmp(class, "infiniband") == 0;
    snprintf(folder, sizeof folder, "/sys/class/%s", class);
    FW_TRY(fw_sysfs_list(&names, &name_n, root, folder));
    for (size_t i = 0; i < name_n && m->nic_n < FW_MACHINE_NIC_CAP; i++) {
        fw_machine_nic *nic = &m->nic[m->nic_n];
        char clean[sizeof nic->name];
        fw_sysfs_clean(clean, sizeof clean, names[i], strlen(names[i]));
        if (strcmp(clean, names[i]) != 0) continue; /* too long, or not a name of a card */
        if (!rdma && !fw_sysfs_exists(root, "/sys/class/net/%s/device", names[i])) continue; /* lo, bridges, tunnels */
        fw_pci_path path;
        *nic = (fw_machine_nic){.numa = FW_MACHINE_UNKNOWN, .gbit_per_s = FW_MACHINE_UNKNOWN};
        snprintf(nic->name, sizeof nic->name, "%s", names[i]);
        read_pci_id(&path, nic, root, class);
        nic->numa = (int)fw_sysfs_read_number(0, 4095, root, "/sys/class/%s/%s/device/numa_node", class, nic->name);
        if (rdma)
            read_rdma(nic, root);
        else
            read_plain(nic, root);
        for (int g = 0; g < m->gpu_n; g++) {
            fw_pci_path gpu;
            fw_pci_path_read(&gpu, root, m->gpu[g].pci_id);
            m->nic_level[m->nic_n * m->gpu_n + g] = fw_pci_path_level(&path, nic->numa, &gpu, m->gpu[g].numa);
        }
        m->nic_n++;
    }
    fw_dir_list_free(names, name_n);
    return FW_OK;
}

fw_status fw_machine_read_nics(fw_machine *m, const char *root) {
    FW_TRY(FW_NEW_ARRAY(m->nic, FW_MACHINE_NIC_CAP));
    FW_TRY(FW_NEW_ARRAY(m->nic_level, (size_t)FW_MACHINE_NIC_CAP * (size_t)m->gpu_n));
    FW_TRY(read_class(m, root, "infiniband"));
    return read_class(m, root, "net");
}
