/* The cuda device: a plugin, so that the program starts without CUDA and runs where there is none. */
#ifndef FW_DEVICE_CUDA_LOADER_H
#define FW_DEVICE_CUDA_LOADER_H

#include "device/device.h"
#include "device/plugin_host.h"

/* libfinewire_cuda.so exports one function: finewire_cuda_plugin, of this type. */
typedef struct fw_cuda_plugin {
    fw_plugin_head head;
    int cuda_version;          /* what it was built with: 13000 is CUDA 13.0 */
    const char *architectures; /* of its kernels: "90", "80;86;90" */
    /* How many GPUs the driver shows; no context is made. Errors: FW_ERR_OPTION with the driver's words. */
    fw_status (*count)(int *gpu_n);
    fw_status (*create)(fw_device **out, fw_threads *threads, const fw_device_place *place);
} fw_cuda_plugin;
extern const fw_plugin_place fw_cuda_plugin_place;
typedef const fw_plugin_head *(*fw_plugin_function)(const fw_plugin_host *host);

/* Whether there is a plugin, a driver new enough and a GPU. Errors, all FW_ERR_OPTION: the message says which of them is
 * missing and what to do; `reason` (short: "no NVIDIA driver") is for a line of those who go on without. */
enum { FW_CUDA_REASON_BYTES = 80 };
fw_status fw_cuda_find(const fw_cuda_plugin **out, char reason[FW_CUDA_REASON_BYTES]);

#endif
