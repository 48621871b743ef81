/* GPUs as NVML describes them. It is a library from outside: numbers out of bounds are unknown, texts end where their
 * bytes end, and counts are cut to what there is room for. */
#include "machine/read.h"

#include "base/alloc.h"
#include "machine/nvml.h"
#include "machine/pci_id.h"
#include "machine/read_links.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>

/* ---- one value ---- */

typedef fw_nvml_return (*get_number)(fw_nvml_device device, unsigned *n);

static int number(get_number get, fw_nvml_device d, unsigned min, unsigned max) {
    unsigned n = 0;
    if (get == NULL || get(d, &n) != FW_NVML_SUCCESS || n < min || n > max) return FW_MACHINE_UNKNOWN;
    return (int)n;
}

typedef fw_nvml_return (*get_text)(fw_nvml_device device, char *text, unsigned bytes);

static void text(char *out, size_t out_bytes, get_text get, fw_nvml_device d) {
    char raw[256] = {0};
    out[0] = 0;
    if (get != NULL && get(d, raw, FW_MACHINE_NAME_BYTES) == FW_NVML_SUCCESS)
        fw_sysfs_clean(out, out_bytes, raw, FW_MACHINE_NAME_BYTES);
}

/* ---- one GPU ---- */

static void read_memory(fw_machine_gpu *g, const fw_nvml *nvml, fw_nvml_device d) {
    enum { MOST_SHIFT = 50 };
    fw_nvml_memory memory = {0};
    if (nvml->memory(d, &memory) != FW_NVML_SUCCESS || memory.total == 0 || memory.total >> MOST_SHIFT != 0) return;
    g->memory_bytes = (int64_t)memory.total;
    if (memory.used <= memory.total) g->memory_used_bytes = (int64_t)memory.used;
}

static void read_state(fw_machine_gpu *g, const fw_nvml *nvml, fw_nvml_device d) {
    fw_nvml_utilization rates = {0};
    if (nvml->utilization != NULL && nvml->utilization(d, &rates) == FW_NVML_SUCCESS && rates.gpu <= 100)
        g->utilization_percent = (int)rates.gpu;
    g->performance_state = number(nvml->performance_state, d, 0, 15);
    g->compute_mode = (fw_machine_compute_mode)number(nvml->compute_mode, d, 0, FW_COMPUTE_EXCLUSIVE_PROCESS);
    g->persistence = number(nvml->persistence, d, 0, 1);
    unsigned now = 0, pending = 0;
    if (nvml->mig != NULL && nvml->mig(d, &now, &pending) == FW_NVML_SUCCESS && now <= 1) g->mig = (int)now;
    unsigned long long wide = 0;
    if (nvml->throttle != NULL && nvml->throttle(d, &wide) == FW_NVML_SUCCESS && wide >> 62 == 0)
        g->throttle_reasons = (int64_t)wide;
    wide = 0;
    if (nvml->ecc != NULL && nvml->ecc(d, 1, 0, &wide) == FW_NVML_SUCCESS && wide >> 62 == 0)
        g->ecc_uncorrected_n = (int64_t)wide;
    fw_nvml_fabric fabric = {0};
    if (nvml->fabric != NULL && nvml->fabric(d, &fabric) == FW_NVML_SUCCESS && fabric.state <= 3)
        g->fabric_state = fabric.state;
}

static void read_pcie(fw_machine_gpu *g, const fw_nvml *nvml, fw_nvml_device d) {
    g->pcie_gen = number(nvml->pcie_gen, d, 1, 8);
    g->pcie_gen_max = number(nvml->pcie_gen_max, d, 1, 8);
    g->card_gen_max = number(nvml->card_gen_max, d, 1, 8);
    g->pcie_width = number(nvml->pcie_width, d, 1, 32);
    g->pcie_width_max = number(nvml->pcie_width_max, d, 1, 32);
}

/* ---- its processes ---- */

enum { PROCESS_ASK = 256 };

static void add_process(fw_machine_gpu *g, const char *root, unsigned pid, unsigned long long memory) {
    if (g->process_n++ >= FW_MACHINE_PROCESS_CAP) return;
    fw_machine_process *p = &g->process[g->process_n - 1];
    *p = (fw_machine_process){.pid = pid, .memory_bytes = FW_MACHINE_UNKNOWN};
    if (memory >> 50 == 0) p->memory_bytes = (int64_t)memory;
    fw_machine_read_process(p, root);
}

/* The newest call that the driver has. When there are more than were asked for, it says how many and lists none. */
static void read_processes(fw_machine_gpu *g, const fw_nvml *nvml, fw_nvml_device d, const char *root) {
    static _Thread_local fw_nvml_process list[PROCESS_ASK + 8];
    static _Thread_local fw_nvml_process_v1 old[PROCESS_ASK + 8];
    unsigned n = PROCESS_ASK;
    const bool is_old = nvml->processes == NULL && nvml->processes_v2 == NULL;
    fw_nvml_return result;
    if (nvml->processes != NULL)
        result = nvml->processes(d, &n, list);
    else if (nvml->processes_v2 != NULL)
        result = nvml->processes_v2(d, &n, list);
    else if (nvml->processes_v1 != NULL)
        result = nvml->processes_v1(d, &n, old);
    else
        return;
    if (result == FW_NVML_INSUFFICIENT_SIZE) g->process_n = n < 1000000 ? (int)n : FW_MACHINE_UNKNOWN;
    if (result != FW_NVML_SUCCESS || n > PROCESS_ASK) return;
    g->process_n = 0;
    for (unsigned i = 0; i < n; i++)
        if (is_old)
            add_process(g, root, old[i].pid, old[i].memory);
        else
            add_process(g, root, list[i].pid, list[i].memory);
}

