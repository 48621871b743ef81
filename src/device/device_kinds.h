/* The devices built into the binary; called by fw_device_create only. */
#ifndef FW_DEVICE_DEVICE_KINDS_H
#define FW_DEVICE_DEVICE_KINDS_H

#include "device/device.h"

fw_status fw_device_create_ref(fw_device **out, fw_threads *threads);
fw_status fw_device_create_cpu(fw_device **out, fw_threads *threads);

#endif
