/* A plugin of this build whose driver answers with an error when it is asked for GPUs. */
#include "device/cuda_loader.h"

static const fw_plugin_host *host;

static fw_status count(int *gpu_n) {
    *gpu_n = 0;
    return host->fail(FW_ERR_OPTION, __FILE__, __func__, __LINE__,
                      "the NVIDIA driver does not work: unknown error (error 999); look at nvidia-smi");
}

static const fw_cuda_plugin plugin = {.head = {.abi = FW_PLUGIN_ABI, .build = FW_PLUGIN_BUILD},
                                      .cuda_version = 13000,
                                      .architectures = "90",
                                      .count = count};

const fw_plugin_head *finewire_cuda_plugin(const fw_plugin_host *given);
const fw_plugin_head *finewire_cuda_plugin(const fw_plugin_host *given) {
    host = given;
    return &plugin.head;
}
