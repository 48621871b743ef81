/* Finding out, in this order and within a second, what is missing for GPUs: the plugin's file, a driver, a driver that
 * is new enough, a GPU. The driver is asked before the plugin is loaded, which takes a tenth of a second and memory. */
#include "device/cuda_loader.h"

#include "device/device_kinds.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const fw_plugin_place fw_cuda_plugin_place = {.name = "libfinewire_cuda.so",
                                              .variable = "FINEWIRE_CUDA_PLUGIN",
                                              .symbol = "finewire_cuda_plugin",
                                              .made_by = "make cuda",
                                              .libraries = "the CUDA libraries"};

static fw_status say_no_driver(const char *words, char reason[FW_CUDA_REASON_BYTES]) {
    snprintf(reason, FW_CUDA_REASON_BYTES, "no NVIDIA driver");
    if (strstr(words, "libcuda.so.1") != NULL && strstr(words, "No such file") != NULL)
        return fw_fail(FW_ERR_OPTION,
                       "there is no NVIDIA driver on this machine (%s); install one, start the container with its GPUs "
                       "(--gpus all), or use --device cpu",
                       words);
    snprintf(reason, FW_CUDA_REASON_BYTES, "an NVIDIA driver that cannot be loaded");
    return fw_fail(FW_ERR_OPTION,
                   "the NVIDIA driver, libcuda.so.1, is there and cannot be loaded: %s; reinstall it, or use --device "
                   "cpu",
                   words);
}

/* *version: what the driver is for (12040: CUDA 12.4). */
static fw_status ask_driver(int *version, char reason[FW_CUDA_REASON_BYTES]) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) return say_no_driver(dlerror(), reason);
    snprintf(reason, FW_CUDA_REASON_BYTES, "an NVIDIA driver that does not tell its version");
    void *address = dlsym(driver, "cuDriverGetVersion");
    int (*get_version)(int *);
    memcpy(&get_version, &address, sizeof get_version);
    *version = 0;
    int error = get_version != NULL ? get_version(version) : -1;
    if (error != 0)
        return fw_fail(FW_ERR_OPTION,
                       "the NVIDIA driver does not tell its version (error %d); reinstall it, or use "
                       "--device cpu",
                       error);
    if (*version < 1000)
        return fw_fail(FW_ERR_OPTION,
                       "the NVIDIA driver says that it is for no version of CUDA (%d): it may be a stub, or of another "
                       "program; reinstall it, or use --device cpu",
                       *version);
    return FW_OK;
}

/* The newest message up to its advice, as far as it fits. */
static void take_reason(char reason[FW_CUDA_REASON_BYTES]) {
    const char *words = fw_trail_message();
    const size_t n = strcspn(words, ";");
    snprintf(reason, FW_CUDA_REASON_BYTES, "%.*s", (int)(n < FW_CUDA_REASON_BYTES ? n : FW_CUDA_REASON_BYTES - 1),
             words);
}

/* Any driver of the same or a later major version of CUDA runs what was built with a minor version of it. */
static fw_status compare(int driver, int needed) {
    if (driver / 1000 >= needed / 1000) return FW_OK;
    return fw_fail(
        FW_ERR_OPTION,
        "the NVIDIA driver is too old: it is for CUDA %d.%d and the plugin was built with CUDA %d.%d; update "
        "the driver, build the plugin with CUDA %d, or use --device cpu",
        driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10, driver / 1000);
}

fw_status fw_cuda_find(const fw_cuda_plugin **out, char reason[FW_CUDA_REASON_BYTES]) {
    char path[4096];
    int driver = 0, gpu_n = 0;
    const fw_plugin_head *head = NULL;
    *out = NULL;
    snprintf(reason, FW_CUDA_REASON_BYTES, "no CUDA plugin");
    if (!fw_plugin_find(fw_cuda_plugin_place.name, fw_cuda_plugin_place.variable, path, sizeof path))
        return fw_fail(
            FW_ERR_OPTION,
            "the CUDA plugin is missing: there is no %s; run make cuda, name the file in %s, or use --device "
            "cpu",
            path, fw_cuda_plugin_place.variable);
    FW_TRY(ask_driver(&driver, reason));
    snprintf(reason, FW_CUDA_REASON_BYTES, "a CUDA plugin that cannot be used");
    FW_TRY(fw_plugin_open(&head, &fw_cuda_plugin_place, path, sizeof path));
    const fw_cuda_plugin *plugin = (const fw_cuda_plugin *)(const void *)head;
    snprintf(reason, FW_CUDA_REASON_BYTES, "an NVIDIA driver that is too old: CUDA %d.%d, %d.%d is needed",
             driver / 1000, driver % 1000 / 10, plugin->cuda_version / 1000, plugin->cuda_version % 1000 / 10);
    FW_TRY(compare(driver, plugin->cuda_version));
    const fw_status counted = plugin->count(&gpu_n);
    if (counted != FW_OK) {
        take_reason(reason);
        return counted;
    }
    snprintf(reason, FW_CUDA_REASON_BYTES, "no GPU");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (gpu_n == 0)
        return fw_fail(FW_ERR_OPTION, "the NVIDIA driver shows no GPU%s%.60s; use --device cpu, or look at nvidia-smi",
                       visible != NULL ? " with CUDA_VISIBLE_DEVICES=" : "", visible != NULL ? visible : "");
    reason[0] = 0;
    *out = plugin;
    return FW_OK;
}

fw_status fw_device_create_cuda(fw_device **out, fw_threads *threads, const fw_device_place *place) {
    const fw_cuda_plugin *plugin;
    char reason[FW_CUDA_REASON_BYTES];
    fw_status status = fw_cuda_find(&plugin, reason);
    if (status != FW_OK) return fw_fail_context(status, "--device cuda: ");
    return plugin->create(out, threads, place);
}
