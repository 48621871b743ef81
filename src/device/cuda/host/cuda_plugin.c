/* The one function that libfinewire_cuda.so shows. */
#include "device/cuda/host/cuda_host.h"
#include "device/cuda/host/plugin_base.h"
#include "device/cuda_loader.h"

FW_PLUGIN_EXPORT const fw_plugin_head *finewire_cuda_plugin(const fw_plugin_host *host);

const fw_plugin_head *finewire_cuda_plugin(const fw_plugin_host *host) {
    static const fw_cuda_plugin plugin = {.head = {FW_PLUGIN_ABI, FW_PLUGIN_BUILD},
                                          .cuda_version = CUDART_VERSION,
                                          .architectures = FW_CUDA_ARCHITECTURES,
                                          .count = fw_cuda_count,
                                          .create = fw_cuda_create};
    fw_plugin_base_set(host);
    return &plugin.head;
}
