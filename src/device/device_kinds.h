/* The devices that there are; called by fw_device_create_at only. */
#ifndef FW_DEVICE_DEVICE_KINDS_H
#define FW_DEVICE_DEVICE_KINDS_H

#include "device/device.h"

fw_status fw_device_create_ref(fw_device **out, fw_threads *threads);
fw_status fw_device_create_cpu(fw_device **out, fw_threads *threads);
/* By the plugin; see device/cuda_loader.h. */
fw_status fw_device_create_cuda(fw_device **out, fw_threads *threads, const fw_device_place *place);

#endif
