#include "device/plugin_host.h"

#include "base/alloc.h"
#include "device/cuda_loader.h"
#include "device/plugin_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fw_status fail(fw_status status, const char *file, const char *function, int line, const char *message) {
    return fw_fail_at(status, file, function, line, "%s", message);
}
static fw_status fail_context(fw_status status, const char *context) { return fw_fail_context(status, "%s", context); }
static void log_line(fw_log_level level, const char *line) { fw_log_line(level, "%s", line); }

const fw_plugin_host *fw_plugin_host_get(void) {
    static const fw_plugin_host host = {.fail = fail,
                                        .fail_context = fail_context,
                                        .push = fw_trail_push,
                                        .message = fw_trail_message,
                                        .log = log_line,
                                        .allocate = fw_calloc,
                                        .release = fw_free,
                                        .check_frozen = fw_device_check_frozen};
    return &host;
}

int fw_plugin_is_named(const char *variable) {
    const char *given = getenv(variable);
    return given != NULL && given[0] != 0;
}

int fw_plugin_find(const char *name, const char *variable, char *path, size_t path_bytes) {
    if (fw_plugin_is_named(variable)) {
        snprintf(path, path_bytes, "%s", getenv(variable));
    } else {
        char program[4096];
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        program[n > 0 ? n : 0] = 0;
        snprintf(path, path_bytes, "%.3800s/%s", n > 0 ? dirname(program) : ".", name);
    }
    return access(path, F_OK) == 0;
}

/* The file's full path: a name without a slash would be looked for among the system's libraries. */
static fw_status load(void **library, const fw_plugin_place *place, const char *path) {
    FW_TRY(fw_plugin_check_file(path));
    char *full = realpath(path, NULL);
    if (full == NULL) return fw_fail(FW_ERR_OPTION, "%s cannot be loaded: %s", path, strerror(errno));
    *library = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    free(full);
    if (*library != NULL) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s cannot be loaded: %s; are %s it was built with installed?", path, dlerror(),
                   place->libraries);
}

fw_status fw_plugin_open(const fw_plugin_head **out, const fw_plugin_place *place, char *path, size_t path_bytes) {
    *out = NULL;
    if (!fw_plugin_find(place->name, place->variable, path, path_bytes))
        return fw_fail(FW_ERR_OPTION, "there is no %s; run %s, or name the file in %s", path, place->made_by,
                       place->variable);
    void *library;
    FW_TRY(load(&library, place, path));
    /* A pointer to a function, as POSIX has it: by way of its bits. */
    void *address = dlsym(library, place->symbol);
    fw_plugin_function get;
    memcpy(&get, &address, sizeof get);
    const fw_plugin_head *head = get != NULL ? get(fw_plugin_host_get()) : NULL;
    if (head == NULL)
        return fw_fail(FW_ERR_OPTION, "%s is not a plugin of finewire: it has no %s; run %s, or correct %s", path,
                       place->symbol, place->made_by, place->variable);
    if (head->abi != FW_PLUGIN_ABI || strcmp(head->build, FW_PLUGIN_BUILD) != 0)
        return fw_fail(FW_ERR_OPTION, "%s belongs to another build (it: %u, %.60s; the program: %d, %s); run %s again",
                       path, head->abi, head->abi == FW_PLUGIN_ABI ? head->build : "unknown", FW_PLUGIN_ABI,
                       FW_PLUGIN_BUILD, place->made_by);
    *out = head;
    return FW_OK;
}
