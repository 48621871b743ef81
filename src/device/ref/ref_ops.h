/* The operations of the reference device, fw_ref_NAME for every NAME in device/ops.def. */
#ifndef FW_DEVICE_REF_OPS_H
#define FW_DEVICE_REF_OPS_H

#include "device/device.h"

#define FW_REF_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#define FW_OP(name, parameters, arguments) fw_status fw_ref_##name FW_REF_PARAMETERS parameters;
#include "device/ops.def"
#undef FW_OP
#undef FW_REF_PARAMETERS

#endif
