/* Memory, limits, container, clock. */
#include "machine/read.h"

#include "base/cgroup.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

/* ---- memory ---- */

/* "Key:   123 kB", in bytes. */
static int64_t meminfo(const char *key, const char *root) {
    FILE *f = fw_sysfs_open(root, "/proc/meminfo");
    if (f == NULL) return FW_MACHINE_UNKNOWN;
    char line[256];
    int64_t bytes = FW_MACHINE_UNKNOWN;
    const size_t key_n = strlen(key);
    while (bytes < 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, key_n) != 0 || line[key_n] != ':') continue;
        const long long kib = atoll(line + key_n + 1);
        if (kib >= 0 && kib < INT64_MAX / 1024) bytes = kib * 1024;
    }
    fclose(f);
    return bytes;
}

static void read_memory(fw_machine *m, const char *root) {
    m->memory_bytes = meminfo("MemTotal", root);
    m->memory_available_bytes = meminfo("MemAvailable", root);
    uint64_t limit, left;
    if (fw_cgroup_memory(root, &limit, &left)) {
        m->memory_limit_bytes = (int64_t)limit;
        if ((int64_t)left < m->memory_available_bytes) m->memory_available_bytes = (int64_t)left;
    }
    char path[FW_SYSFS_PATH_BYTES];
    struct statvfs disk;
    if (snprintf(path, sizeof path, "%s/dev/shm", root) < (int)sizeof path && statvfs(path, &disk) == 0) {
        m->shm_bytes = (int64_t)(disk.f_blocks * disk.f_frsize);
        m->shm_free_bytes = (int64_t)(disk.f_bavail * disk.f_frsize);
    }
}

/* ---- limits ---- */

static int64_t limit_value(const char *word) {
    if (strncmp(word, "unlimited", 9) == 0) return FW_MACHINE_UNLIMITED;
    char *end;
    const long long value = strtoll(word, &end, 10);
    return end != word && value >= 0 ? value : FW_MACHINE_UNKNOWN;
}

/* "Max open files            1024                 1048576              files" */
static void read_limits(fw_machine *m, const char *root) {
    FILE *f = fw_sysfs_open(root, "/proc/self/limits");
    if (f == NULL) return;
    char line[256], soft[32], hard[32];
    while (fgets(line, sizeof line, f) != NULL) {
        const bool memory = strncmp(line, "Max locked memory", 17) == 0,
                   files = strncmp(line, "Max open files", 14) == 0;
        if ((!memory && !files) || sscanf(line + (memory ? 17 : 14), "%31s %31s", soft, hard) != 2) continue;
        *(memory ? &m->memlock_bytes : &m->nofile_n) = limit_value(soft);
        *(memory ? &m->memlock_hard_bytes : &m->nofile_hard_n) = limit_value(hard);
    }
    fclose(f);
}

/* ---- container, virtual machine ---- */

static void read_container(fw_machine *m, const char *root) {
    char line[256];
    const char *name = "";
    if (fw_sysfs_exists(root, "/var/run/secrets/kubernetes.io"))
        name = "kubernetes";
    else if (fw_sysfs_exists(root, "/.dockerenv"))
        name = "docker";
    else if (fw_sysfs_exists(root, "/run/.containerenv"))
        name = "podman";
    else if (fw_sysfs_read_line(line, sizeof line, root, "/run/systemd/container"))
        name = line;
    snprintf(m->container, sizeof m->container, "%.31s", name);
}

/* The firmware's name of a virtual machine: "QEMU Standard PC (Q35 + ICH9, 2009)". Of a real machine it is its maker's. */
static void read_virtual_machine(fw_machine *m, const char *root) {
    char vendor[48], product[48];
    if (m->virtual_machine[0] == 0) return; /* the CPU says so */
    fw_sysfs_read_line(vendor, sizeof vendor, root, "/sys/class/dmi/id/sys_vendor");
    fw_sysfs_read_line(product, sizeof product, root, "/sys/class/dmi/id/product_name");
    if (vendor[0] != 0 || product[0] != 0)
        snprintf(m->virtual_machine, sizeof m->virtual_machine, "%s%s%s", vendor,
                 vendor[0] != 0 && product[0] != 0 ? " " : "", product);
}

/* ---- */

/* What the kernel thinks of its clock: a daemon that keeps it right (chrony, ntpd, timesyncd) says so to the kernel. */
static void read_clock(fw_machine *m) {
    struct timex clock = {.modes = 0};
    const int state = adjtimex(&clock);
    if (state < 0) return;
    m->clock_synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
    if (clock.esterror >= 0) m->clock_error_us = clock.esterror;
}

void fw_machine_read_system(fw_machine *m, const char *root) {
    read_memory(m, root);
    read_limits(m, root);
    read_container(m, root);
    read_virtual_machine(m, root);
    if (root[0] == 0) read_clock(m); /* a folder has no clock of its own */
}
