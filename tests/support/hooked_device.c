#include "support/hooked_device.h"

static const fw_device_ops *plain;
static fw_device_ops hooked;
static fw_test_op_hook hook_of_test;
static void *context_of_test;

#define FW_OP_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#define FW_OP_ARGUMENTS(...) (d, __VA_ARGS__)
#define FW_OP(name, parameters, arguments)                                                                             \
    static fw_status asks_##name FW_OP_PARAMETERS parameters {                                                         \
        FW_TRY(hook_of_test(context_of_test, #name));                                                                  \
        return plain->name FW_OP_ARGUMENTS arguments;                                                                  \
    }
#include "device/ops.def"
#undef FW_OP

void fw_test_device_hook(fw_device *d, fw_test_op_hook hook, void *context) {
    plain = d->ops;
    hooked = *plain;
#define FW_OP(name, parameters, arguments) hooked.name = asks_##name;
#include "device/ops.def"
#undef FW_OP
    hook_of_test = hook;
    context_of_test = context;
    d->ops = &hooked;
}
