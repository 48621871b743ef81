#include "device/cuda/cudnn/cudnn_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static fw_status find_function(void *library, const char *name, void *out) {
    void *address = dlsym(library, name);
    if (address == NULL) return fw_fail(FW_ERR_OPTION, "libcudnn lacks the function %s", name);
    memcpy(out, &address, sizeof address);
    return FW_OK;
}

/* A file that is there is meant, also one that is named without a folder; any other name is the loader's to find. */
static void *load(void) {
    const char *named = getenv("FINEWIRE_CUDNN");
    if (named == NULL || *named == 0)
        named = "libcudnn.so.9";
    else {
        char *full = realpath(named, NULL);
        if (full != NULL) {
            void *library = dlopen(full, RTLD_NOW | RTLD_LOCAL);
            free(full);
            return library;
        }
    }
    return dlopen(named, RTLD_NOW | RTLD_LOCAL);
}

fw_status fw_cudnn_open(fw_cudnn *out) {
    void *library = load();
    if (library == NULL) return fw_fail(FW_ERR_OPTION, "cuDNN cannot be loaded: %s", dlerror());
#define X(name) FW_TRY(find_function(library, "cudnn" #name, &out->name));
    FW_CUDNN_FUNCTIONS(X)
#undef X
    out->version = out->GetVersion();
    if (out->version < FW_CUDNN_OLDEST)
        return fw_fail(FW_ERR_OPTION, "cuDNN %zu.%zu is too old: 9.18 or later is needed", out->version / 10000,
                       out->version / 100 % 100);
    return FW_OK;
}

fw_status fw_cudnn_status(const fw_cudnn *api, const char *what, cudnnStatus_t answer) {
    if (answer == CUDNN_STATUS_SUCCESS) return FW_OK;
    char text[400] = "";
    api->GetLastErrorString(text, sizeof text);
    text[strcspn(text, "\n")] = 0;
    fw_status status = FW_ERR_INTERNAL;
    if (answer / 1000 == 3) status = FW_ERR_OPTION; /* a NOT_SUPPORTED of some kind */
    if (answer / 1000 >= 4) status = FW_ERR_RANK;   /* the GPU */
    return fw_fail(status, "cuDNN: %s: %s%s%s", what, api->GetErrorString(answer), text[0] != 0 ? ": " : "", text);
}
