/* A stand-in for libnvidia-ml.so.1: what a driver says, or lies, as the variable STANDIN_NVML has it. Built twice: as a
 * driver of today, and with STANDIN_OLD as one that lacks what came later. Declarations are the program's own; that they
 * are NVIDIA's can only be seen on a machine with a driver (tools/gpu_check). */
#include "machine/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3, INVALID = 2, SWITCH_LINKS = 18, PAIR_LINKS = 4, LIE_ROOM = 200 };

static int is(const char *mode) {
    const char *now = getenv("STANDIN_NVML");
    return strcmp(now != NULL ? now : "pair", mode) == 0;
}
/* "open": a switch, and every GPU writes into every other's memory. */
static int has_switch(void) { return is("switch") || is("open"); }
static unsigned gpu_n(void) { return has_switch() ? 4 : 2; }
static unsigned number_of(fw_nvml_device d) { return (unsigned)((uintptr_t)d / 16 - 1); }
static fw_nvml_device device_of(unsigned i) {
    return (fw_nvml_device)(uintptr_t)((i + 1) * 16);
} /* never looked into */
static const char *bus_of(unsigned i) {
    static const char *const ids[] = {"00000000:17:00.0", "00000000:65:00.0", "00000000:CA:00.0", "00000000:E3:00.0"};
    return ids[i];
}

/* ---- the system ---- */

fw_nvml_return nvmlInit_v2(void);
fw_nvml_return nvmlInit_v2(void) { return is("mismatch") ? FW_NVML_VERSION_MISMATCH : is("dead") ? 999 : 0; }
fw_nvml_return nvmlShutdown(void);
fw_nvml_return nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(fw_nvml_return result);
const char *nvmlErrorString(fw_nvml_return result) {
    return result == FW_NVML_VERSION_MISMATCH ? "Driver/library version mismatch"
           : result == 999                    ? NULL
                                              : "\033[31mred";
}
fw_nvml_return nvmlSystemGetDriverVersion(char *text, unsigned bytes);
fw_nvml_return nvmlSystemGetDriverVersion(char *text, unsigned bytes) {
    snprintf(text, bytes, "580.65.06");
    if (is("lies")) memset(text, 'x', bytes);
    return 0;
}
fw_nvml_return nvmlDeviceGetCount_v2(unsigned *n);
fw_nvml_return nvmlDeviceGetCount_v2(unsigned *n) {
    *n = is("count") ? 4000000000u : gpu_n();
    return is("deaf") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, fw_nvml_device *device);
fw_nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, fw_nvml_device *device) {
    if (is("lost") && index == 0) return FW_NVML_GPU_IS_LOST;
    *device = device_of(index);
    return index < gpu_n() ? 0 : INVALID;
}

/* ---- one GPU ---- */

fw_nvml_return nvmlDeviceGetName(fw_nvml_device device, char *text, unsigned bytes);
fw_nvml_return nvmlDeviceGetName(fw_nvml_device device, char *text, unsigned bytes) {
    (void)device;
    snprintf(text, bytes, "NVIDIA Stand-in");
    if (is("lies")) memset(text, 0x1b, bytes); /* no zero, and it would take over the terminal */
    return 0;
}
fw_nvml_return nvmlDeviceGetPciInfo_v3(fw_nvml_device device, fw_nvml_pci *pci);
fw_nvml_return nvmlDeviceGetPciInfo_v3(fw_nvml_device device, fw_nvml_pci *pci) {
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", bus_of(number_of(device)));
    if (is("lies")) memset(pci, 0xff, sizeof *pci - LIE_ROOM); /* more than the structure has */
    return 0;
}
fw_nvml_return nvmlDeviceGetMemoryInfo(fw_nvml_device device, fw_nvml_memory *memory);
fw_nvml_return nvmlDeviceGetMemoryInfo(fw_nvml_device device, fw_nvml_memory *memory) {
    (void)device;
    memory->total = 24ull << 30;
    memory->used = 1ull << 30;
    memory->free = 23ull << 30;
    if (is("lies")) memset(memory, 0xff, sizeof *memory - LIE_ROOM);
    return 0;
}

#define NUMBER(name, value)                                                                                            \
    fw_nvml_return name(fw_nvml_device device, unsigned *n);                                                           \
    fw_nvml_return name(fw_nvml_device device, unsigned *n) {                                                          \
        (void)device;                                                                                                  \
        *n = is("lies") ? 0xfffffff0u : (value);                                                                       \
        return is("silent") ? NOT_SUPPORTED : 0;                                                                       \
    }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, 1)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 4)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 8)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetPerformanceState, 8)
NUMBER(nvmlDeviceGetComputeMode, 3)
NUMBER(nvmlDeviceGetPersistenceMode, 1)

