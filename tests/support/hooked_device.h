/* A device that asks before every operation: a test fails, kills, delays or counts at any place of a step. */
#ifndef FW_TESTS_SUPPORT_HOOKED_DEVICE_H
#define FW_TESTS_SUPPORT_HOOKED_DEVICE_H

#include "device/device.h"

/* op: its name in device/ops.def. Anything but FW_OK is what the operation returns, undone. */
typedef fw_status (*fw_test_op_hook)(void *context, const char *op);

/* From now on; one device of a process at a time. Memory and scratch are the device's own as before. */
void fw_test_device_hook(fw_device *d, fw_test_op_hook hook, void *context);

#endif