/* "1234 (python3 x) S 1 ...": the name may hold anything, also brackets. */
void fw_machine_read_process(fw_machine_process *p, const char *root) {
    char line[512];
    if (!fw_sysfs_read_line(line, sizeof line, root, "/proc/%lld/stat", (long long)p->pid)) return;
    const char *first = strchr(line, '('), *last = strrchr(line, ')');
    if (first == NULL || last == NULL || last < first || last[1] != ' ' || last[2] == 0) return;
    fw_sysfs_clean(p->name, sizeof p->name, first + 1, (size_t)(last - first - 1));
    p->state = last[2];
    p->orphan = last[3] == ' ' && atoll(last + 4) == 1;
}

/* ---- all ---- */

static void read_gpu(fw_machine_gpu *g, int index, const fw_nvml *nvml, fw_nvml_device d, const char *root) {
    g->index = index;
    text(g->name, sizeof g->name, nvml->name, d);
    text(g->uuid, sizeof g->uuid, nvml->uuid, d);
    fw_nvml_pci pci = {0};
    char bus_id[sizeof pci.bus_id + 1] = {0};
    if (nvml->pci(d, &pci) == FW_NVML_SUCCESS) memcpy(bus_id, pci.bus_id, sizeof pci.bus_id);
    fw_pci_id_parse(g->pci_id, bus_id);
    int major = 0, minor = 0;
    if (nvml->capability != NULL && nvml->capability(d, &major, &minor) == FW_NVML_SUCCESS && major > 0 &&
        major < 100 && minor >= 0 && minor < 10) {
        g->compute_major = major;
        g->compute_minor = minor;
    }
    read_memory(g, nvml, d);
    read_pcie(g, nvml, d);
    read_state(g, nvml, d);
    read_processes(g, nvml, d, root);
}

static void fail(fw_machine *m, const fw_nvml *nvml, fw_nvml_return result) {
    const char *words = nvml->error_text != NULL ? nvml->error_text(result) : NULL;
    m->driver.state = result == FW_NVML_VERSION_MISMATCH ? FW_DRIVER_MISMATCH : FW_DRIVER_FAILED;
    if (words != NULL) fw_sysfs_clean(m->driver.error, sizeof m->driver.error, words, strlen(words));
    if (m->driver.error[0] == 0) snprintf(m->driver.error, sizeof m->driver.error, "NVML error %d", result);
}

/* GPUs that do not answer (lost, not permitted) leave no trace but their number in the PCI list. */
static fw_status read_all(fw_machine *m, const fw_nvml *nvml, unsigned n, const char *root) {
    fw_nvml_device device[FW_MACHINE_GPU_CAP];
    FW_TRY(fw_machine_alloc_gpus(m, (int)n));
    int found = 0;
    for (unsigned i = 0; i < n; i++) {
        fw_nvml_device d = NULL;
        const fw_nvml_return result = nvml->handle(i, &d);
        if (result != FW_NVML_SUCCESS || d == NULL) {
            if (result == FW_NVML_GPU_IS_LOST) m->driver.lost_gpu_n++;
            continue;
        }
        read_gpu(&m->gpu[found], (int)i, nvml, d, root);
        device[found++] = d;
    }
    m->gpu_n = found;
    fw_machine_read_links(m, nvml, device);
    return FW_OK;
}

fw_status fw_machine_read_nvml(fw_machine *m, const char *root, const char *library) {
    fw_nvml nvml;
    const char *missing;
    fw_sysfs_read_line(m->driver.module, sizeof m->driver.module, root, "/sys/module/nvidia/version");
    if (library == NULL) library = getenv("FINEWIRE_NVML");
    if (!fw_nvml_open(&nvml, library != NULL && library[0] != 0 ? library : "libnvidia-ml.so.1", &missing)) {
        m->driver.state = missing != NULL ? FW_DRIVER_FAILED : FW_DRIVER_MISSING;
        if (missing != NULL)
            snprintf(m->driver.error, sizeof m->driver.error, "the driver is too old: it lacks %s", missing);
        return FW_OK;
    }
    fw_status status = FW_OK;
    fw_nvml_return result = nvml.init();
    if (result != FW_NVML_SUCCESS) {
        fail(m, &nvml, result);
    } else {
        char raw[256] = {0};
        unsigned n = 0;
        if (nvml.driver_version(raw, 80) == FW_NVML_SUCCESS)
            fw_sysfs_clean(m->driver.version, sizeof m->driver.version, raw, 80);
        int version = 0;
        if (nvml.cuda_version != NULL && nvml.cuda_version(&version) == FW_NVML_SUCCESS && version > 0 &&
            version < 1000000)
            m->driver.cuda_version = version;
        m->driver.state = FW_DRIVER_OK;
        m->driver.lost_gpu_n = 0;
        result = nvml.count(&n);
        if (result != FW_NVML_SUCCESS)
            fail(m, &nvml, result);
        else if (n > FW_MACHINE_GPU_CAP) {
            m->driver.state = FW_DRIVER_FAILED;
            snprintf(m->driver.error, sizeof m->driver.error, "the driver counts %u GPUs", n);
        } else
            status = read_all(m, &nvml, n, root);
        nvml.shutdown();
    }
    fw_nvml_close(&nvml);
    return status;
}
