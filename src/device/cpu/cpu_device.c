/* The cpu device begins as the reference device under its own name. */
#include "device/device_kinds.h"

fw_status fw_device_create_cpu(fw_device **out, fw_threads *threads) {
    FW_TRY(fw_device_create_ref(out, threads));
    (*out)->name = "cpu";
    return FW_OK;
}
