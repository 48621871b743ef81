/* The checks; private to the room. Each says in its file what triggers it. */
#ifndef FW_MACHINE_CHECKS_H
#define FW_MACHINE_CHECKS_H

#include "machine/doctor.h"

/* name, what it looks at, whether that is GPUs; fw_check_NAME is the function. */
#define FW_CHECKS(X)                                                                                                   \
    X(driver, "driver, its module, the GPUs that it shows", true)                                                      \
    X(cuda, "CUDA of the driver and of the plugin", true)                                                              \
    X(busy, "processes and memory on the GPUs", true)                                                                  \
    X(modes, "compute mode, MIG, different GPUs", true)                                                                \
    X(health, "memory errors, throttling, NVLinks, fabric manager", true)                                              \
    X(peer, "peer access between GPUs", true)                                                                          \
    X(pcie, "PCIe generation and lanes", true)                                                                         \
    X(acs, "ACS and IOMMU", true)                                                                                      \
    X(shm, "/dev/shm", false)                                                                                          \
    X(memlock, "limit of locked memory", false)                                                                        \
    X(files, "limit of open files", false)                                                                             \
    X(environment, "NCCL_* and CUDA_* settings", false)                                                                \
    X(network, "InfiniBand and other cards", false)                                                                    \
    X(hosts, "names of hosts", false)                                                                                  \
    X(clock, "synchronised clock", false)                                                                              \
    X(disk, "room for checkpoints", false)                                                                             \
    X(cpu, "instructions, threads, governor", false)                                                                   \
    X(cgroup, "limits of the control group", false)

#define FW_CHECK_DECLARE(name, about, of_gpus)                                                                         \
    fw_status fw_check_##name(fw_findings *out, const fw_machine *m, const fw_doctor_context *c);
FW_CHECKS(FW_CHECK_DECLARE)
#undef FW_CHECK_DECLARE

/* "GPU 0", "GPUs 0-3,5" of a set of GPUs; returns out. */
enum { FW_GPU_SET_BYTES = 256 };
const char *fw_gpu_set_text(char out[FW_GPU_SET_BYTES], const fw_machine *m, uint64_t set);

#endif
