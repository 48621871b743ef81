/* The checks; private to the room. Each says in its file what triggers it. */
#ifndef FW_MACHINE_CHECKS_H
#define FW_MACHINE_CHECKS_H

#include "machine/doctor.h"

/* name, what it looks at; fw_check_NAME is the function. */
#define FW_CHECKS(X)                                                                                                   \
    X(driver, "driver, its module, the GPUs that it shows")                                                            \
    X(cuda, "CUDA of the driver and of the plugin")                                                                    \
    X(busy, "processes and memory on the GPUs")                                                                        \
    X(modes, "compute mode, MIG, different GPUs")                                                                      \
    X(health, "memory errors, throttling, NVLinks, fabric manager")                                                    \
    X(peer, "peer access between GPUs")                                                                                \
    X(pcie, "PCIe generation and lanes")                                                                               \
    X(acs, "ACS and IOMMU")                                                                                            \
    X(shm, "/dev/shm")                                                                                                 \
    X(memlock, "limit of locked memory")                                                                               \
    X(files, "limit of open files")                                                                                    \
    X(environment, "NCCL_* and CUDA_* settings")                                                                       \
    X(network, "InfiniBand and other cards")                                                                           \
    X(hosts, "names of hosts")                                                                                         \
    X(clock, "synchronised clock")                                                                                     \
    X(disk, "room for checkpoints")                                                                                    \
    X(cpu, "instructions, threads, governor")                                                                          \
    X(cgroup, "limits of the control group")

#define FW_CHECK_DECLARE(name, about)                                                                                  \
    fw_status fw_check_##name(fw_findings *out, const fw_machine *m, const fw_doctor_context *c);
FW_CHECKS(FW_CHECK_DECLARE)
#undef FW_CHECK_DECLARE

/* "GPU 0", "GPUs 0-3,5" of a set of GPUs; returns out. */
enum { FW_GPU_SET_BYTES = 256 };
const char *fw_gpu_set_text(char out[FW_GPU_SET_BYTES], const fw_machine *m, uint64_t set);

#endif
