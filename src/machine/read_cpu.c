/* Cores, caches and NUMA nodes, from /proc/cpuinfo and /sys/devices/system. */
#include "machine/read.h"

#include "base/alloc.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { CPU_CAP = 8192, LINE_BYTES = 8192 };

/* ---- /proc/cpuinfo ---- */

typedef struct feature {
    unsigned bit;
    const char *words; /* all of them, as the kernel writes them */
} feature;
static const feature features[] = {{FW_CPU_AVX2, "avx2 fma f16c"},
                                   {FW_CPU_AVX512, "avx512f avx512bw avx512dq avx512vl"},
                                   {FW_CPU_AVX512_BF16, "avx512_bf16"},
                                   {FW_CPU_AMX_BF16, "amx_tile amx_bf16"},
                                   {FW_CPU_NEON, "asimd"},
                                   {FW_CPU_ARM_BF16, "bf16"},
                                   {FW_CPU_SVE, "sve"}};

/* Whether `word` of word_n bytes is one of the words of `list`. */
static bool has_word(const char *list, const char *word, size_t word_n) {
    for (const char *at = list; (at = strstr(at, word)) != NULL; at++) {
        const bool begins = at == list || at[-1] == ' ';
        if (begins && (at[word_n] == ' ' || at[word_n] == 0)) return true;
    }
    return false;
}

static bool has_words(const char *list, const char *words) {
    char word[32];
    for (; *words != 0; words += strspn(words, " ")) {
        const size_t n = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (!has_word(list, word, n)) return false;
        words += n;
    }
    return true;
}

static void read_cpuinfo(fw_machine *m, const char *root) {
    FILE *f = fw_sysfs_open(root, "/proc/cpuinfo");
    if (f == NULL) return;
    char line[LINE_BYTES];
    bool seen_flags = false;
    while (fgets(line, sizeof line, f) != NULL && !(seen_flags && m->cpu.model[0] != 0)) {
        char *colon = strchr(line, ':');
        if (colon == NULL) continue;
        *colon = 0;
        char *value = colon + 1 + strspn(colon + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        line[strcspn(line, "\t")] = 0;
        if (strcmp(line, "model name") == 0 && m->cpu.model[0] == 0)
            fw_sysfs_clean(m->cpu.model, sizeof m->cpu.model, value, strlen(value));
        if (strcmp(line, "vendor_id") == 0) fw_sysfs_clean(m->cpu.vendor, sizeof m->cpu.vendor, value, strlen(value));
        if (strcmp(line, "flags") != 0 && strcmp(line, "Features") != 0) continue;
        seen_flags = true;
        for (size_t i = 0; i < sizeof features / sizeof *features; i++)
            if (has_words(value, features[i].words)) m->cpu.features |= features[i].bit;
        if (has_words(value, "hypervisor") && m->virtual_machine[0] == 0)
            snprintf(m->virtual_machine, sizeof m->virtual_machine, "a hypervisor");
    }
    fclose(f);
}

/* ---- cores and caches ---- */

#define CPU_FOLDER "/sys/devices/system/cpu"

/* The first CPU of each set of siblings stands for it: cores by threads, sockets by packages, caches by sharers. */
static void count_cores(fw_machine_cpu *cpu, const char *online, const char *root) {
    char list[FW_MACHINE_LIST_BYTES];
    bool package_seen[256] = {false};
    int core_n = 0, socket_n = 0, l3_n = 0;
    for (int i = 0; i < CPU_CAP; i++) {
        if (!fw_cpu_list_has(online, i)) continue;
        if (fw_sysfs_read_line(list, sizeof list, root, CPU_FOLDER "/cpu%d/topology/thread_siblings_list", i))
            core_n += fw_cpu_list_first(list) == i;
        const int64_t package = fw_sysfs_read_number(0, 255, root, CPU_FOLDER "/cpu%d/topology/physical_package_id", i);
        if (package >= 0 && !package_seen[package]) socket_n++;
        if (package >= 0) package_seen[package] = true;
        if (fw_sysfs_read_line(list, sizeof list, root, CPU_FOLDER "/cpu%d/cache/index3/shared_cpu_list", i))
            l3_n += fw_cpu_list_first(list) == i;
    }
    if (core_n > 0) cpu->core_n = core_n;
    if (socket_n > 0) cpu->socket_n = socket_n;
    if (l3_n > 0) cpu->l3_n = l3_n;
}

/* "48K", "2048K", "33M"; unknown for anything else. */
static int64_t cache_bytes(const char *text) {
    char *end;
    const long long n = strtoll(text, &end, 10);
    const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 0 ? 0 : -1;
    return n > 0 && n < (1 << 20) && shift >= 0 ? (int64_t)n << shift : FW_MACHINE_UNKNOWN;
}

static void read_caches(fw_machine_cpu *cpu, int first_cpu, const char *root) {
    for (int i = 0; i < 8; i++) {
        char type[16], size[16];
        const int64_t level = fw_sysfs_read_number(1, 4, root, CPU_FOLDER "/cpu%d/cache/index%d/level", first_cpu, i);
        if (level < 0) return;
        if (!fw_sysfs_read_line(type, sizeof type, root, CPU_FOLDER "/cpu%d/cache/index%d/type", first_cpu, i) ||
            !fw_sysfs_read_line(size, sizeof size, root, CPU_FOLDER "/cpu%d/cache/index%d/size", first_cpu, i) ||
            strcmp(type, "Instruction") == 0)
            continue;
        if (level == 1) cpu->l1d_bytes = cache_bytes(size);
        if (level == 2) cpu->l2_bytes = cache_bytes(size);
        if (level == 3) cpu->l3_bytes = cache_bytes(size);
    }
}

/* "Cpus_allowed_list:\t0-3" of /proc/self/status. */
static void read_usable(fw_machine_cpu *cpu, const char *root) {
    FILE *f = fw_sysfs_open(root, "/proc/self/status");
    if (f == NULL) return;
    char line[1024];
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "Cpus_allowed_list:", 18) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        cpu->usable_n = fw_cpu_list_count(line + 18 + strspn(line + 18, " \t"));
    }
    fclose(f);
}

