#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* First line of a small system file; returns 0 when it cannot be read. */
static int read_line(const char *path, char *line, int line_bytes) {
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    int ok = fgets(line, line_bytes, f) != NULL;
    fclose(f);
    if (ok) line[strcspn(line, "\n")] = 0;
    return ok;
}

/* The group of a controller ("cpu", "memory"; "" for v2) as /proc/self/cgroup says, "/" at the least. Lines are
 * "4:cpu,cpuacct:/slurm/job" and "0::/user.slice". */
static void find_group(char out[PATH_MAX], const char *root, const char *controller) {
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(out, PATH_MAX, "/");
    snprintf(path, sizeof path, "%.2000s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (f == NULL) return;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names != NULL ? strchr(names + 1, ':') : NULL;
        if (group == NULL || group[1] != '/') continue;
        *group++ = 0;
        int found = controller[0] == 0 && names[1] == 0;
        char *rest = NULL;
        for (char *name = strtok_r(names + 1, ",", &rest); name != NULL && !found; name = strtok_r(NULL, ",", &rest))
            found = strcmp(name, controller) == 0 && controller[0] != 0;
        if (found && strstr(group, "..") == NULL) { /* "/.." is a group outside of what can be seen here */
            snprintf(out, PATH_MAX, "%s", group);
            break;
        }
    }
    fclose(f);
}

/* Calls look(folder) for the process's group and each above it, up to the controller's root. */
static void climb(const char *root, const char *controller, void (*look)(const char *folder, void *context),
                  void *context) {
    char group[PATH_MAX], folder[PATH_MAX];
    find_group(group, root, controller);
    for (;;) {
        const int n = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s%s", root, controller[0] != 0 ? "/" : "",
                               controller, strcmp(group, "/") == 0 ? "" : group);
        if (n > 0 && n < (int)sizeof folder) look(folder, context);
        char *slash = strrchr(group, '/');
        if (slash == NULL || strcmp(group, "/") == 0) return;
        slash[slash == group ? 1 : 0] = 0;
    }
}

/* ---- CPUs ---- */

static void take_quota(double *least, double quota, double period) {
    if (quota > 0 && period > 0 && (*least < 0 || quota / period < *least)) *least = quota / period;
}

static void look_cpu_v2(const char *folder, void *context) {
    char path[PATH_MAX], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%.4000s/cpu.max", folder);
    if (read_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2) /* not "max 100000" */
        take_quota(context, quota, period);
}

static void look_cpu_v1(const char *folder, void *context) {
    char path[PATH_MAX], line[128];
    snprintf(path, sizeof path, "%.4000s/cpu.cfs_quota_us", folder);
    if (!read_line(path, line, sizeof line)) return;
    const double quota = atof(line);
    snprintf(path, sizeof path, "%.4000s/cpu.cfs_period_us", folder);
    take_quota(context, quota, read_line(path, line, sizeof line) ? atof(line) : 100000);
}

double fw_cgroup_cpus(const char *root) {
    double least = -1;
    climb(root, "", look_cpu_v2, &least);
    if (least < 0) climb(root, "cpu", look_cpu_v1, &least);
    return least;
}

/* ---- memory ---- */

typedef struct memory {
    uint64_t limit_bytes, left_bytes;
    int found;
} memory;

static int read_number(uint64_t *out, const char *folder, const char *name) {
    char path[PATH_MAX], line[64];
    snprintf(path, sizeof path, "%.4000s/%s", folder, name);
    if (!read_line(path, line, sizeof line) || line[0] < '0' || line[0] > '9') return 0;
    *out = strtoull(line, NULL, 10);
    return 1;
}

static void look_memory(const char *folder, memory *m, const char *limit_name, const char *used_name) {
    uint64_t limit, used = 0;
    if (!read_number(&limit, folder, limit_name) || limit >= INT64_MAX / 2) return; /* v1 writes 2^63 for none */
    read_number(&used, folder, used_name);
    const uint64_t left = limit > used ? limit - used : 0;
    if (m->found && left >= m->left_bytes) return;
    *m = (memory){limit, left, 1};
}

static void look_memory_v2(const char *folder, void *context) {
    look_memory(folder, context, "memory.max", "memory.current");
}
static void look_memory_v1(const char *folder, void *context) {
    look_memory(folder, context, "memory.limit_in_bytes", "memory.usage_in_bytes");
}

int fw_cgroup_memory(const char *root, uint64_t *limit_bytes, uint64_t *left_bytes) {
    memory m = {0};
    climb(root, "", look_memory_v2, &m);
    if (!m.found) climb(root, "memory", look_memory_v1, &m);
    *limit_bytes = m.limit_bytes;
    *left_bytes = m.left_bytes;
    return m.found;
}
