/* What /sys says of GPUs and of the bridges above them, with or without a driver. */
#include "machine/read.h"

#include "base/alloc.h"
#include "base/file.h"
#include "machine/pci_path.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE "/sys/bus/pci/devices/%s"

/* ---- links ---- */

/* Generation of "16.0 GT/s PCIe". */
static int read_generation(const char *root, const char *pci_id, const char *file) {
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    char line[64];
    if (!fw_sysfs_read_line(line, sizeof line, root, DEVICE "/%s", pci_id, file)) return FW_MACHINE_UNKNOWN;
    const double speed = atof(line);
    for (int i = 0; i < 6; i++)
        if (speed == speeds[i]) return i + 1;
    return FW_MACHINE_UNKNOWN;
}

static int read_width(const char *root, const char *pci_id, const char *file) {
    return (int)fw_sysfs_read_number(1, 32, root, DEVICE "/%s", pci_id, file);
}

static void keep(int *value, int other) {
    if (*value < 0) *value = other;
}
static int lesser(int a, int b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

static void read_link(fw_machine_gpu *g, const fw_pci_path *path, const char *root) {
    keep(&g->card_gen_max, read_generation(root, g->pci_id, "max_link_speed"));
    g->card_width_max = read_width(root, g->pci_id, "max_link_width");
    keep(&g->pcie_gen, read_generation(root, g->pci_id, "current_link_speed"));
    keep(&g->pcie_width, read_width(root, g->pci_id, "current_link_width"));
    if (path->part_n >= 2) {
        const char *port = path->part[path->part_n - 2];
        g->slot_gen_max = read_generation(root, port, "max_link_speed");
        g->slot_width_max = read_width(root, port, "max_link_width");
    }
    keep(&g->pcie_gen_max, lesser(g->card_gen_max, g->slot_gen_max));
    keep(&g->pcie_width_max, lesser(g->card_width_max, g->slot_width_max));
}

/* ---- bridges ---- */

static void add_bridge(fw_machine *m, const char *pci_id, const char *root) {
    for (int i = 0; i < m->bridge_n; i++)
        if (strcmp(m->bridge[i].pci_id, pci_id) == 0) return;
    if (m->bridge_n == FW_MACHINE_BRIDGE_CAP) return;
    uint8_t config[4096];
    const size_t n = fw_sysfs_read_bytes(config, sizeof config, root, DEVICE "/config", pci_id);
    fw_machine_bridge *bridge = &m->bridge[m->bridge_n++];
    snprintf(bridge->pci_id, sizeof bridge->pci_id, "%s", pci_id);
    bridge->acs = fw_pci_acs_control(config, n);
}

/* ---- IOMMU ---- */

/* What the GPUs' groups say; else whether the system has one at all. */
static fw_machine_iommu read_iommu(const fw_machine *m, const char *root, size_t unit_n) {
    char type[32];
    fw_machine_iommu found = FW_IOMMU_UNKNOWN;
    for (int i = 0; i < m->gpu_n; i++) {
        if (!fw_sysfs_read_line(type, sizeof type, root, DEVICE "/iommu_group/type", m->gpu[i].pci_id)) continue;
        if (strcmp(type, "identity") != 0) return FW_IOMMU_TRANSLATING; /* "DMA", "DMA-FQ" */
        found = FW_IOMMU_PASSTHROUGH;
    }
    if (found != FW_IOMMU_UNKNOWN) return found;
    if (unit_n > 0) return FW_IOMMU_UNKNOWN; /* there is one; what it does to the GPUs is not said */
    return fw_sysfs_exists(root, "/sys/class/iommu") ? FW_IOMMU_OFF : FW_IOMMU_UNKNOWN;
}

/* ---- GPUs of the PCI list ---- */

static bool is_nvidia_gpu(const char *root, const char *pci_id) {
    char vendor[16], class[16];
    return fw_sysfs_read_line(vendor, sizeof vendor, root, DEVICE "/vendor", pci_id) && strcmp(vendor, "0x10de") == 0 &&
           fw_sysfs_read_line(class, sizeof class, root, DEVICE "/class", pci_id) &&
           (strncmp(class, "0x0300", 6) == 0 || strncmp(class, "0x0302", 6) == 0);
}

static fw_status count_pci_gpus(fw_machine *m, const char *root) {
    char **names;
    size_t name_n;
    FW_TRY(fw_sysfs_list(&names, &name_n, root, "/sys/bus/pci/devices"));
    m->driver.pci_gpu_n = name_n > 0 ? 0 : FW_MACHINE_UNKNOWN;
    for (size_t i = 0; i < name_n; i++) m->driver.pci_gpu_n += is_nvidia_gpu(root, names[i]);
    fw_dir_list_free(names, name_n);
    return FW_OK;
}

/* ---- */

static void read_place(fw_machine_gpu *g, const fw_pci_path *path, const char *root) {
    memcpy(g->host_bridge, path->host_bridge, sizeof g->host_bridge);
    g->numa = (int)fw_sysfs_read_number(0, 4095, root, DEVICE "/numa_node", g->pci_id);
    fw_sysfs_read_line(g->cpus, sizeof g->cpus, root, DEVICE "/local_cpulist", g->pci_id);
    if (fw_cpu_list_count(g->cpus) < 0) g->cpus[0] = 0;
}

fw_status fw_machine_read_pci(fw_machine *m, const char *root) {
    fw_pci_path *path = NULL;
    char **units;
    size_t unit_n;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(path, (size_t)m->gpu_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(m->bridge, FW_MACHINE_BRIDGE_CAP), done);
    for (int i = 0; i < m->gpu_n; i++) {
        fw_pci_path_read(&path[i], root, m->gpu[i].pci_id);
        read_place(&m->gpu[i], &path[i], root);
        read_link(&m->gpu[i], &path[i], root);
        for (int k = 0; k + 1 < path[i].part_n; k++) add_bridge(m, path[i].part[k], root);
    }
    for (int a = 0; a < m->gpu_n; a++)
        for (int b = 0; b < m->gpu_n; b++) {
            fw_machine_pair *pair = &m->pair[a * m->gpu_n + b];
            if (pair->level == FW_LEVEL_UNKNOWN && a != b)
                pair->level = fw_pci_path_level(&path[a], m->gpu[a].numa, &path[b], m->gpu[b].numa);
        }
    FW_TRY_OR(fw_sysfs_list(&units, &unit_n, root, "/sys/class/iommu"), done);
    m->iommu = read_iommu(m, root, unit_n);
    fw_dir_list_free(units, unit_n);
    FW_TRY_OR(count_pci_gpus(m, root), done);
done:
    fw_free(path);
    return status;
}
