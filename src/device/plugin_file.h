/* Looks at a plugin's file before the loader does, which waits for a writer of a pipe, and whose process dies (SIGBUS)
 * when a shared library ends before what its header promises. */
#ifndef FW_DEVICE_PLUGIN_FILE_H
#define FW_DEVICE_PLUGIN_FILE_H

#include "base/status.h"

/* A regular file with the header of a 64-bit little-endian shared library, whose tables and loaded parts lie inside it.
 * What is in them is left to the loader. Errors: FW_ERR_OPTION: what it is instead. */
fw_status fw_plugin_check_file(const char *path);

#endif
