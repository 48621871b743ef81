/* Tables in the words of nvidia-smi topo -m: people know how to read them. */
#include "cli/topo_text.h"

#include "base/plural.h"
#include "cli/terminal.h"
#include "machine/nccl_ways.h"

#include <stdio.h>
#include <string.h>

static const char *number_or(char out[24], int64_t value) {
    if (value < 0)
        snprintf(out, 24, "?");
    else
        snprintf(out, 24, "%lld", (long long)value);
    return out;
}
static const char *text_or(const char *text, const char *otherwise) { return text[0] != 0 ? text : otherwise; }

/* ---- what this is ---- */

static fw_status add_gpu_kinds(fw_strbuf *text, const fw_machine *m) {
    char size[FW_HUMAN_BYTES];
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        int n = 0;
        bool seen = false;
        for (int k = 0; k < m->gpu_n; k++)
            if (strcmp(m->gpu[k].name, g->name) == 0 && m->gpu[k].memory_bytes == g->memory_bytes) {
                seen = seen || k < i;
                n++;
            }
        if (seen) continue;
        FW_TRY(fw_strbuf_printf(text, "GPUs      %d x %s", n, text_or(g->name, "unknown")));
        if (g->memory_bytes > 0) FW_TRY(fw_strbuf_printf(text, ", %s", fw_human_size(size, (uint64_t)g->memory_bytes)));
        if (g->compute_major > 0)
            FW_TRY(fw_strbuf_printf(text, ", compute capability %d.%d", g->compute_major, g->compute_minor));
        FW_TRY(fw_strbuf_putc(text, '\n'));
    }
    return FW_OK;
}

static fw_status add_driver(fw_strbuf *text, const fw_machine *m) {
    static const char *const states[] = {"there is none", "", "library and kernel module are of different versions",
                                         "it gives an error"};
    const fw_machine_driver *d = &m->driver;
    if (d->state != FW_DRIVER_OK) {
        FW_TRY(fw_strbuf_printf(text, "driver    %s", states[d->state]));
        if (d->error[0] != 0) FW_TRY(fw_strbuf_printf(text, " (%s)", d->error));
        if (d->pci_gpu_n > 0)
            FW_TRY(fw_strbuf_printf(text, ", but %d NVIDIA GPU%s in the PCI list", d->pci_gpu_n,
                                    d->pci_gpu_n == 1 ? " is" : "s are"));
        return fw_strbuf_putc(text, '\n');
    }
    FW_TRY(fw_strbuf_printf(text, "driver    %s", text_or(d->version, "of unknown version")));
    if (d->cuda_version > 0)
        FW_TRY(fw_strbuf_printf(text, ", up to CUDA %d.%d", d->cuda_version / 1000, d->cuda_version % 1000 / 10));
    return fw_strbuf_printf(text, "%s\n", m->gpu_n == 0 ? ", no GPU" : "");
}

static fw_status add_head(fw_strbuf *text, const fw_machine *m) {
    FW_TRY(fw_strbuf_printf(text, "host      %s", text_or(m->host_name, "?")));
    if (m->container[0] != 0) FW_TRY(fw_strbuf_printf(text, ", in a container (%s)", m->container));
    if (m->virtual_machine[0] != 0) FW_TRY(fw_strbuf_printf(text, ", virtual (%s)", m->virtual_machine));
    FW_TRY(fw_strbuf_putc(text, '\n'));
    FW_TRY(add_driver(text, m));
    return add_gpu_kinds(text, m);
}

/* ---- links ---- */

static void gpu_label(char out[16], const fw_machine *m, int g) { snprintf(out, 16, "GPU%d", m->gpu[g].index % 1000); }
static void nic_label(char out[16], int nic) { snprintf(out, 16, "NIC%d", nic); }
static bool is_shown(const fw_machine_nic *nic) { return nic->rdma; } /* plain ones have a list of their own */

