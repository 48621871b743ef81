#include "machine/machine.h"

#include "base/alloc.h"
#include "machine/pci_id.h"

#include <stdio.h>
#include <string.h>

void fw_machine_destroy(fw_machine *m) {
    if (m == NULL) return;
    for (int i = 0; i < m->setting_n; i++) {
        fw_free(m->setting[i].name);
        fw_free(m->setting[i].value);
        fw_free(m->setting[i].file);
    }
    fw_free(m->gpu);
    fw_free(m->pair);
    fw_free(m->numa);
    fw_free(m->bridge);
    fw_free(m->nic);
    fw_free(m->nic_level);
    fw_free(m->host);
    fw_free(m->setting);
    fw_free(m);
}

int fw_machine_find_gpu(const fw_machine *m, const char *pci_id) {
    char wanted[FW_MACHINE_PCI_BYTES];
    if (!fw_pci_id_parse(wanted, pci_id)) return -1;
    for (int i = 0; i < m->gpu_n; i++)
        if (strcmp(m->gpu[i].pci_id, wanted) == 0) return i;
    return -1;
}

const char *fw_machine_level_name(fw_machine_level level) {
    static const char *const names[FW_LEVEL_N] = {"?", "X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    return (unsigned)level < FW_LEVEL_N ? names[level] : "?";
}

const char *fw_machine_p2p_name(fw_machine_p2p p2p) {
    static const char *const names[FW_P2P_N] = {"?", "OK", "CNS", "GNS", "TNS", "DR", "NS"};
    return (unsigned)p2p < FW_P2P_N ? names[p2p] : "?";
}

const char *fw_machine_pair_text(char out[12], const fw_machine *m, int a, int b) {
    const fw_machine_pair *pair = fw_machine_pair_of(m, a, b);
    if (a != b && pair->nvlink_n > 0)
        snprintf(out, 12, "NV%d", pair->nvlink_n % 1000);
    else
        snprintf(out, 12, "%s", a == b ? "X" : fw_machine_level_name(pair->level));
    return out;
}

/* Transfers a second, times the bits that are data: 8 of 10 up to generation 2, 128 of 130 up to 5, 242 of 256 bytes of
 * generation 6. Source: PCI Express Base Specification. */
double fw_machine_pcie_bytes_per_s(int generation, int width) {
    static const double lane[] = {0,
                                  2.5e9 * 8 / 10 / 8,
                                  5e9 * 8 / 10 / 8,
                                  8e9 * 128 / 130 / 8,
                                  16e9 * 128 / 130 / 8,
                                  32e9 * 128 / 130 / 8,
                                  64e9 * 242 / 256 / 8};
    if (generation < 1 || generation >= (int)(sizeof lane / sizeof *lane) || width < 1) return 0;
    return lane[generation] * width;
}

const fw_machine_setting *fw_machine_find_setting(const fw_machine *m, const char *name) {
    for (int i = 0; i < m->setting_n; i++)
        if (strcmp(m->setting[i].name, name) == 0) return &m->setting[i];
    return NULL;
}

const char *fw_machine_setting_of(const fw_machine *m, const char *name) {
    const fw_machine_setting *setting = fw_machine_find_setting(m, name);
    return setting != NULL ? setting->value : NULL;
}
