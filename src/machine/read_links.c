#include "machine/read_links.h"

#include "machine/pci_id.h"

#include <string.h>

/* ---- NVLink ---- */

/* What a link of GPU g leads to: another GPU, or a switch. */
static void count_link(fw_machine *m, int g, const fw_nvml *nvml, fw_nvml_device d, unsigned link, int *switch_n) {
    unsigned type = 255;
    if (nvml->link_remote_type != NULL && nvml->link_remote_type(d, link, &type) == FW_NVML_SUCCESS &&
        type == FW_NVML_REMOTE_SWITCH) {
        (*switch_n)++;
        return;
    }
    fw_nvml_pci pci = {0};
    char bus_id[sizeof pci.bus_id + 1] = {0};
    if (nvml->link_remote_pci == NULL || nvml->link_remote_pci(d, link, &pci) != FW_NVML_SUCCESS) return;
    memcpy(bus_id, pci.bus_id, sizeof pci.bus_id);
    const int other = fw_machine_find_gpu(m, bus_id);
    if (other >= 0 && other != g) m->pair[g * m->gpu_n + other].nvlink_n++;
    if (other < 0 && type == 255 && nvml->link_remote_type == NULL)
        (*switch_n)++; /* old drivers: no GPU, so a switch */
}

/* Links of a card come first, so the first one that NVML does not know ends them. */
static void read_nvlinks(fw_machine *m, int g, const fw_nvml *nvml, fw_nvml_device d, int *switch_n) {
    *switch_n = 0;
    m->gpu[g].nvlink_n = m->gpu[g].nvlink_down_n = 0;
    if (nvml->link_state == NULL) return;
    for (unsigned link = 0; link < FW_NVML_LINK_CAP; link++) {
        unsigned active = 0;
        if (nvml->link_state(d, link, &active) != FW_NVML_SUCCESS) break;
        if (active != 1) {
            m->gpu[g].nvlink_down_n++;
            continue;
        }
        m->gpu[g].nvlink_n++;
        count_link(m, g, nvml, d, link, switch_n);
    }
}

/* ---- levels and peer access ---- */

static fw_machine_level read_level(const fw_nvml *nvml, fw_nvml_device a, fw_nvml_device b) {
    unsigned level = 0;
    if (nvml->ancestor == NULL || nvml->ancestor(a, b, &level) != FW_NVML_SUCCESS) return FW_LEVEL_UNKNOWN;
    switch (level) {
    case 0: /* two GPUs of one board: below one switch */
    case 10: return FW_LEVEL_PIX;
    case 20: return FW_LEVEL_PXB;
    case 30: return FW_LEVEL_PHB;
    case 40: return FW_LEVEL_NODE;
    case 50: return FW_LEVEL_SYS;
    default: return FW_LEVEL_UNKNOWN;
    }
}

static fw_machine_p2p read_p2p(const fw_nvml *nvml, fw_nvml_device a, fw_nvml_device b, unsigned capability) {
    static const fw_machine_p2p known[] = {FW_P2P_OK,       FW_P2P_CHIPSET,  FW_P2P_GPU,
                                           FW_P2P_TOPOLOGY, FW_P2P_DISABLED, FW_P2P_NONE};
    unsigned status = 99;
    if (nvml->p2p == NULL || nvml->p2p(a, b, capability, &status) != FW_NVML_SUCCESS) return FW_P2P_UNKNOWN;
    return status < sizeof known / sizeof *known ? known[status] : FW_P2P_UNKNOWN;
}

void fw_machine_read_links(fw_machine *m, const fw_nvml *nvml, fw_nvml_device *device) {
    const int n = m->gpu_n;
    int switch_n[FW_MACHINE_GPU_CAP];
    for (int a = 0; a < n; a++) read_nvlinks(m, a, nvml, device[a], &switch_n[a]);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            fw_machine_pair *pair = &m->pair[a * n + b];
            if (a == b) {
                pair->level = FW_LEVEL_SELF;
                continue;
            }
            const int through = switch_n[a] < switch_n[b] ? switch_n[a] : switch_n[b];
            pair->nvswitch = pair->nvlink_n == 0 && through > 0;
            if (pair->nvswitch) pair->nvlink_n = through;
            pair->level = read_level(nvml, device[a], device[b]);
            pair->read = read_p2p(nvml, device[a], device[b], FW_NVML_P2P_READ);
            pair->write = read_p2p(nvml, device[a], device[b], FW_NVML_P2P_WRITE);
        }
}