fw_nvml_return nvmlDeviceGetUtilizationRates(fw_nvml_device device, fw_nvml_utilization *rates);
fw_nvml_return nvmlDeviceGetUtilizationRates(fw_nvml_device device, fw_nvml_utilization *rates) {
    (void)device;
    rates->gpu = is("lies") ? 101 : 37;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetCudaComputeCapability(fw_nvml_device device, int *major, int *minor);
fw_nvml_return nvmlDeviceGetCudaComputeCapability(fw_nvml_device device, int *major, int *minor) {
    (void)device;
    *major = is("lies") ? -8 : 8;
    *minor = 6;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetTotalEccErrors(fw_nvml_device device, unsigned uncorrected, unsigned aggregate,
                                           unsigned long long *n);
fw_nvml_return nvmlDeviceGetTotalEccErrors(fw_nvml_device device, unsigned uncorrected, unsigned aggregate,
                                           unsigned long long *n) {
    (void)device;
    *n = is("lies") ? ~0ull : uncorrected == 1 && aggregate == 0 ? 3 : 77;
    return is("silent") ? NOT_SUPPORTED : 0;
}

/* ---- processes ---- */

#ifndef STANDIN_OLD
fw_nvml_return nvmlDeviceGetComputeRunningProcesses_v3(fw_nvml_device device, unsigned *n, fw_nvml_process *list);
fw_nvml_return nvmlDeviceGetComputeRunningProcesses_v3(fw_nvml_device device, unsigned *n, fw_nvml_process *list) {
    if (is("silent")) return NOT_SUPPORTED;
    if (is("lies")) {
        *n = 3999999999u; /* as if all had been written */
        return 0;
    }
    if (number_of(device) == 1) {
        *n = 300; /* more than there is room for */
        return FW_NVML_INSUFFICIENT_SIZE;
    }
    if (*n < 2) return FW_NVML_INSUFFICIENT_SIZE;
    list[0] = (fw_nvml_process){.pid = 4242, .memory = 5ull << 30};
    list[1] = (fw_nvml_process){.pid = 4243, .memory = ~0ull}; /* not known */
    *n = 2;
    return 0;
}
#else
fw_nvml_return nvmlDeviceGetComputeRunningProcesses(fw_nvml_device device, unsigned *n, fw_nvml_process_v1 *list);
fw_nvml_return nvmlDeviceGetComputeRunningProcesses(fw_nvml_device device, unsigned *n, fw_nvml_process_v1 *list) {
    (void)device;
    list[0] = (fw_nvml_process_v1){.pid = 4242, .memory = 5ull << 30};
    list[1] = (fw_nvml_process_v1){.pid = 4243, .memory = 6ull << 30};
    *n = 2;
    return 0;
}
#endif

/* ---- what came later ---- */

#ifndef STANDIN_OLD
fw_nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version);
fw_nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = is("lies") ? -1 : 13000;
    return 0;
}
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, 5)
fw_nvml_return nvmlDeviceGetMigMode(fw_nvml_device device, unsigned *now, unsigned *pending);
fw_nvml_return nvmlDeviceGetMigMode(fw_nvml_device device, unsigned *now, unsigned *pending) {
    (void)device;
    *now = is("lies") ? 9 : 1;
    *pending = 0;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(fw_nvml_device device, unsigned long long *bits);
fw_nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(fw_nvml_device device, unsigned long long *bits) {
    (void)device;
    *bits = is("lies") ? ~0ull : 0x41;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetGpuFabricInfo(fw_nvml_device device, fw_nvml_fabric *fabric);
fw_nvml_return nvmlDeviceGetGpuFabricInfo(fw_nvml_device device, fw_nvml_fabric *fabric) {
    (void)device;
    fabric->state = has_switch() ? 3 : 0;
    if (is("lies")) memset(fabric, 0xff, sizeof *fabric - LIE_ROOM);
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(fw_nvml_device device, unsigned link, unsigned *type);
fw_nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(fw_nvml_device device, unsigned link, unsigned *type) {
    (void)device;
    (void)link;
    *type = has_switch() ? FW_NVML_REMOTE_SWITCH : is("lies") ? 77 : FW_NVML_REMOTE_GPU;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetUUID(fw_nvml_device device, char *text, unsigned bytes);
fw_nvml_return nvmlDeviceGetUUID(fw_nvml_device device, char *text, unsigned bytes) {
    snprintf(text, bytes, "GPU-0000000%u", number_of(device));
    if (is("lies")) memset(text, 'u', bytes);
    return 0;
}
#endif

/* ---- how they are joined ---- */

fw_nvml_return nvmlDeviceGetNvLinkState(fw_nvml_device device, unsigned link, unsigned *active);
fw_nvml_return nvmlDeviceGetNvLinkState(fw_nvml_device device, unsigned link, unsigned *active) {
    if (is("silent")) return NOT_SUPPORTED;
    if (is("lies")) { /* links without end */
        *active = link % 2 == 0 ? 1 : 5;
        return 0;
    }
    *active = !(has_switch() && number_of(device) == 3 && link == 0); /* one link of GPU 3 is down */
    return link < (has_switch() ? SWITCH_LINKS : PAIR_LINKS) ? 0 : INVALID;
}
fw_nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(fw_nvml_device device, unsigned link, fw_nvml_pci *pci);
fw_nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(fw_nvml_device device, unsigned link, fw_nvml_pci *pci) {
    (void)link;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", has_switch() ? "00000000:08:00.0" : bus_of(1 - number_of(device)));
    if (is("lies")) memset(pci, 0xff, sizeof *pci - LIE_ROOM);
    return 0;
}
fw_nvml_return nvmlDeviceGetTopologyCommonAncestor(fw_nvml_device a, fw_nvml_device b, unsigned *level);
fw_nvml_return nvmlDeviceGetTopologyCommonAncestor(fw_nvml_device a, fw_nvml_device b, unsigned *level) {
    *level = is("lies") ? 35 : number_of(a) / 2 == number_of(b) / 2 ? 40 : 50;
    return is("silent") ? NOT_SUPPORTED : 0;
}
fw_nvml_return nvmlDeviceGetP2PStatus(fw_nvml_device a, fw_nvml_device b, unsigned capability, unsigned *status);
fw_nvml_return nvmlDeviceGetP2PStatus(fw_nvml_device a, fw_nvml_device b, unsigned capability, unsigned *status) {
    (void)a;
    (void)b;
    *status = is("lies") ? 123456 : capability == FW_NVML_P2P_WRITE && !is("open") ? 4 : 0;
    return is("silent") ? NOT_SUPPORTED : 0;
}