static fw_status add_matrix(fw_strbuf *text, const fw_machine *m) {
    char label[16], word[12], node[24];
    int widest = 4;
    for (int i = 0; i < m->gpu_n; i++)
        if ((int)strlen(m->gpu[i].cpus) > widest) widest = (int)strlen(m->gpu[i].cpus);
    FW_TRY(fw_strbuf_printf(text, "\n%-6s", ""));
    for (int b = 0; b < m->gpu_n; b++) {
        gpu_label(label, m, b);
        FW_TRY(fw_strbuf_printf(text, " %-5s", label));
    }
    for (int n = 0; n < m->nic_n; n++) {
        nic_label(label, n);
        if (is_shown(&m->nic[n])) FW_TRY(fw_strbuf_printf(text, " %-5s", label));
    }
    FW_TRY(fw_strbuf_printf(text, "  %-*s  NUMA\n", widest, "CPUs"));
    for (int a = 0; a < m->gpu_n; a++) {
        gpu_label(label, m, a);
        FW_TRY(fw_strbuf_printf(text, "%-6s", label));
        for (int b = 0; b < m->gpu_n; b++) FW_TRY(fw_strbuf_printf(text, " %-5s", fw_machine_pair_text(word, m, a, b)));
        for (int n = 0; n < m->nic_n; n++)
            if (is_shown(&m->nic[n]))
                FW_TRY(fw_strbuf_printf(text, " %-5s", fw_machine_level_name(m->nic_level[n * m->gpu_n + a])));
        FW_TRY(fw_strbuf_printf(text, "  %-*s  %s\n", widest, text_or(m->gpu[a].cpus, "?"),
                                number_or(node, m->gpu[a].numa)));
    }
    return FW_OK;
}

static const char *const legend[FW_LEVEL_N] = {[FW_LEVEL_UNKNOWN] = "not known",
                                               [FW_LEVEL_PIX] = "over one PCIe switch at most",
                                               [FW_LEVEL_PXB] = "over several PCIe switches, not through the CPU",
                                               [FW_LEVEL_PHB] = "through the PCIe host bridge of the CPU",
                                               [FW_LEVEL_NODE] = "through several host bridges of one NUMA node",
                                               [FW_LEVEL_SYS] = "through the link between NUMA nodes, the slowest"};

/* Only the words that stand in the table. */
static fw_status add_legend(fw_strbuf *text, const fw_machine *m) {
    bool seen[FW_LEVEL_N] = {false}, nvlink = false, nvswitch = false;
    for (int a = 0; a < m->gpu_n; a++) {
        for (int b = 0; b < m->gpu_n; b++) {
            const fw_machine_pair *pair = fw_machine_pair_of(m, a, b);
            if (a == b) continue;
            if (pair->nvlink_n == 0) seen[pair->level] = true;
            nvlink = nvlink || pair->nvlink_n > 0;
            nvswitch = nvswitch || pair->nvswitch;
        }
        for (int n = 0; n < m->nic_n; n++)
            if (is_shown(&m->nic[n])) seen[m->nic_level[n * m->gpu_n + a]] = true;
    }
    FW_TRY(fw_strbuf_putc(text, '\n'));
    if (nvlink)
        FW_TRY(fw_strbuf_printf(text, "  NV#   over so many NVLinks%s\n", nvswitch ? ", through a switch" : ""));
    for (int level = FW_LEVEL_PIX; level < FW_LEVEL_N; level++)
        if (seen[level])
            FW_TRY(
                fw_strbuf_printf(text, "  %-4s  %s\n", fw_machine_level_name((fw_machine_level)level), legend[level]));
    return seen[FW_LEVEL_UNKNOWN] ? fw_strbuf_printf(text, "  ?     %s\n", legend[FW_LEVEL_UNKNOWN]) : FW_OK;
}

/* ---- peer access ---- */

static const char *const p2p_legend[FW_P2P_N] = {"the driver does not say",
                                                 "",
                                                 "the chipset does not allow it",
                                                 "the GPU or its driver does not allow it",
                                                 "the GPUs are too far apart",
                                                 "switched off by a setting of the driver",
                                                 "not supported"};

static fw_status add_p2p(fw_strbuf *text, const fw_machine *m) {
    bool seen[FW_P2P_N] = {false};
    char label[16], word[12];
    int pair_n = 0, good_n = 0;
    for (int i = 0; i < m->gpu_n * m->gpu_n; i++) {
        if (i % (m->gpu_n + 1) == 0) continue;
        pair_n++;
        good_n += m->pair[i].read == FW_P2P_OK && m->pair[i].write == FW_P2P_OK;
        seen[m->pair[i].read] = seen[m->pair[i].write] = true;
    }
    if (good_n == pair_n)
        return fw_strbuf_puts(text, "\npeer access: every GPU reads and writes every other's memory\n");
    FW_TRY(fw_strbuf_printf(text, "\npeer access (read/write)\n%-6s", ""));
    for (int b = 0; b < m->gpu_n; b++) {
        gpu_label(label, m, b);
        FW_TRY(fw_strbuf_printf(text, " %-7s", label));
    }
    for (int a = 0; a < m->gpu_n; a++) {
        gpu_label(label, m, a);
        FW_TRY(fw_strbuf_printf(text, "\n%-6s", label));
        for (int b = 0; b < m->gpu_n; b++) {
            const fw_machine_pair *pair = fw_machine_pair_of(m, a, b);
            if (a == b || pair->read == pair->write)
                snprintf(word, sizeof word, "%s", a == b ? "X" : fw_machine_p2p_name(pair->read));
            else
                snprintf(word, sizeof word, "%s/%s", fw_machine_p2p_name(pair->read), fw_machine_p2p_name(pair->write));
            FW_TRY(fw_strbuf_printf(text, " %-7s", word));
        }
    }
    FW_TRY(fw_strbuf_puts(text, "\n\n"));
    for (int i = 0; i < FW_P2P_N; i++)
        if (seen[i] && i != FW_P2P_OK)
            FW_TRY(fw_strbuf_printf(text, "  %-4s  %s\n", fw_machine_p2p_name((fw_machine_p2p)i), p2p_legend[i]));
    return FW_OK;
}

