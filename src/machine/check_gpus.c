/* The GPUs themselves: who is on them, how they are set, how they are. */
#include "machine/checks.h"

#include "base/plural.h"

#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0

/* ---- processes ---- */

static bool is_leftover(const fw_machine_process *p) { return p->state == 'Z' || p->state == 'D' || p->orphan; }

static fw_status add_process(fw_findings *out, const fw_machine_gpu *g, const fw_machine_process *p) {
    char memory[32] = "";
    if (p->memory_bytes > 0) snprintf(memory, sizeof memory, " with %.1f GiB", (double)p->memory_bytes / GIB);
    if (p->state == 0)
        return fw_finding_add(out, FW_FINDING_WARNING,
                              "it belongs to another container or user, or is a leftover: stop it there, or take other "
                              "GPUs with CUDA_VISIBLE_DEVICES",
                              "GPU %d is used by process %lld%s, which cannot be seen from here", g->index,
                              (long long)p->pid, memory);
    if (is_leftover(p)) {
        char remedy[96];
        snprintf(remedy, sizeof remedy,
                 p->state == 'Z' ? "end the parent of process %lld, which is a zombie" : "kill %lld, if it is yours",
                 (long long)p->pid);
        return fw_finding_add(out, FW_FINDING_WARNING, remedy, "GPU %d holds a leftover: process %lld (%s)%s, %s",
                              g->index, (long long)p->pid, p->name, memory,
                              p->state == 'Z'   ? "a zombie"
                              : p->state == 'D' ? "stuck in the kernel"
                                                : "whose parent has ended");
    }
    return fw_finding_add(out, FW_FINDING_WARNING, "wait for it, or take other GPUs with CUDA_VISIBLE_DEVICES",
                          "GPU %d is busy with process %lld (%s)%s", g->index, (long long)p->pid, p->name, memory);
}

/* Processes that compute on a GPU; memory that is taken without any. */
fw_status fw_check_busy(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int64_t own_bytes = (int64_t)1 << 30; /* driver, display: less than this is nobody's */
    (void)c;
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        const int listed = g->process_n < FW_MACHINE_PROCESS_CAP ? g->process_n : FW_MACHINE_PROCESS_CAP;
        for (int k = 0; k < listed && g->process[k].pid > 0; k++) FW_TRY(add_process(out, g, &g->process[k]));
        if (g->process_n > FW_MACHINE_PROCESS_CAP)
            FW_TRY(fw_finding_add(out, FW_FINDING_WARNING, "nvidia-smi lists them",
                                  "GPU %d is used by %d processes in all", g->index, g->process_n));
        if (g->process_n <= 0 && g->memory_used_bytes >= own_bytes)
            FW_TRY(fw_finding_add(out, FW_FINDING_WARNING,
                                  "something outside of this container, or a leftover of the driver: nvidia-smi on the "
                                  "host tells more; a GPU that nobody uses can be reset (nvidia-smi --gpu-reset)",
                                  "GPU %d has %.1f GiB taken and no process that can be seen", g->index,
                                  (double)g->memory_used_bytes / GIB));
    }
    return FW_OK;
}

/* ---- settings of GPUs ---- */

static uint64_t bit(int i) { return (uint64_t)1 << i; }

