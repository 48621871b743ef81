/* Limits of the system and of the container, and the CPU. */
#include "machine/checks.h"

#include "base/plural.h"

#include <stdio.h>
#include <string.h>

#define MIB 1048576.0
#define GIB 1073741824.0

static bool has_rdma(const fw_machine *m) {
    for (int i = 0; i < m->nic_n; i++)
        if (m->nic[i].rdma) return true;
    return false;
}

/* ---- /dev/shm ---- */

/* NCCL puts some MiB a pair of ranks there, and a run does not start without; containers have 64 MiB. finewire's own
 * memory of ranks is a memfd, which is not counted. */
fw_status fw_check_shm(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int64_t per_gpu_bytes = (int64_t)64 << 20, container_bytes = (int64_t)64 << 20;
    static const char *const remedies[] = {
        "mount -o remount,size=8G /dev/shm, as root",
        "start the container with --shm-size=8g or --ipc=host",
        "give the pod an emptyDir with medium: Memory at /dev/shm",
    };
    const char *remedy = remedies[strcmp(m->container, "kubernetes") == 0 ? 2 : m->container[0] != 0];
    (void)c;
    if (m->gpu_n < 2 || m->shm_bytes < 0) return FW_OK;
    if (m->shm_bytes <= container_bytes || m->shm_bytes < m->gpu_n * per_gpu_bytes)
        return fw_finding_add(
            out, FW_FINDING_WARNING, remedy,
            "/dev/shm has %.0f MiB: NCCL needs more for %d GPUs, and ends with \"unhandled system error\"",
            (double)m->shm_bytes / MIB, m->gpu_n);
    if (m->shm_free_bytes < 0 || m->shm_free_bytes >= m->gpu_n * per_gpu_bytes) return FW_OK;
    return fw_finding_add(
        out, FW_FINDING_WARNING, "remove what ended jobs have left there (ls -l /dev/shm), if it is yours",
        "/dev/shm is full: %.0f of %.0f MiB are free", (double)m->shm_free_bytes / MIB, (double)m->shm_bytes / MIB);
}

/* ---- limits ---- */

/* Network cards need their buffers locked in memory; CUDA's pinned memory does not count. */
fw_status fw_check_memlock(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int64_t needed_bytes = (int64_t)1 << 30;
    if (m->memlock_bytes < 0 || m->memlock_bytes >= needed_bytes || (m->gpu_n == 0 && !c->other_hosts)) return FW_OK;
    const char *remedy =
        m->container[0] != 0 ? "start the container with --ulimit memlock=-1"
        : m->memlock_hard_bytes >= needed_bytes
            ? "ulimit -l unlimited"
            : "set memlock to unlimited in /etc/security/limits.conf (LimitMEMLOCK of a service), and log "
              "in again";
    return fw_finding_add(out, has_rdma(m) ? FW_FINDING_WARNING : FW_FINDING_NOTE, remedy,
                          "only %.3g MiB of memory may be locked: InfiniBand and RoCE need more%s",
                          (double)m->memlock_bytes / MIB, has_rdma(m) ? "" : " (there is no such card here)");
}

/* Sockets between ranks, shards of the model, plugins: a few hundred files a rank. */
fw_status fw_check_files(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const int64_t needed_n = m->gpu_n > 2 || c->other_hosts ? 4096 : 1024;
    if (m->nofile_n < 0 || m->nofile_n >= needed_n) return FW_OK;
    char remedy[128];
    if (m->nofile_hard_n >= needed_n)
        snprintf(remedy, sizeof remedy, "ulimit -n %lld before the start",
                 (long long)(m->nofile_hard_n < 65536 ? m->nofile_hard_n : 65536));
    else
        snprintf(remedy, sizeof remedy,
                 "raise nofile in /etc/security/limits.conf, or --ulimit nofile=65536 of the container");
    return fw_finding_add(out, FW_FINDING_WARNING, remedy,
                          "a process may open only %lld files; a job here may need %lld", (long long)m->nofile_n,
                          (long long)needed_n);
}

/* ---- disk ---- */

/* Room for the checkpoints that stay (and the one that is written before the oldest goes) and for the final model. */
fw_status fw_check_disk(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    (void)m;
    if (c->output_dir == NULL || c->disk_free_bytes < 0) return FW_OK;
    const double free_gib = (double)c->disk_free_bytes / GIB;
    if (c->checkpoint_bytes <= 0) {
        const int64_t little_bytes = (int64_t)20 << 30;
        if (c->disk_free_bytes >= little_bytes) return FW_OK;
        return fw_finding_add(out, FW_FINDING_WARNING,
                              "free some space, or choose another --output_dir; with --model or a recipe the size of a "
                              "checkpoint is told",
                              "%s: %.1f GiB free", c->output_dir, free_gib);
    }
    const double one_gib = (double)c->checkpoint_bytes / GIB, model_gib = (double)c->model_bytes / GIB;
    const int64_t room_n = (c->disk_free_bytes - c->model_bytes) / c->checkpoint_bytes;
    if (c->disk_free_bytes < c->checkpoint_bytes + c->model_bytes)
        return fw_finding_add(out, FW_FINDING_BROKEN, "free some space, or choose another --output_dir",
                              "%s: %.2f GiB free; one checkpoint takes %.2f and the trained model %.2f GiB",
                              c->output_dir, free_gib, one_gib, model_gib);
    if (c->checkpoint_keep_n > 0 && room_n < c->checkpoint_keep_n + 1)
        return fw_finding_add(
            out, FW_FINDING_WARNING, "free some space, or lower --save_total_limit",
            "%s: %.2f GiB free, room for %lld checkpoint%s of %.2f GiB; save_total_limit %lld needs %lld",
            c->output_dir, free_gib, (long long)room_n, fw_plural(room_n), one_gib, (long long)c->checkpoint_keep_n,
            (long long)c->checkpoint_keep_n + 1);
    if (c->checkpoint_keep_n > 0 || room_n >= 10) return FW_OK;
    return fw_finding_add(out, room_n < 3 ? FW_FINDING_WARNING : FW_FINDING_NOTE,
                          "save_total_limit keeps the newest only",
                          "%s: %.2f GiB free, room for %lld checkpoint%s of %.2f GiB, "
                          "and all of a run are kept",
                          c->output_dir, free_gib, (long long)room_n, fw_plural(room_n), one_gib);
}