/* What NCCL makes of it. */
static fw_status add_ways(fw_strbuf *text, const fw_machine *m) {
    int gpu[FW_MACHINE_GPU_CAP];
    for (int i = 0; i < m->gpu_n; i++) gpu[i] = i;
    FW_TRY(fw_strbuf_puts(text, "\nNCCL's data goes, by its rules: "));
    FW_TRY(fw_nccl_ways_text(text, m, gpu, m->gpu_n));
    return fw_strbuf_putc(text, '\n');
}

/* ---- PCIe ---- */

static fw_status add_pcie(fw_strbuf *text, const fw_machine *m) {
    FW_TRY(fw_strbuf_printf(text, "\n%-6s %-13s %-16s %-11s %s\n", "", "PCI bus id", "generation (max)", "lanes (max)",
                            "one way, at most"));
    bool lower = false;
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        char label[16], gen[24], gen_max[24], width[24], width_max[24], generation[56], lanes[56], rate[32] = "?";
        gpu_label(label, m, i);
        snprintf(generation, sizeof generation, "%s (%s)", number_or(gen, g->pcie_gen),
                 number_or(gen_max, g->pcie_gen_max));
        snprintf(lanes, sizeof lanes, "%s (%s)", number_or(width, g->pcie_width),
                 number_or(width_max, g->pcie_width_max));
        lower = lower || (g->pcie_gen > 0 && g->pcie_gen < g->pcie_gen_max);
        const double bytes_per_s = fw_machine_pcie_bytes_per_s(g->pcie_gen_max, g->pcie_width);
        if (bytes_per_s > 0) snprintf(rate, sizeof rate, "%.1f GB/s", bytes_per_s / 1e9);
        FW_TRY(fw_strbuf_printf(text, "%-6s %-13s %-16s %-11s %s\n", label, text_or(g->pci_id, "?"), generation, lanes,
                                rate));
    }
    return lower ? fw_strbuf_puts(text, "An idle GPU lowers the generation, never the lanes; under load it must be the "
                                        "highest.\n")
                 : FW_OK;
}

/* ---- network, CPU ---- */

static fw_status add_nics(fw_strbuf *text, const fw_machine *m) {
    char label[16], node[24];
    if (m->nic_n == 0) return fw_strbuf_puts(text, "\nnetwork   no card\n");
    FW_TRY(fw_strbuf_puts(text, "\nnetwork\n"));
    for (int n = 0; n < m->nic_n; n++) {
        const fw_machine_nic *nic = &m->nic[n];
        nic_label(label, n);
        FW_TRY(fw_strbuf_printf(text, "%-6s %-14s %-13s %-10s %-7s", is_shown(nic) ? label : "", nic->name,
                                text_or(nic->pci_id, "virtual"), text_or(nic->layer, "?"), text_or(nic->state, "?")));
        if (nic->gbit_per_s > 0) FW_TRY(fw_strbuf_printf(text, " %g Gbit/s", nic->gbit_per_s));
        if (nic->rdma) FW_TRY(fw_strbuf_puts(text, ", RDMA"));
        if (nic->numa >= 0) FW_TRY(fw_strbuf_printf(text, ", NUMA node %s", number_or(node, nic->numa)));
        FW_TRY(fw_strbuf_putc(text, '\n'));
    }
    return FW_OK;
}

static fw_status add_size(fw_strbuf *text, const char *before, int64_t bytes, const char *after) {
    char size[FW_HUMAN_BYTES];
    return bytes < 0 ? FW_OK : fw_strbuf_printf(text, "%s%s%s", before, fw_human_size(size, (uint64_t)bytes), after);
}

