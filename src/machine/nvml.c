#include "machine/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct function {
    const char *name;
    size_t offset;
    int needed;
} function;

static const function functions[] = {
#define ROW(field, name, needed, parameters) {#name, offsetof(fw_nvml, field), needed},
    FW_NVML_FUNCTIONS(ROW)
#undef ROW
};

int fw_nvml_open(fw_nvml *out, const char *library, const char **missing) {
    *out = (fw_nvml){0};
    *missing = NULL;
    out->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (out->library == NULL) return 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(out->library, functions[i].name);
        if (symbol == NULL && functions[i].needed) {
            *missing = functions[i].name;
            fw_nvml_close(out);
            return 0;
        }
        memcpy((char *)out + functions[i].offset, &symbol, sizeof symbol); /* POSIX: a function's address fits */
    }
    void *symbol = dlsym(out->library, "nvmlErrorString");
    memcpy(&out->error_text, &symbol, sizeof symbol);
    return 1;
}

void fw_nvml_close(fw_nvml *nvml) {
    if (nvml->library != NULL) dlclose(nvml->library);
    *nvml = (fw_nvml){0};
}
