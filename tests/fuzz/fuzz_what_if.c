/* The cases of --what_if: any text gives changed options or one error. */
#include "plan/what_if.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[2048];
    fw_options o;
    if (size >= sizeof text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (fw_options_init(&o, FW_COMMAND_PLAN) == FW_OK) (void)fw_plan_apply_changes(&o, text);
    fw_options_fini(&o);
    return 0;
}
