/* Manifests of checkpoints. The checksum would stop nearly every input, so the text is also given with the right one at
 * its end. */
#include "store/manifest.h"
#include "store/manifest_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t bytes) {
    json_t *manifest;
    fw_checkpoint_state state;
    fw_manifest_index index;
    if (fw_manifest_parse(&manifest, text, bytes, "fuzz") != FW_OK) return;
    if (fw_manifest_state(&state, manifest, "fuzz") == FW_OK) fw_checkpoint_state_fini(&state);
    if (fw_manifest_index_init(&index, manifest, "fuzz") == FW_OK) fw_manifest_index_fini(&index);
    json_decref(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse((const char *)data, size);
    fw_strbuf text = {0};
    if (fw_strbuf_append(&text, data, size) == FW_OK && fw_manifest_seal(&text) == FW_OK)
        parse(fw_strbuf_text(&text), text.len_bytes);
    fw_strbuf_fini(&text);
    return 0;
}
