/* model.safetensors.index.json, in a folder with two good shards. */
#include "store/model_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void put(const char *name, const void *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static void put_shard(const char *name, char tensor) {
    char bytes[128] = {0};
    int n = snprintf(bytes + 8, sizeof bytes - 8, "{\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                     tensor);
    bytes[0] = (char)n;
    put(name, bytes, 8 + (size_t)n + 1);
}

static void clean_up(void) { fw_dir_remove(dir); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (dir[0] == 0) {
        const char *base = getenv("TMPDIR");
        snprintf(dir, sizeof dir, "%.40s/fw-fuzz-XXXXXX", base != NULL && base[0] != 0 ? base : "/tmp");
        if (mkdtemp(dir) == NULL) abort();
        atexit(clean_up);
        put_shard("a.safetensors", 'a');
        put_shard("b.safetensors", 'b');
    }
    put("model.safetensors.index.json", data, size);
    fw_model_folder folder;
    if (fw_model_folder_open(&folder, dir) != FW_OK) return 0;
    const fw_safetensors *file;
    if (fw_model_folder_find(&folder, "a", &file) == NULL && fw_model_folder_find(&folder, "b", &file) == NULL) abort();
    fw_model_folder_close(&folder);
    return 0;
}
