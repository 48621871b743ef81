/* What the program lends to its plugins (libfinewire_cuda.so, libfinewire_nccl.so, libfinewire_mpi.so), which are linked by themselves and
 * without undefined symbols: the error trail, the log and the host allocator are the program's own, so that a message
 * made in a plugin arrives like any other. A plugin compiles device/cuda/host/plugin_base.c, which gives the functions
 * of base/status.h, base/log.h and base/alloc.h on top of this table.
 *
 * Compatibility: a plugin's description begins with `abi` and `build` for ever; both must equal the program's, or the
 * plugin is refused. `build` has a hash of every header that the two sides share. */
#ifndef FW_DEVICE_PLUGIN_HOST_H
#define FW_DEVICE_PLUGIN_HOST_H

#include "base/log.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { FW_PLUGIN_ABI = 1 };

struct fw_device;

typedef struct fw_plugin_host {
    fw_status (*fail)(fw_status status, const char *file, const char *function, int line, const char *message);
    fw_status (*fail_context)(fw_status status, const char *context);
    fw_status (*push)(fw_status status, const char *file, const char *function, int line);
    const char *(*message)(void);
    void (*log)(fw_log_level level, const char *line);
    fw_status (*allocate)(void **out, size_t n, size_t size);
    void (*release)(void *block);
    fw_status (*check_frozen)(const struct fw_device *d, const char *what, size_t bytes);
} fw_plugin_host;

/* How every plugin's description begins. */
typedef struct fw_plugin_head {
    uint32_t abi;
    const char *build;
} fw_plugin_head;

/* The program's table, for the plugin's one exported function. */
const fw_plugin_host *fw_plugin_host_get(void);
/* Which plugin, and how a user comes by it. */
typedef struct fw_plugin_place {
    const char *name, *variable, *symbol;
    const char *made_by;   /* "make cuda" */
    const char *libraries; /* it was built with: "the CUDA libraries" */
} fw_plugin_place;

/* The file `name` beside the program, or what `variable` says; the one exported function `symbol` is called with the
 * table and gives the description, which is checked. *path (owned by the caller, bytes long) is where it was looked for.
 * A plugin stays loaded until the process ends. Errors: FW_ERR_OPTION: not there, cannot be loaded (the loader's own
 * words), of another build. */
fw_status fw_plugin_open(const fw_plugin_head **out, const fw_plugin_place *place, char *path, size_t path_bytes);
/* Whether the variable names a file, which is then meant and no other. */
int fw_plugin_is_named(const char *variable);
/* Where fw_plugin_open would look; whether something is there. */
int fw_plugin_find(const char *name, const char *variable, char *path, size_t path_bytes);

#endif