/* ---- NUMA nodes ---- */

/* "Node 0 MemTotal:  263837504 kB", in bytes. */
static int64_t node_memory(int node, const char *key, const char *root) {
    FILE *f = fw_sysfs_open(root, "/sys/devices/system/node/node%d/meminfo", node);
    if (f == NULL) return FW_MACHINE_UNKNOWN;
    char line[256];
    int64_t bytes = FW_MACHINE_UNKNOWN;
    while (fgets(line, sizeof line, f) != NULL) {
        const char *at = strstr(line, key);
        if (at == NULL || at[strlen(key)] != ':') continue;
        const long long kib = atoll(at + strlen(key) + 1);
        if (kib >= 0 && kib < INT64_MAX / 1024) bytes = kib * 1024;
        break;
    }
    fclose(f);
    return bytes;
}

static fw_status read_nodes(fw_machine *m, const char *root) {
    char **names;
    size_t name_n;
    FW_TRY(fw_sysfs_list(&names, &name_n, root, "/sys/devices/system/node"));
    fw_status status = FW_NEW_ARRAY(m->numa, FW_MACHINE_NUMA_CAP);
    for (int node = 0; status == FW_OK && node < 1024 && m->numa_n < FW_MACHINE_NUMA_CAP; node++) {
        char wanted[16];
        bool found = false;
        snprintf(wanted, sizeof wanted, "node%d", node);
        for (size_t i = 0; i < name_n && !found; i++) found = strcmp(names[i], wanted) == 0;
        if (!found) continue;
        fw_machine_numa *numa = &m->numa[m->numa_n++];
        numa->node = node;
        fw_sysfs_read_line(numa->cpus, sizeof numa->cpus, root, "/sys/devices/system/node/node%d/cpulist", node);
        numa->memory_bytes = node_memory(node, "MemTotal", root);
        numa->memory_free_bytes = node_memory(node, "MemFree", root);
    }
    fw_dir_list_free(names, name_n);
    return status;
}

/* ---- */

fw_status fw_machine_read_cpu(fw_machine *m, const char *root) {
    fw_machine_cpu *cpu = &m->cpu;
    char online[FW_MACHINE_LIST_BYTES];
    struct utsname names;
    if (uname(&names) == 0) {
        fw_sysfs_clean(cpu->arch, sizeof cpu->arch, names.machine, sizeof names.machine);
        fw_sysfs_clean(m->kernel, sizeof m->kernel, names.release, sizeof names.release);
    }
    read_cpuinfo(m, root);
    if (fw_sysfs_read_line(online, sizeof online, root, CPU_FOLDER "/online") && fw_cpu_list_count(online) > 0) {
        cpu->thread_n = fw_cpu_list_count(online);
        count_cores(cpu, online, root);
        read_caches(cpu, fw_cpu_list_first(online), root);
        fw_sysfs_read_line(cpu->governor, sizeof cpu->governor, root, CPU_FOLDER "/cpu%d/cpufreq/scaling_governor",
                           fw_cpu_list_first(online));
    }
    read_usable(cpu, root);
    cpu->quota_cpus = fw_cgroup_cpus(root);
    return read_nodes(m, root);
}
