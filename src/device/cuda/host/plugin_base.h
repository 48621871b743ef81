/* Base functions inside a plugin; see plugin_base.c. */
#ifndef FW_DEVICE_CUDA_HOST_PLUGIN_BASE_H
#define FW_DEVICE_CUDA_HOST_PLUGIN_BASE_H

#include "device/plugin_host.h"

/* Before anything else in the plugin is called. */
void fw_plugin_base_set(const fw_plugin_host *host);

/* The one symbol that a plugin shows. */
#define FW_PLUGIN_EXPORT __attribute__((visibility("default")))

#endif
