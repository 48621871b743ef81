#include "machine/sysfs.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* root + the formatted path; false when it is too long. */
static bool make_path(char out[PATH_MAX], const char *root, const char *format, va_list arguments) {
    const int root_n = snprintf(out, PATH_MAX, "%s", root);
    if (root_n < 0 || root_n >= PATH_MAX) return false;
    const int n = vsnprintf(out + root_n, (size_t)(PATH_MAX - root_n), format, arguments);
    return n >= 0 && n < PATH_MAX - root_n;
}

#define PATH_OF_ARGUMENTS(ok, path, root, format)                                                                      \
    va_list arguments;                                                                                                 \
    va_start(arguments, format);                                                                                       \
    const bool ok = make_path(path, root, format, arguments);                                                          \
    va_end(arguments)

void fw_sysfs_clean(char *out, size_t out_bytes, const char *text, size_t text_bytes) {
    size_t n = 0;
    for (; n + 1 < out_bytes && n < text_bytes && text[n] != 0; n++)
        out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    out[n] = 0;
}

static size_t read_file(void *out, size_t out_bytes, const char *path) {
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    const size_t n = fread(out, 1, out_bytes, f);
    fclose(f);
    return n;
}

static bool read_line(char *out, size_t out_bytes, const char *path) {
    char text[1024];
    const size_t n = read_file(text, sizeof text - 1, path);
    text[n] = 0;
    char *line = text + strspn(text, " \t"), *end = line + strcspn(line, "\n");
    while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
    fw_sysfs_clean(out, out_bytes, line, (size_t)(end - line));
    return out[0] != 0;
}

bool fw_sysfs_read_line(char *out, size_t out_bytes, const char *root, const char *format, ...) {
    char path[PATH_MAX];
    PATH_OF_ARGUMENTS(ok, path, root, format);
    out[0] = 0;
    return ok && read_line(out, out_bytes, path);
}

int64_t fw_sysfs_read_number(int64_t min, int64_t max, const char *root, const char *format, ...) {
    char path[PATH_MAX], line[64], *end;
    PATH_OF_ARGUMENTS(ok, path, root, format);
    if (!ok || !read_line(line, sizeof line, path)) return FW_MACHINE_UNKNOWN;
    errno = 0;
    const long long value = strtoll(line, &end, 10);
    return errno == 0 && end != line && value >= min && value <= max ? value : FW_MACHINE_UNKNOWN;
}

size_t fw_sysfs_read_bytes(void *out, size_t out_bytes, const char *root, const char *format, ...) {
    char path[PATH_MAX];
    PATH_OF_ARGUMENTS(ok, path, root, format);
    return ok ? read_file(out, out_bytes, path) : 0;
}

FILE *fw_sysfs_open(const char *root, const char *format, ...) {
    char path[PATH_MAX];
    PATH_OF_ARGUMENTS(ok, path, root, format);
    return ok ? fopen(path, "re") : NULL;
}

bool fw_sysfs_real_path(char out[FW_SYSFS_PATH_BYTES], const char *root, const char *format, ...) {
    char path[PATH_MAX], real[PATH_MAX], real_root[PATH_MAX] = "";
    PATH_OF_ARGUMENTS(ok, path, root, format);
    out[0] = 0;
    if (!ok || realpath(path, real) == NULL) return false;
    if (root[0] != 0 && realpath(root, real_root) == NULL) return false;
    const size_t root_n = strlen(real_root), n = strlen(real);
    if (strncmp(real, real_root, root_n) != 0 || n - root_n >= FW_SYSFS_PATH_BYTES) return false;
    memcpy(out, real + root_n, n - root_n + 1);
    return true;
}

bool fw_sysfs_exists(const char *root, const char *format, ...) {
    char path[PATH_MAX];
    PATH_OF_ARGUMENTS(ok, path, root, format);
    return ok && access(path, F_OK) == 0;
}

fw_status fw_sysfs_list(char ***names, size_t *name_n, const char *root, const char *path) {
    char whole[PATH_MAX];
    *names = NULL;
    *name_n = 0;
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return FW_OK;
    const fw_status status = fw_dir_list(names, name_n, whole);
    return status == FW_ERR_NOMEM ? status : FW_OK;
}

/* ---- lists of CPUs ---- */

enum { CPU_CAP = 1 << 20 };

/* The next range "a" or "a-b" of the list; moves *at behind it and its comma. False at the end and where it is none. */
static bool next_range(const char **at, long *first, long *last) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    *first = *last = strtol(*at, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return false;
        *last = strtol(end + 1, &end, 10);
    }
    if (*first > *last || *last >= CPU_CAP || (*end != 0 && *end != ',')) return false;
    *at = *end == ',' ? end + 1 : end;
    return true;
}

int fw_cpu_list_count(const char *list) {
    long first, last, n = 0;
    while (next_range(&list, &first, &last)) n += last - first + 1;
    return *list != 0 || n == 0 || n > CPU_CAP ? -1 : (int)n;
}

int fw_cpu_list_first(const char *list) {
    long first, last;
    return next_range(&list, &first, &last) ? (int)first : -1;
}

bool fw_cpu_list_has(const char *list, int cpu) {
    long first, last;
    while (next_range(&list, &first, &last))
        if (cpu >= first && cpu <= last) return true;
    return false;
}
