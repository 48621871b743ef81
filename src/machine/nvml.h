/* NVML, the library behind nvidia-smi, declared by hand: the program is built where there is none, and opens it at run
 * time. Only what finewire asks for; names, numbers and layouts are those of NVIDIA's nvml.h (NVML API Reference Guide).
 *
 * A driver of another age may write more into a structure than its declaration here has, so every structure that NVML
 * writes is handed over with room behind it (the unions). Nothing it writes is believed: see read_gpus.c. */
#ifndef FW_MACHINE_NVML_H
#define FW_MACHINE_NVML_H

#include "base/status.h"

#include <stdint.h>

typedef int fw_nvml_return;
enum {
    FW_NVML_SUCCESS = 0,
    FW_NVML_INSUFFICIENT_SIZE = 7,
    FW_NVML_DRIVER_NOT_LOADED = 9,
    FW_NVML_GPU_IS_LOST = 15,
    FW_NVML_VERSION_MISMATCH = 18
};

typedef struct fw_nvml_device_tag *fw_nvml_device;

typedef union fw_nvml_pci {
    struct {
        char bus_id_legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char bus_id[32]; /* "00000000:17:00.0" */
    };
    char room[512];
} fw_nvml_pci;

typedef union fw_nvml_memory {
    struct {
        unsigned long long total, free, used;
    };
    char room[256];
} fw_nvml_memory;

typedef union fw_nvml_utilization {
    struct {
        unsigned gpu, memory; /* percent */
    };
    char room[64];
} fw_nvml_utilization;

/* Since driver 510 (_v3, and _v2 before it); the first version of the call fills fw_nvml_process_v1. */
typedef struct fw_nvml_process {
    unsigned pid;
    unsigned long long memory; /* all ones: not known */
    unsigned gpu_instance, compute_instance;
} fw_nvml_process;
typedef struct fw_nvml_process_v1 {
    unsigned pid;
    unsigned long long memory;
} fw_nvml_process_v1;

typedef union fw_nvml_fabric {
    struct {
        unsigned char cluster[16];
        fw_nvml_return status;
        unsigned clique;
        unsigned char state; /* 0 no fabric, 1 not started, 2 in progress, 3 completed */
    };
    char room[256];
} fw_nvml_fabric;

enum { FW_NVML_LINK_CAP = 36 }; /* links that are asked for; cards of today have up to 18 */
enum { FW_NVML_REMOTE_GPU = 0, FW_NVML_REMOTE_SWITCH = 2 };
enum { FW_NVML_P2P_READ = 0, FW_NVML_P2P_WRITE = 1 };

/* The functions: X(return type, field, name in the library, needed, parameters). What is not needed may be NULL: old
 * drivers lack it. _v2 and _v3 are what nvml.h makes of the plain names. */
