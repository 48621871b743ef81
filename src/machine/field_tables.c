#include "machine/fields.h"

#include <stddef.h>

#define MEMBER(type, field) offsetof(type, field), sizeof(((type *)NULL)->field)
#define TEXT(type, field)                                                                                              \
    { #field, FW_FIELD_TEXT, MEMBER(type, field), 0, 0, NULL }
#define INT(type, field, min, max)                                                                                     \
    { #field, FW_FIELD_INT, MEMBER(type, field), min, max, NULL }
#define INT64(type, field, max)                                                                                        \
    { #field, FW_FIELD_INT64, MEMBER(type, field), 0, max, NULL }
#define LIMIT(type, field)                                                                                             \
    { #field, FW_FIELD_LIMIT, MEMBER(type, field), 0, INT64_MAX, NULL }
#define DOUBLE(type, field, max)                                                                                       \
    { #field, FW_FIELD_DOUBLE, MEMBER(type, field), 0, max, NULL }
#define BOOL(type, field)                                                                                              \
    { #field, FW_FIELD_BOOL, MEMBER(type, field), 0, 1, NULL }
#define CHAR(type, field)                                                                                              \
    { #field, FW_FIELD_CHAR, MEMBER(type, field), 0, 0, NULL }
#define WORD(type, field, unknown, words)                                                                              \
    { #field, FW_FIELD_WORD, MEMBER(type, field), unknown, 0, words }
#define BITS(type, field, words)                                                                                       \
    { #field, FW_FIELD_BITS, MEMBER(type, field), 0, 0, words }
#define END                                                                                                            \
    { NULL, FW_FIELD_TEXT, 0, 0, 0, 0, NULL }

#define BYTES ((int64_t)1 << 56) /* more than any machine has */
#define COUNT (1 << 20)

static const char *const driver_states[] = {"missing", "ok", "mismatch", "failed", NULL};
static const char *const compute_modes[] = {"default", "exclusive_thread", "prohibited", "exclusive_process", NULL};
static const char *const iommu_states[] = {"off", "passthrough", "translating", NULL};
static const char *const cpu_features[] = {"avx2", "avx512",   "avx512_bf16", "amx_bf16",
                                           "neon", "arm_bf16", "sve",         NULL};

const fw_field fw_machine_fields[] = {TEXT(fw_machine, host_name),
                                      TEXT(fw_machine, kernel),
                                      TEXT(fw_machine, container),
                                      TEXT(fw_machine, virtual_machine),
                                      INT64(fw_machine, memory_bytes, BYTES),
                                      INT64(fw_machine, memory_available_bytes, BYTES),
                                      INT64(fw_machine, memory_limit_bytes, BYTES),
                                      INT64(fw_machine, shm_bytes, BYTES),
                                      INT64(fw_machine, shm_free_bytes, BYTES),
                                      LIMIT(fw_machine, memlock_bytes),
                                      LIMIT(fw_machine, memlock_hard_bytes),
                                      LIMIT(fw_machine, nofile_n),
                                      LIMIT(fw_machine, nofile_hard_n),
                                      WORD(fw_machine, iommu, FW_IOMMU_UNKNOWN, iommu_states),
                                      INT(fw_machine, clock_synchronised, 0, 1),
                                      INT64(fw_machine, clock_error_us, INT64_MAX),
                                      END};

const fw_field fw_machine_driver_fields[] = {WORD(fw_machine_driver, state, FW_DRIVER_MISSING, driver_states),
                                             TEXT(fw_machine_driver, error),
                                             TEXT(fw_machine_driver, version),
                                             TEXT(fw_machine_driver, module),
                                             INT(fw_machine_driver, cuda_version, 1, 999999),
                                             INT(fw_machine_driver, lost_gpu_n, 0, FW_MACHINE_GPU_CAP),
                                             INT(fw_machine_driver, pci_gpu_n, 0, COUNT),
                                             END};

const fw_field fw_machine_cpu_fields[] = {TEXT(fw_machine_cpu, model),
                                          TEXT(fw_machine_cpu, vendor),
                                          TEXT(fw_machine_cpu, arch),
                                          INT(fw_machine_cpu, socket_n, 1, COUNT),
                                          INT(fw_machine_cpu, core_n, 1, COUNT),
                                          INT(fw_machine_cpu, thread_n, 1, COUNT),
                                          INT(fw_machine_cpu, usable_n, 1, COUNT),
                                          DOUBLE(fw_machine_cpu, quota_cpus, COUNT),
                                          INT64(fw_machine_cpu, l1d_bytes, BYTES),
                                          INT64(fw_machine_cpu, l2_bytes, BYTES),
                                          INT64(fw_machine_cpu, l3_bytes, BYTES),
                                          INT(fw_machine_cpu, l3_n, 1, COUNT),
                                          BITS(fw_machine_cpu, features, cpu_features),
                                          TEXT(fw_machine_cpu, governor),
                                          END};

const fw_field fw_machine_gpu_fields[] = {INT(fw_machine_gpu, index, 0, COUNT),
                                          TEXT(fw_machine_gpu, name),
                                          TEXT(fw_machine_gpu, uuid),
                                          TEXT(fw_machine_gpu, pci_id),
                                          INT(fw_machine_gpu, compute_major, 1, 99),
                                          INT(fw_machine_gpu, compute_minor, 0, 9),
                                          INT64(fw_machine_gpu, memory_bytes, BYTES),
                                          INT64(fw_machine_gpu, memory_used_bytes, BYTES),
                                          INT(fw_machine_gpu, pcie_gen, 1, 8),
                                          INT(fw_machine_gpu, pcie_gen_max, 1, 8),
                                          INT(fw_machine_gpu, pcie_width, 1, 32),
                                          INT(fw_machine_gpu, pcie_width_max, 1, 32),
                                          INT(fw_machine_gpu, slot_gen_max, 1, 8),
                                          INT(fw_machine_gpu, slot_width_max, 1, 32),
                                          INT(fw_machine_gpu, card_gen_max, 1, 8),
                                          INT(fw_machine_gpu, card_width_max, 1, 32),
                                          INT(fw_machine_gpu, utilization_percent, 0, 100),
                                          INT(fw_machine_gpu, performance_state, 0, 15),
                                          INT(fw_machine_gpu, nvlink_n, 0, 256),
                                          INT(fw_machine_gpu, nvlink_down_n, 0, 256),
                                          INT(fw_machine_gpu, fabric_state, 0, 3),
                                          WORD(fw_machine_gpu, compute_mode, FW_COMPUTE_UNKNOWN, compute_modes),
                                          INT(fw_machine_gpu, mig, 0, 1),
                                          INT(fw_machine_gpu, persistence, 0, 1),
                                          INT64(fw_machine_gpu, ecc_uncorrected_n, INT64_MAX),
                                          INT64(fw_machine_gpu, throttle_reasons, INT64_MAX),
                                          INT(fw_machine_gpu, numa, 0, 4095),
                                          TEXT(fw_machine_gpu, cpus),
                                          TEXT(fw_machine_gpu, host_bridge),
                                          INT(fw_machine_gpu, process_n, 0, 1000000),
                                          END};

const fw_field fw_machine_process_fields[] = {INT64(fw_machine_process, pid, INT32_MAX),
                                              INT64(fw_machine_process, memory_bytes, BYTES),
                                              TEXT(fw_machine_process, name),
                                              CHAR(fw_machine_process, state),
                                              BOOL(fw_machine_process, orphan),
                                              END};

const fw_field fw_machine_numa_fields[] = {INT(fw_machine_numa, node, 0, 4095), TEXT(fw_machine_numa, cpus),
                                           INT64(fw_machine_numa, memory_bytes, BYTES),
                                           INT64(fw_machine_numa, memory_free_bytes, BYTES), END};

const fw_field fw_machine_bridge_fields[] = {TEXT(fw_machine_bridge, pci_id),
                                             INT(fw_machine_bridge, acs, FW_ACS_NONE, 0xffff), END};

const fw_field fw_machine_nic_fields[] = {TEXT(fw_machine_nic, name),         TEXT(fw_machine_nic, pci_id),
                                          BOOL(fw_machine_nic, rdma),         TEXT(fw_machine_nic, layer),
                                          TEXT(fw_machine_nic, state),        DOUBLE(fw_machine_nic, gbit_per_s, 1e6),
                                          INT(fw_machine_nic, numa, 0, 4095), END};

const fw_field fw_machine_host_fields[] = {TEXT(fw_machine_host, name), TEXT(fw_machine_host, error),
                                           TEXT(fw_machine_host, addresses), BOOL(fw_machine_host, only_loopback), END};
