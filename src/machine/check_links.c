/* What joins the GPUs: peer access, PCIe links, and what stands in the way of peers. */
#include "machine/checks.h"

#include <stdio.h>
#include <string.h>

static uint64_t bit(int i) { return (uint64_t)1 << i; }

/* ---- peer access ---- */

static const struct {
    const char *what, *remedy;
} refusals[FW_P2P_N] = {
    [FW_P2P_CHIPSET] =
        {"the chipset does not allow it",
         "NCCL goes through memory of the host: choose a strategy with little traffic (finewire plan), or "
         "put the cards below one PCIe switch"},
    [FW_P2P_GPU] = {"the GPU or its driver does not allow it, as with GeForce cards",
                    "NCCL goes through memory of the host: choose a strategy with little traffic, and accumulate "
                    "gradients (finewire plan)"},
    [FW_P2P_TOPOLOGY] = {"they are too far apart",
                         "take GPUs of one NUMA node with CUDA_VISIBLE_DEVICES, if they suffice"},
    [FW_P2P_DISABLED] = {"a setting of the driver has switched it off",
                         "look for NVreg_RegistryDwords in /etc/modprobe.d and take it out"},
    [FW_P2P_NONE] = {"it is not supported",
                     "NCCL goes through memory of the host: choose a strategy with little traffic (finewire plan)"}};

/* "GPUs 0-3" when no pair among them has it, else how many pairs. */
static fw_status add_refusal(fw_findings *out, const fw_machine *m, fw_machine_p2p reason) {
    uint64_t with = 0;
    int pair_n = 0, member_n = 0, first_a = -1, first_b = -1;
    char gpus[FW_GPU_SET_BYTES];
    for (int a = 0; a < m->gpu_n; a++)
        for (int b = a + 1; b < m->gpu_n; b++) {
            const fw_machine_pair *there = fw_machine_pair_of(m, a, b), *back = fw_machine_pair_of(m, b, a);
            if (there->read != reason && there->write != reason && back->read != reason && back->write != reason)
                continue;
            with |= bit(a) | bit(b);
            if (pair_n++ == 0) {
                first_a = m->gpu[a].index;
                first_b = m->gpu[b].index;
            }
        }
    if (pair_n == 0) return FW_OK;
    for (int i = 0; i < m->gpu_n; i++) member_n += (int)(with >> i & 1);
    if (pair_n == member_n * (member_n - 1) / 2)
        return fw_finding_add(out, FW_FINDING_WARNING, refusals[reason].remedy,
                              "%s do not reach each other's memory: %s", fw_gpu_set_text(gpus, m, with),
                              refusals[reason].what);
    return fw_finding_add(out, FW_FINDING_WARNING, refusals[reason].remedy,
                          "%d pairs of GPUs (GPU %d and GPU %d first) do not reach each other's memory: %s", pair_n,
                          first_a, first_b, refusals[reason].what);
}

/* Pairs whose memory the driver does not open to each other; pairs on PCIe that cross NUMA nodes. */
fw_status fw_check_peer(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    int far_n = 0;
    (void)c;
    for (int reason = FW_P2P_OK + 1; reason < FW_P2P_N; reason++) FW_TRY(add_refusal(out, m, (fw_machine_p2p)reason));
    for (int a = 0; a < m->gpu_n; a++)
        for (int b = a + 1; b < m->gpu_n; b++) {
            const fw_machine_pair *pair = fw_machine_pair_of(m, a, b);
            far_n += pair->level == FW_LEVEL_SYS && pair->nvlink_n == 0;
        }
    if (far_n == 0) return FW_OK;
    return fw_finding_add(
        out, FW_FINDING_NOTE,
        "a job that fits on the GPUs of one NUMA node is faster there; --strategy hsdp with groups of "
        "one node sends least across",
        "%d pair%s of GPUs talk%s across the link between NUMA nodes (SYS)", far_n, far_n == 1 ? "" : "s",
        far_n == 1 ? "s" : "");
}

/* ---- PCIe ---- */

/* An idle GPU lowers the generation to save power: only one at work says something. */
static bool is_idle(const fw_machine_gpu *g) {
    if (g->throttle_reasons >= 0 && (g->throttle_reasons & FW_THROTTLE_IDLE) != 0) return true;
    if (g->utilization_percent >= 0) return g->utilization_percent < 10;
    return g->performance_state != 0;
}

static bool below(int value, int most) { return value > 0 && most > 0 && value < most; }

/* The first GPU of the set, for values in a message. */
static const fw_machine_gpu *first_of(const fw_machine *m, uint64_t set) {
    for (int i = 0; i < m->gpu_n; i++)
        if (set >> i & 1) return &m->gpu[i];
    return NULL;
}

static fw_status add_width(fw_findings *out, const fw_machine *m, uint64_t set, bool slot) {
    char gpus[FW_GPU_SET_BYTES];
    if (set == 0) return FW_OK;
    const fw_machine_gpu *g = first_of(m, set);
    const int most = g->card_width_max > 0 ? g->card_width_max : g->pcie_width_max;
    if (slot)
        return fw_finding_add(out, FW_FINDING_WARNING,
                              "move the cards to slots with more lanes, or see in the firmware (BIOS) how lanes are "
                              "divided; accumulate gradients where it must stay so",
                              "%s: %d of %d PCIe lanes, for the slot has no more", fw_gpu_set_text(gpus, m, set),
                              g->pcie_width, most);
    return fw_finding_add(out, FW_FINDING_WARNING,
                          "reseat the card and its riser, clean the contacts, try another slot",
                          "%s: %d of %d PCIe lanes are up", fw_gpu_set_text(gpus, m, set), g->pcie_width, most);
}

