/* Settings of other programs from anywhere: the first byte says which kind, the rest is the file. */
#include "base/alloc.h"
#include "config/foreign.h"
#include "config/options.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_options o;
    fw_leaves leaves = {0};
    if (size < 1) return 0;
    const char *text = (const char *)data + 1, *where = "file";
    fw_status status = fw_options_init(&o, FW_COMMAND_TRAIN);
    if (status == FW_OK)
        status = data[0] == 'd' ? fw_leaves_read_json(&leaves, text, size - 1, where)
                                : fw_leaves_read_yaml(&leaves, text, size - 1, where);
    if (status == FW_OK)
        status = data[0] == 'd'   ? fw_foreign_deepspeed(&o, &leaves, where, FW_FROM_RECIPE)
                 : data[0] == 'f' ? fw_foreign_fsdp(&o, &leaves, where, FW_FROM_RECIPE)
                                  : fw_foreign_accelerate(&o, &leaves, where, FW_FROM_RECIPE);
    if (status == FW_OK) {
        json_t *object;
        if (fw_options_check(&o) == FW_OK) (void)fw_options_resolve_batch(&o, 3);
        FW_ASSERT(fw_options_to_json(&object, &o) == FW_OK); /* whatever was accepted can be written down */
        json_decref(object);
    }
    fw_leaves_fini(&leaves);
    fw_options_fini(&o);
    return 0;
}