/* ---- CPU ---- */

static fw_status check_features(fw_findings *out, const fw_machine *m) {
    const unsigned f = m->cpu.features;
    const bool x86 = strcmp(m->cpu.arch, "x86_64") == 0, arm = strcmp(m->cpu.arch, "aarch64") == 0;
    if (x86 && (f & FW_CPU_AVX2) == 0)
        return fw_finding_add(out, FW_FINDING_WARNING,
                              m->virtual_machine[0] != 0
                                  ? "let the virtual machine have the CPU's own features (cpu type host)"
                                  : "take another machine; --bf16 false saves the conversions",
                              "the CPU has no AVX2, FMA and F16C: kernels fall back to plain code, many times slower");
    if (m->gpu_n > 0 || (!x86 && !arm)) return FW_OK;
    if ((x86 && (f & (FW_CPU_AVX512_BF16 | FW_CPU_AMX_BF16)) == 0) || (arm && (f & FW_CPU_ARM_BF16) == 0))
        return fw_finding_add(out, FW_FINDING_NOTE, "--bf16 false may be as fast and is more exact",
                              "the CPU has no instructions for bf16: products are computed in fp32");
    return FW_OK;
}

/* Instructions that are lacking; fewer threads than GPUs; hyperthreads; a governor that saves power. */
fw_status fw_check_cpu(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const fw_machine_cpu *cpu = &m->cpu;
    (void)c;
    FW_TRY(check_features(out, m));
    if (cpu->usable_n > 0 && cpu->usable_n < m->gpu_n)
        FW_TRY(
            fw_finding_add(out, FW_FINDING_WARNING,
                           "ask for more cores (taskset, --cpuset-cpus, --cpus-per-task): a rank needs at least one, "
                           "better four",
                           "%d thread%s of the CPU for %d GPUs", cpu->usable_n, fw_plural(cpu->usable_n), m->gpu_n));
    if (m->gpu_n == 0 && cpu->core_n > 0 && cpu->thread_n > cpu->core_n)
        FW_TRY(fw_finding_add(
            out, FW_FINDING_NOTE, "as many threads in all as there are cores (--num_threads) may be faster",
            "%d threads on %d cores: two of a core share its arithmetic units", cpu->thread_n, cpu->core_n));
    if (strcmp(cpu->governor, "powersave") != 0) return FW_OK;
    return fw_finding_add(out, FW_FINDING_NOTE, "cpupower frequency-set -g performance, as root, if steps vary",
                          "the CPU's clock is governed by \"powersave\"");
}

/* Quota and memory below what the machine has: finewire keeps to them, others beside it count too. */
fw_status fw_check_cgroup(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const fw_machine_cpu *cpu = &m->cpu;
    const int threads = cpu->usable_n > 0 ? cpu->usable_n : cpu->thread_n;
    (void)c;
    if (cpu->quota_cpus > 0 && threads > 0 && cpu->quota_cpus < threads)
        FW_TRY(fw_finding_add(out, cpu->quota_cpus < m->gpu_n ? FW_FINDING_WARNING : FW_FINDING_NOTE,
                              "raise it (--cpus, cpu limits of the pod, CPUQuota) if steps wait for the CPU",
                              "the control group allows %.3g of %d CPUs: threads are stopped when it is used up",
                              cpu->quota_cpus, threads));
    if (m->memory_limit_bytes < 0 || m->memory_bytes < 0 || m->memory_limit_bytes >= m->memory_bytes) return FW_OK;
    int64_t gpu_bytes = 0;
    for (int i = 0; i < m->gpu_n; i++)
        if (m->gpu[i].memory_bytes > 0) gpu_bytes += m->gpu[i].memory_bytes;
    return fw_finding_add(out, m->memory_limit_bytes < gpu_bytes / 2 ? FW_FINDING_WARNING : FW_FINDING_NOTE,
                          "raise it (--memory, memory limits of the pod); a process that goes beyond is killed",
                          "the control group allows %.1f of %.1f GiB of memory%s", (double)m->memory_limit_bytes / GIB,
                          (double)m->memory_bytes / GIB,
                          m->memory_limit_bytes < gpu_bytes / 2 ? ", less than half of what the GPUs have" : "");
}
