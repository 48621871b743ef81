/* Between hosts: cards, names, clocks; and the settings of NCCL and CUDA. */
#include "machine/checks.h"

#include "machine/settings.h"

#include <stdio.h>
#include <string.h>

/* ---- settings ---- */

static bool has_card(const fw_machine *m, const char *name, size_t name_n) {
    for (int i = 0; i < m->nic_n; i++)
        if (strncmp(m->nic[i].name, name, name_n) == 0) return true; /* the list holds beginnings of names */
    return false;
}

/* "eth0,ib" with no card of such a name; "=eth0" is exact, "^docker" excludes. */
static bool names_no_card(const fw_machine *m, const char *value) {
    if (value[0] == '^' || m->nic_n == 0) return false;
    value += value[0] == '=';
    while (*value != 0) {
        const size_t n = strcspn(value, ",:");
        if (n > 0 && has_card(m, value, n)) return false;
        value += n;
        value += strcspn(value, ",");
        value += *value == ',';
    }
    return true;
}

static fw_status check_visible(fw_findings *out, const fw_machine *m) {
    const char *value = fw_machine_setting_of(m, "CUDA_VISIBLE_DEVICES");
    if (value == NULL || m->gpu_n == 0) return FW_OK;
    if (value[0] == 0 || strcmp(value, "-1") == 0 || strcmp(value, "NoDevFiles") == 0)
        return fw_finding_add(out, FW_FINDING_BROKEN, "unset CUDA_VISIBLE_DEVICES, or name GPUs",
                              "CUDA_VISIBLE_DEVICES=%s hides every GPU from programs", value);
    int shown_n = 1;
    for (const char *at = value; *at != 0; at++) shown_n += *at == ',';
    if (shown_n >= m->gpu_n) return FW_OK;
    return fw_finding_add(out, FW_FINDING_NOTE, "unset it to use all",
                          "CUDA_VISIBLE_DEVICES=%.60s: programs see %d of %d GPUs", value, shown_n, m->gpu_n);
}

/* Every variable of the table that changes something; names of cards that are not there; GPUs that are hidden. */
fw_status fw_check_environment(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    static const fw_finding_level levels[] = {FW_FINDING_NOTE, FW_FINDING_WARNING, FW_FINDING_WARNING};
    (void)c;
    FW_TRY(check_visible(out, m));
    for (size_t i = 0; fw_setting_rule_at(i) != NULL; i++) {
        const char *variable = fw_setting_rule_at(i)->variable, *value = fw_machine_setting_of(m, variable);
        const char *file = value != NULL ? fw_machine_find_setting(m, variable)->file : NULL;
        const fw_setting_rule *rule = fw_setting_rule_of(variable, value);
        if (rule == NULL || strcmp(variable, "CUDA_VISIBLE_DEVICES") == 0) continue;
        if (strcmp(variable, "NCCL_SOCKET_IFNAME") == 0 && names_no_card(m, value)) {
            FW_TRY(fw_finding_add(out, c->other_hosts ? FW_FINDING_BROKEN : FW_FINDING_WARNING,
                                  "unset it, or name a card that finewire topo lists",
                                  "NCCL_SOCKET_IFNAME=%.60s names no card of this machine", value));
            continue;
        }
        char remedy[96];
        snprintf(remedy, sizeof remedy, "%s %s unless you mean it", file != NULL ? "take out" : "unset", variable);
        FW_TRY(fw_finding_add(out, levels[rule->harm], remedy, "%s=%.60s%s%s%s: %s", variable, value,
                              file != NULL ? " (in " : "", file != NULL ? file : "", file != NULL ? ")" : "",
                              rule->effect));
    }
    return FW_OK;
}

/* ---- cards ---- */

/* RDMA cards that are down; none at all, which matters between hosts; slow ones. */
fw_status fw_check_network(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    int active_n = 0;
    double best_rdma = 0, best_plain = 0;
    const char *plain = "", *rdma = "";
    for (int i = 0; i < m->nic_n; i++) {
        const fw_machine_nic *nic = &m->nic[i];
        if (nic->rdma && strcmp(nic->state, "ACTIVE") != 0) {
            FW_TRY(fw_finding_add(out, c->other_hosts ? FW_FINDING_WARNING : FW_FINDING_NOTE,
                                  "look at cable, switch and subnet manager (ibstat); NCCL_IB_HCA leaves it out",
                                  "%s is %s", nic->name, nic->state[0] != 0 ? nic->state : "in an unknown state"));
            continue;
        }
        active_n += nic->rdma;
        double *best = nic->rdma ? &best_rdma : &best_plain;
        if (nic->gbit_per_s > *best) {
            *best = nic->gbit_per_s;
            *(nic->rdma ? &rdma : &plain) = nic->name;
        }
    }
    if (active_n > 0)
        return fw_finding_add(out, FW_FINDING_NOTE, "nothing to do",
                              "%d RDMA card%s of up to %g Gbit/s (%s) between hosts", active_n,
                              active_n == 1 ? "" : "s", best_rdma, rdma);
    if (m->gpu_n == 0 && !c->other_hosts) return FW_OK;
    return fw_finding_add(
        out, c->other_hosts ? FW_FINDING_WARNING : FW_FINDING_NOTE,
        c->other_hosts ? "expect traffic to take long: accumulate gradients, and use --strategy hsdp with "
                         "groups of one host"
                       : "jobs on this host alone do not need one",
        "no InfiniBand or RoCE: hosts talk through sockets%s%s", plain[0] != 0 ? " over " : "", plain);
}

/* ---- names and clocks ---- */

/* Names that lead nowhere, or only back to this host: ranks of other hosts would not find it. */
fw_status fw_check_hosts(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    for (int i = 0; i < m->host_n; i++) {
        const fw_machine_host *h = &m->host[i];
        const fw_finding_level level = i > 0            ? FW_FINDING_BROKEN
                                       : c->other_hosts ? FW_FINDING_WARNING
                                                        : FW_FINDING_NOTE;
        if (h->error[0] != 0)
            FW_TRY(fw_finding_add(out, level, "enter it in DNS or in /etc/hosts of every host, or use addresses",
                                  "the name %s of %s host is not known: %s", h->name, i > 0 ? "another" : "this",
                                  h->error));
        else if (h->only_loopback)
            FW_TRY(fw_finding_add(out, level,
                                  "in /etc/hosts give it the address that others see; a single host works as it is",
                                  "the name %s leads to %s, which is this host alone", h->name, h->addresses));
    }
    return FW_OK;
}

/* Clocks that run apart: certificates, logs and time limits of several hosts do not fit together. */
fw_status fw_check_clock(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    if (m->clock_synchronised != 0) return FW_OK;
    return fw_finding_add(out, c->other_hosts ? FW_FINDING_WARNING : FW_FINDING_NOTE,
                          m->container[0] != 0 || m->virtual_machine[0] != 0
                              ? "run chrony or systemd-timesyncd; in containers and virtual machines: on the host"
                              : "run chrony or systemd-timesyncd (timedatectl set-ntp true)",
                          "the clock is not kept right by anything the kernel knows of");
}
