/* What is said of the machine at the start: which way data goes between ranks, and which variables change what NCCL does.
 * NCCL listens to many, and an inherited one can make a job several times slower without a word. */
#include "comm/nccl/nccl_internal.h"

#include "base/log.h"
#include "machine/nccl_ways.h"
#include "machine/settings.h"

#include <stdio.h>

int fw_nccl_warn_settings(const fw_machine *m, double bytes_per_s) {
    int warned_n = 0;
    for (size_t i = 0; fw_setting_rule_at(i) != NULL; i++) {
        const fw_machine_setting *set = fw_machine_find_setting(m, fw_setting_rule_at(i)->variable);
        const fw_setting_rule *rule = set != NULL ? fw_setting_rule_of(set->name, set->value) : NULL;
        if (rule == NULL || rule->harm == FW_SETTING_TELLS) continue;
        fw_log_warning(
            "%s=%.60s is set in %s: %s; with it an all_reduce of 16 MiB moves %.1f GB/s; unset it unless you "
            "mean it",
            set->name, set->value, set->file != NULL ? set->file : "the environment", rule->effect, bytes_per_s / 1e9);
        warned_n++;
    }
    return warned_n;
}

fw_status fw_nccl_ways_of_ranks(fw_strbuf *out, const fw_machine *m, const char (*pci_id)[FW_MACHINE_PCI_BYTES],
                                int rank_n) {
    int gpu[FW_COMM_MAX_WORLD], known_n = 0;
    for (int r = 0; r < rank_n; r++) {
        gpu[r] = fw_machine_find_gpu(m, pci_id[r]);
        known_n += gpu[r] >= 0;
    }
    return known_n == 0 ? FW_OK : fw_nccl_ways_text(out, m, gpu, rank_n);
}
