/* Manifests of checkpoints. The checksum would stop nearly every input, so the same text is also given with the right
 * one in place. */
#include "base/hash.h"
#include "base/json.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t bytes) {
    json_t *manifest;
    fw_checkpoint_state state;
    if (fw_manifest_parse(&manifest, text, bytes, "fuzz") != FW_OK) return;
    if (fw_manifest_state(&state, manifest, "fuzz") == FW_OK) fw_checkpoint_state_fini(&state);
    json_decref(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse((const char *)data, size);
    json_t *value;
    fw_strbuf text = {0};
    if (fw_json_parse(&value, (const char *)data, size, "fuzz", 1) != FW_OK) return 0;
    if (json_is_object(value)) {
        json_object_del(value, "manifest_xxh64");
        char hash[20];
        if (fw_json_dump(&text, value, JSON_COMPACT) == FW_OK) {
            snprintf(hash, sizeof hash, "%016" PRIx64, fw_hash_bytes(text.data, text.len_bytes));
            json_object_set_new(value, "manifest_xxh64", json_string(hash));
            fw_strbuf_clear(&text);
            if (fw_json_dump(&text, value, JSON_COMPACT) == FW_OK) parse(text.data, text.len_bytes);
        }
    }
    fw_strbuf_fini(&text);
    json_decref(value);
    return 0;
}