static fw_status add_features(fw_strbuf *text, unsigned features) {
    static const char *const words[] = {"AVX2", "AVX-512", "AVX-512 bf16", "AMX bf16", "NEON", "bf16", "SVE"};
    FW_TRY(fw_strbuf_puts(text, "          "));
    for (int i = 0; i < 7; i++)
        if (features & 1u << i)
            FW_TRY(fw_strbuf_printf(text, "%s%s", (features & ((1u << i) - 1)) != 0 ? ", " : "", words[i]));
    return fw_strbuf_puts(text, features == 0 ? "no instructions that finewire has code for\n" : "\n");
}

static fw_status add_cpu(fw_strbuf *text, const fw_machine *m) {
    const fw_machine_cpu *c = &m->cpu;
    char number[24];
    FW_TRY(fw_strbuf_printf(text, "\nCPU       %s\n          ", text_or(c->model, text_or(c->arch, "?"))));
    if (c->core_n > 0)
        FW_TRY(fw_strbuf_printf(text, "%d core%s on %s socket%s, ", c->core_n, fw_plural(c->core_n),
                                number_or(number, c->socket_n), fw_plural(c->socket_n)));
    FW_TRY(fw_strbuf_printf(text, "%s threads", number_or(number, c->thread_n)));
    if (c->usable_n > 0 && c->usable_n != c->thread_n)
        FW_TRY(fw_strbuf_printf(text, ", %d for this process", c->usable_n));
    if (c->quota_cpus > 0) FW_TRY(fw_strbuf_printf(text, ", %.1f by the control group", c->quota_cpus));
    FW_TRY(fw_strbuf_putc(text, '\n'));
    if (c->l1d_bytes > 0 || c->l2_bytes > 0) {
        FW_TRY(fw_strbuf_puts(text, "          caches:"));
        FW_TRY(add_size(text, " L1 ", c->l1d_bytes, ""));
        FW_TRY(add_size(text, ", L2 ", c->l2_bytes, " a core"));
        if (c->l3_bytes > 0) FW_TRY(fw_strbuf_printf(text, ", %s x", number_or(number, c->l3_n)));
        FW_TRY(add_size(text, " L3 ", c->l3_bytes, ""));
        FW_TRY(fw_strbuf_putc(text, '\n'));
    }
    FW_TRY(add_features(text, c->features));
    for (int i = 0; i < m->numa_n; i++) {
        FW_TRY(fw_strbuf_printf(text, "NUMA %-4d CPUs %s", m->numa[i].node, text_or(m->numa[i].cpus, "none")));
        FW_TRY(add_size(text, ", ", m->numa[i].memory_bytes, ""));
        FW_TRY(add_size(text, " (", m->numa[i].memory_free_bytes, " free)"));
        FW_TRY(fw_strbuf_putc(text, '\n'));
    }
    FW_TRY(add_size(text, "memory    ", m->memory_bytes, ""));
    FW_TRY(add_size(text, ", ", m->memory_available_bytes, " can be had"));
    FW_TRY(add_size(text, ", limit of the control group ", m->memory_limit_bytes, ""));
    FW_TRY(add_size(text, "\n/dev/shm  ", m->shm_bytes, ""));
    FW_TRY(add_size(text, " (", m->shm_free_bytes, " free)"));
    return fw_strbuf_putc(text, '\n');
}

/* ---- */

/* Cells are padded; what that leaves at the ends of lines goes. */
static void trim_lines(fw_strbuf *text) {
    size_t to = 0;
    for (size_t from = 0; from < text->len_bytes; from++) {
        if (text->data[from] == '\n')
            while (to > 0 && text->data[to - 1] == ' ') to--;
        text->data[to++] = text->data[from];
    }
    text->len_bytes = to;
    if (text->data != NULL) text->data[to] = 0;
}

static fw_status add_all(fw_strbuf *text, const fw_machine *m) {
    FW_TRY(add_head(text, m));
    if (m->gpu_n > 0) {
        FW_TRY(add_matrix(text, m));
        if (m->gpu_n > 1 || m->nic_n > 0) FW_TRY(add_legend(text, m));
        if (m->gpu_n > 1) FW_TRY(add_p2p(text, m));
        if (m->gpu_n > 1) FW_TRY(add_ways(text, m));
        FW_TRY(add_pcie(text, m));
    }
    FW_TRY(add_nics(text, m));
    return add_cpu(text, m);
}

fw_status fw_topo_text(fw_strbuf *text, const fw_machine *m) {
    FW_TRY(add_all(text, m));
    trim_lines(text);
    return FW_OK;
}
