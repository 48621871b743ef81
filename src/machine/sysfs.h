/* Small files of /sys and /proc, below a root, so that tests can lay out a machine in a folder. What is missing,
 * unreadable or nonsense is unknown; nothing fails. Paths are formats, taken below `root` ("" for the real ones). */
#ifndef FW_MACHINE_SYSFS_H
#define FW_MACHINE_SYSFS_H

#include "machine/machine.h"

#include <stdio.h>

enum { FW_SYSFS_PATH_BYTES = 512 };

/* The first line without blanks around it; what is not printable ASCII becomes '?'. False, and "" when there is none. */
bool fw_sysfs_read_line(char *out, size_t out_bytes, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The whole number that the first line begins with; FW_MACHINE_UNKNOWN when there is none or it is out of bounds. */
int64_t fw_sysfs_read_number(int64_t min, int64_t max, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The file's beginning as bytes; returns how many. */
size_t fw_sysfs_read_bytes(void *out, size_t out_bytes, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For files of many lines; NULL when it cannot be opened. */
FILE *fw_sysfs_open(const char *root, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where a symbolic link leads in the end, without root before it. False, and "" when it leads nowhere, or out of root. */
bool fw_sysfs_real_path(char out[FW_SYSFS_PATH_BYTES], const char *root, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool fw_sysfs_exists(const char *root, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Names in a folder, sorted; name_n is 0 when it cannot be read. Free with fw_dir_list_free. Errors: FW_ERR_NOMEM. */
fw_status fw_sysfs_list(char ***names, size_t *name_n, const char *root, const char *path);

/* Copy a text from outside: cut to fit, ends where its bytes end even without a zero, not printable ASCII becomes '?'. */
void fw_sysfs_clean(char *out, size_t out_bytes, const char *text, size_t text_bytes);

/* ---- lists of CPUs: "0-47,96-143" ---- */

/* How many a list names; -1 when it is not one. */
int fw_cpu_list_count(const char *list);
/* The first it names; -1 when it is not one. */
int fw_cpu_list_first(const char *list);
/* Whether the list names this CPU. */
bool fw_cpu_list_has(const char *list, int cpu);

#endif