/* A compute mode that lets nobody in, MIG, GPUs of different kinds. */
fw_status fw_check_modes(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    uint64_t prohibited = 0, taken = 0, mig = 0, other = 0;
    char gpus[FW_GPU_SET_BYTES];
    (void)c;
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        const bool exclusive =
            g->compute_mode == FW_COMPUTE_EXCLUSIVE_PROCESS || g->compute_mode == FW_COMPUTE_EXCLUSIVE_THREAD;
        if (g->compute_mode == FW_COMPUTE_PROHIBITED) prohibited |= bit(i);
        if (exclusive && g->process_n > 0) taken |= bit(i);
        if (g->mig == 1) mig |= bit(i);
        if (strcmp(g->name, m->gpu[0].name) != 0 || g->memory_bytes != m->gpu[0].memory_bytes) other |= bit(i);
    }
    if (prohibited != 0)
        FW_TRY(fw_finding_add(out, FW_FINDING_BROKEN, "nvidia-smi -c DEFAULT, as root",
                              "%s: compute mode \"prohibited\", no program may use it",
                              fw_gpu_set_text(gpus, m, prohibited)));
    if (taken != 0)
        FW_TRY(fw_finding_add(out, FW_FINDING_BROKEN, "wait for that process, or nvidia-smi -c DEFAULT, as root",
                              "%s: compute mode \"exclusive\", and a process has it", fw_gpu_set_text(gpus, m, taken)));
    if (mig != 0)
        FW_TRY(fw_finding_add(out, FW_FINDING_WARNING,
                              "nvidia-smi -mig 0, as root, gives whole GPUs; a rank takes one instance at most, and "
                              "instances have no peer access",
                              "%s: cut into instances (MIG)", fw_gpu_set_text(gpus, m, mig)));
    if (other == 0) return FW_OK;
    return fw_finding_add(out, FW_FINDING_WARNING,
                          "all ranks wait for the slowest and plan for the smallest: take equal ones with "
                          "CUDA_VISIBLE_DEVICES",
                          "%s: of another kind or memory than GPU %d (%s)", fw_gpu_set_text(gpus, m, other),
                          m->gpu[0].index, m->gpu[0].name);
}

/* ---- health ---- */

static int most_links(const fw_machine *m, const char *name) {
    int most = 0;
    for (int i = 0; i < m->gpu_n; i++)
        if (strcmp(m->gpu[i].name, name) == 0 && m->gpu[i].nvlink_n > most) most = m->gpu[i].nvlink_n;
    return most;
}

static fw_status add_set(fw_findings *out, const fw_machine *m, uint64_t set, fw_finding_level level, const char *text,
                         const char *remedy) {
    char gpus[FW_GPU_SET_BYTES];
    return set == 0 ? FW_OK : fw_finding_add(out, level, remedy, "%s: %s", fw_gpu_set_text(gpus, m, set), text);
}

/* Memory errors, throttling by heat or power, NVLinks that are down, a fabric that is not set up. */
fw_status fw_check_health(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int64_t heat = FW_THROTTLE_SW_THERMAL | FW_THROTTLE_HW_THERMAL;
    uint64_t ecc = 0, hot = 0, power = 0, links = 0, fabric = 0;
    (void)c;
    for (int i = 0; i < m->gpu_n; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        if (g->ecc_uncorrected_n > 0) ecc |= bit(i);
        if (g->throttle_reasons > 0 && (g->throttle_reasons & heat) != 0) hot |= bit(i);
        if (g->throttle_reasons > 0 && (g->throttle_reasons & FW_THROTTLE_POWER_BRAKE) != 0) power |= bit(i);
        if (g->nvlink_n >= 0 && g->nvlink_n < most_links(m, g->name)) links |= bit(i);
        if (g->fabric_state == 1 || g->fabric_state == 2) fabric |= bit(i);
    }
    FW_TRY(add_set(out, m, ecc, FW_FINDING_WARNING, "errors of memory that could not be corrected",
                   "reset the GPU (nvidia-smi --gpu-reset); if they come back, have the card replaced"));
    FW_TRY(add_set(out, m, hot, FW_FINDING_WARNING, "slowed down by heat", "see to fans, air and temperature"));
    FW_TRY(add_set(out, m, power, FW_FINDING_WARNING, "slowed down by the power supply (power brake)",
                   "see to power cables and supplies"));
    FW_TRY(add_set(out, m, links, FW_FINDING_WARNING, "fewer NVLinks are up than on other GPUs of the kind",
                   "nvidia-smi nvlink --status shows which; reset the GPUs, reseat the bridge"));
    return add_set(out, m, fabric, FW_FINDING_BROKEN, "the NVSwitch fabric is not set up: CUDA does not start",
                   "start the fabric manager (systemctl start nvidia-fabricmanager) of the driver's very version");
}