#define FW_NVML_FUNCTIONS(X)                                                                                           \
    X(init, nvmlInit_v2, 1, (void))                                                                                    \
    X(shutdown, nvmlShutdown, 1, (void))                                                                               \
    X(driver_version, nvmlSystemGetDriverVersion, 1, (char *text, unsigned bytes))                                     \
    X(cuda_version, nvmlSystemGetCudaDriverVersion_v2, 0, (int *version))                                              \
    X(count, nvmlDeviceGetCount_v2, 1, (unsigned *n))                                                                  \
    X(handle, nvmlDeviceGetHandleByIndex_v2, 1, (unsigned index, fw_nvml_device *device))                              \
    X(name, nvmlDeviceGetName, 1, (fw_nvml_device device, char *text, unsigned bytes))                                 \
    X(uuid, nvmlDeviceGetUUID, 0, (fw_nvml_device device, char *text, unsigned bytes))                                 \
    X(pci, nvmlDeviceGetPciInfo_v3, 1, (fw_nvml_device device, fw_nvml_pci * pci))                                     \
    X(memory, nvmlDeviceGetMemoryInfo, 1, (fw_nvml_device device, fw_nvml_memory * memory))                            \
    X(capability, nvmlDeviceGetCudaComputeCapability, 0, (fw_nvml_device device, int *major, int *minor))              \
    X(pcie_gen, nvmlDeviceGetCurrPcieLinkGeneration, 0, (fw_nvml_device device, unsigned *n))                          \
    X(pcie_gen_max, nvmlDeviceGetMaxPcieLinkGeneration, 0, (fw_nvml_device device, unsigned *n))                       \
    X(card_gen_max, nvmlDeviceGetGpuMaxPcieLinkGeneration, 0, (fw_nvml_device device, unsigned *n))                    \
    X(pcie_width, nvmlDeviceGetCurrPcieLinkWidth, 0, (fw_nvml_device device, unsigned *n))                             \
    X(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth, 0, (fw_nvml_device device, unsigned *n))                          \
    X(utilization, nvmlDeviceGetUtilizationRates, 0, (fw_nvml_device device, fw_nvml_utilization * rates))             \
    X(performance_state, nvmlDeviceGetPerformanceState, 0, (fw_nvml_device device, unsigned *state))                   \
    X(compute_mode, nvmlDeviceGetComputeMode, 0, (fw_nvml_device device, unsigned *mode))                              \
    X(persistence, nvmlDeviceGetPersistenceMode, 0, (fw_nvml_device device, unsigned *on))                             \
    X(mig, nvmlDeviceGetMigMode, 0, (fw_nvml_device device, unsigned *now, unsigned *pending))                         \
    X(throttle, nvmlDeviceGetCurrentClocksThrottleReasons, 0, (fw_nvml_device device, unsigned long long *bits))       \
    X(ecc, nvmlDeviceGetTotalEccErrors, 0,                                                                             \
      (fw_nvml_device device, unsigned uncorrected, unsigned aggregate, unsigned long long *n))                        \
    X(processes, nvmlDeviceGetComputeRunningProcesses_v3, 0,                                                           \
      (fw_nvml_device device, unsigned *n, fw_nvml_process *list))                                                     \
    X(processes_v2, nvmlDeviceGetComputeRunningProcesses_v2, 0,                                                        \
      (fw_nvml_device device, unsigned *n, fw_nvml_process *list))                                                     \
    X(processes_v1, nvmlDeviceGetComputeRunningProcesses, 0,                                                           \
      (fw_nvml_device device, unsigned *n, fw_nvml_process_v1 *list))                                                  \
    X(fabric, nvmlDeviceGetGpuFabricInfo, 0, (fw_nvml_device device, fw_nvml_fabric * fabric))                         \
    X(link_state, nvmlDeviceGetNvLinkState, 0, (fw_nvml_device device, unsigned link, unsigned *active))               \
    X(link_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2, 0,                                                         \
      (fw_nvml_device device, unsigned link, fw_nvml_pci *pci))                                                        \
    X(link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType, 0,                                                        \
      (fw_nvml_device device, unsigned link, unsigned *type))                                                          \
    X(ancestor, nvmlDeviceGetTopologyCommonAncestor, 0, (fw_nvml_device a, fw_nvml_device b, unsigned *level))         \
    X(p2p, nvmlDeviceGetP2PStatus, 0, (fw_nvml_device a, fw_nvml_device b, unsigned capability, unsigned *status))

typedef struct fw_nvml {
    void *library;
    const char *(*error_text)(fw_nvml_return result);
#define FW_NVML_FIELD(field, name, needed, parameters) fw_nvml_return(*field) parameters;
    FW_NVML_FUNCTIONS(FW_NVML_FIELD)
#undef FW_NVML_FIELD
} fw_nvml;

/* Opens the library and finds its functions; calls none. *missing: NULL, or the needed function that it lacks. False when
 * there is no library or a needed function is missing; nothing is left open then. */
int fw_nvml_open(fw_nvml *out, const char *library, const char **missing);
void fw_nvml_close(fw_nvml *nvml);

#endif
