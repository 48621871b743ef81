/* Snapshots of machines: what is read can be written, and reads the same again. */
#include "base/json.h"
#include "machine/machine.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *root, *first, *second;
    fw_machine *m, *again;
    if (fw_json_parse(&root, (const char *)data, size, "fuzz", 1) != FW_OK) return 0;
    const fw_status status = fw_machine_from_json(&m, root, "fuzz");
    json_decref(root);
    if (status != FW_OK) return 0;
    if (fw_machine_to_json(&first, m) != FW_OK) abort();
    if (fw_machine_from_json(&again, first, "written") != FW_OK) abort();
    if (fw_machine_to_json(&second, again) != FW_OK || !json_equal(first, second)) abort();
    json_decref(first);
    json_decref(second);
    fw_machine_destroy(m);
    fw_machine_destroy(again);
    return 0;
}
