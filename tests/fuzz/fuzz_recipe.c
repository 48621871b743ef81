/* Recipes from anywhere: read, checked and written out again. */
#include "base/alloc.h"
#include "config/options.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_options o;
    if (fw_options_init(&o, FW_COMMAND_TRAIN) == FW_OK &&
        fw_options_parse_recipe(&o, (const char *)data, size, "recipe.yaml") == FW_OK) {
        json_t *object;
        (void)fw_options_check(&o);
        FW_ASSERT(fw_options_to_json(&object, &o) == FW_OK); /* whatever was accepted can be written down */
        json_decref(object);
    }
    fw_options_fini(&o);
    return 0;
}