/* Fewer lanes than card (and slot) have; a slot of an older generation; a link that is slow under load. */
fw_status fw_check_pcie(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    uint64_t narrow = 0, narrow_slot = 0, old_slot = 0, slow = 0, asleep = 0;
    char gpus[FW_GPU_SET_BYTES];
    (void)c;
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        const int most = g->card_width_max > 0 ? g->card_width_max : g->pcie_width_max;
        const bool slot_is_narrow = below(g->slot_width_max, most) && g->pcie_width == g->slot_width_max;
        if (below(g->pcie_width, most)) *(slot_is_narrow ? &narrow_slot : &narrow) |= bit(i);
        if (below(g->pcie_gen_max, g->card_gen_max)) old_slot |= bit(i);
        if (below(g->pcie_gen, g->pcie_gen_max)) *(is_idle(g) ? &asleep : &slow) |= bit(i);
    }
    FW_TRY(add_width(out, m, narrow, false));
    FW_TRY(add_width(out, m, narrow_slot, true));
    if (old_slot != 0)
        FW_TRY(
            fw_finding_add(out, FW_FINDING_WARNING,
                           "see in the firmware (BIOS) whether the slot is set to an older generation; risers may need "
                           "it",
                           "%s: PCIe generation %d, and the card can do %d", fw_gpu_set_text(gpus, m, old_slot),
                           first_of(m, old_slot)->pcie_gen_max, first_of(m, old_slot)->card_gen_max));
    if (slow != 0)
        FW_TRY(fw_finding_add(out, FW_FINDING_WARNING,
                              "look in dmesg for AER errors; reseat the card and its riser; switch off ASPM in the "
                              "firmware",
                              "%s: PCIe generation %d under load, and %d is possible", fw_gpu_set_text(gpus, m, slow),
                              first_of(m, slow)->pcie_gen, first_of(m, slow)->pcie_gen_max));
    if (asleep == 0) return FW_OK;
    return fw_finding_add(
        out, FW_FINDING_NOTE,
        "GPUs without work lower it by themselves; run finewire doctor again while one trains to be sure",
        "%s: idle at PCIe generation %d of %d", fw_gpu_set_text(gpus, m, asleep), first_of(m, asleep)->pcie_gen,
        first_of(m, asleep)->pcie_gen_max);
}

/* ---- ACS and IOMMU ---- */

/* Is there a pair with peer access over PCIe? NVLink does not go through bridges. */
static bool has_peers_on_pcie(const fw_machine *m) {
    for (int i = 0; i < m->gpu_n * m->gpu_n; i++) {
        const fw_machine_pair *pair = &m->pair[i];
        const bool direct = pair->read == FW_P2P_OK || pair->read == FW_P2P_UNKNOWN;
        if (i % (m->gpu_n + 1) != 0 && pair->nvlink_n == 0 && direct) return true;
    }
    return false;
}

/* Bridges above GPUs that send peer traffic up to the CPU; an IOMMU that translates it. Peers that go through either are
 * slow, or read garbage, or hang. */
fw_status fw_check_acs(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int redirect = FW_ACS_REQUEST_REDIRECT | FW_ACS_COMPLETION_REDIRECT | FW_ACS_UPSTREAM_FORWARDING;
    const bool is_virtual = m->virtual_machine[0] != 0;
    int on_n = 0, hidden_n = 0;
    const char *first = "";
    (void)c;
    if (m->gpu_n < 2 || !has_peers_on_pcie(m)) return FW_OK;
    for (int i = 0; i < m->bridge_n; i++) {
        if (m->bridge[i].acs == FW_MACHINE_UNKNOWN) hidden_n++;
        if (m->bridge[i].acs <= 0 || (m->bridge[i].acs & redirect) == 0) continue;
        if (on_n++ == 0) first = m->bridge[i].pci_id;
    }
    if (on_n > 0)
        FW_TRY(fw_finding_add(
            out, FW_FINDING_WARNING,
            is_virtual
                ? "the host needs ACS on for its virtual machines and cannot switch it off for this one; ask "
                  "whoever runs it for ATS and for GPUs under one switch passed on together, or expect NCCL to go "
                  "through shared memory (NCCL_P2P_DISABLE=1: slower and safe)"
                : "switch ACS off in the firmware (BIOS), or with setpci on each bridge at every boot; "
                  "until then NCCL_P2P_DISABLE=1 is slower and safe",
            "ACS is on in %d bridge%s above the GPUs (%s first): peer access takes the way through the "
            "CPU, and may hang",
            on_n, on_n == 1 ? "" : "s", first));
    if (m->iommu == FW_IOMMU_TRANSLATING && !is_virtual)
        FW_TRY(
            fw_finding_add(out, FW_FINDING_WARNING,
                           "add iommu=pt to the kernel's command line, or switch the IOMMU (VT-d, AMD-Vi) off in the "
                           "firmware",
                           "the IOMMU translates addresses of the GPUs: peer access over PCIe may be slow, or hang"));
    if (hidden_n == 0 || on_n > 0) return FW_OK;
    return fw_finding_add(out, FW_FINDING_NOTE, "run finewire doctor once as root to see",
                          "whether ACS is on cannot be read in %d of %d bridges above the GPUs", hidden_n, m->bridge_n);
}
