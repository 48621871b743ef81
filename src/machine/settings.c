/* Sources: NCCL's guide (Environment Variables), CUDA's programming guide (CUDA Environment Variables). */
#include "machine/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const fw_setting_rule rules[] = {
    /* ---- ways between GPUs */
    {"NCCL_P2P_DISABLE", ",0,", FW_SETTING_SLOWS,
     "GPUs do not read each other's memory: NVLink and PCIe peer access are not used"},
    {"NCCL_P2P_LEVEL", ",SYS,5,", FW_SETTING_SLOWS, "peer access is used only between GPUs that are near enough"},
    {"NCCL_P2P_DIRECT_DISABLE", ",0,", FW_SETTING_SLOWS,
     "GPUs of one process do not read each other's memory directly"},
    {"NCCL_IGNORE_DISABLED_P2P", ",0,", FW_SETTING_BREAKS,
     "peer access is tried though the driver says that it does not work"},
    {"NCCL_SHM_DISABLE", ",0,", FW_SETTING_SLOWS,
     "ranks of one host talk through the network instead of shared memory"},
    {"NCCL_NVLS_ENABLE", ",1,2,", FW_SETTING_SLOWS, "sums inside the NVLink switch are not used"},
    {"NCCL_NVB_DISABLE", ",0,", FW_SETTING_SLOWS, "a GPU between two others does not pass data on over NVLink"},
    {"NCCL_CUMEM_ENABLE", ",1,", FW_SETTING_SLOWS, "memory cannot be registered for direct access"},
    {"NCCL_WIN_ENABLE", ",1,", FW_SETTING_SLOWS, "memory is not registered in windows: no all-gather by copy engines"},
    {"NCCL_LOCAL_REGISTER", ",1,", FW_SETTING_SLOWS,
     "memory is not registered: every collective copies through buffers"},
    /* ---- network */
    {"NCCL_IB_DISABLE", ",0,", FW_SETTING_SLOWS, "InfiniBand and RoCE are not used, sockets instead"},
    {"NCCL_NET", NULL, FW_SETTING_SLOWS, "the network is not chosen by NCCL"},
    {"NCCL_NET_PLUGIN", NULL, FW_SETTING_TELLS, "a plugin is the network"},
    {"NCCL_NET_DISABLE_INTRA", ",0,", FW_SETTING_SLOWS, "the way over the network between GPUs of one host is closed"},
    {"NCCL_NET_GDR_LEVEL", NULL, FW_SETTING_SLOWS, "network cards reach a GPU's memory only when they are near enough"},
    {"NCCL_NET_GDR_READ", NULL, FW_SETTING_SLOWS, "whether network cards read a GPU's memory is not chosen by NCCL"},
    {"NCCL_PXN_DISABLE", ",0,", FW_SETTING_SLOWS, "a GPU does not use the network card beside another GPU"},
    {"NCCL_CROSS_NIC", ",2,", FW_SETTING_TELLS, "whether rings change between network cards is not chosen by NCCL"},
    {"NCCL_SOCKET_NTHREADS", NULL, FW_SETTING_SLOWS,
     "how many threads serve a connection by sockets is not NCCL's choice"},
    {"NCCL_NSOCKS_PERTHREAD", NULL, FW_SETTING_SLOWS, "how many sockets a thread serves is not NCCL's choice"},
    {"NCCL_IB_QPS_PER_CONNECTION", ",1,", FW_SETTING_TELLS,
     "a connection by InfiniBand uses several queue pairs: more ways through the fabric, more to be done for each"},
    {"NCCL_DMABUF_ENABLE", ",1,", FW_SETTING_SLOWS,
     "network cards reach a GPU's memory by the module nvidia-peermem only, and where it is not loaded not at all"},
    {"NCCL_MNNVL_ENABLE", ",2,", FW_SETTING_TELLS, "whether NVLink between hosts is used is not found out by NCCL"},
    {"NCCL_SOCKET_IFNAME", NULL, FW_SETTING_TELLS, "hosts meet over the interfaces that it names, and no other"},
    {"NCCL_IB_HCA", NULL, FW_SETTING_TELLS, "only the InfiniBand cards that it names are used"},
    {"NCCL_IB_GID_INDEX", NULL, FW_SETTING_TELLS, "the address of RoCE cards is not chosen by NCCL"},
    {"NCCL_IB_TIMEOUT", NULL, FW_SETTING_TELLS, "how long a lost packet of InfiniBand is waited for"},
    /* ---- how collectives work */
    {"NCCL_ALGO", NULL, FW_SETTING_SLOWS, "NCCL does not choose its algorithm by itself"},
    {"NCCL_PROTO", NULL, FW_SETTING_SLOWS, "NCCL does not choose its protocol by itself"},
    {"NCCL_MIN_NCHANNELS", NULL, FW_SETTING_SLOWS, "more channels than NCCL would choose may be used"},
    {"NCCL_MAX_NCHANNELS", NULL, FW_SETTING_SLOWS, "fewer channels than NCCL would choose may be used"},
    {"NCCL_MAX_P2P_NCHANNELS", NULL, FW_SETTING_SLOWS,
     "all_to_all and other sends may use fewer channels than NCCL would choose"},
    {"NCCL_MIN_CTAS", NULL, FW_SETTING_SLOWS, "more thread blocks than NCCL would choose may be used"},
    {"NCCL_MAX_CTAS", NULL, FW_SETTING_SLOWS, "fewer thread blocks than NCCL would choose may be used"},
    {"NCCL_CTA_POLICY", NULL, FW_SETTING_SLOWS, "how many multiprocessors collectives take is not finewire's choice"},
    {"NCCL_NTHREADS", NULL, FW_SETTING_SLOWS, "NCCL does not choose its thread blocks by itself"},
    {"NCCL_BUFFSIZE", NULL, FW_SETTING_SLOWS, "NCCL does not choose the size of its buffers by itself"},
    {"NCCL_LAUNCH_MODE", ",PARALLEL,", FW_SETTING_SLOWS, "kernels of collectives are launched in another way"},
    {"NCCL_TUNER_PLUGIN", NULL, FW_SETTING_TELLS, "a plugin chooses algorithms and protocols"},
    {"NCCL_CHECKS_DISABLE", ",0,", FW_SETTING_TELLS, "NCCL does not check what it is called with"},
    {"NCCL_COMM_BLOCKING", ",0,", FW_SETTING_BREAKS,
     "NCCL waits by itself: a rank that is gone is waited for without end"},
    /* ---- what it believes of the machine */
    {"NCCL_TOPO_FILE", NULL, FW_SETTING_SLOWS, "the topology is read from a file instead of being found"},
    {"NCCL_GRAPH_FILE", NULL, FW_SETTING_SLOWS, "rings and trees are read from a file instead of being searched"},
    {"NCCL_HOSTID", NULL, FW_SETTING_SLOWS, "ranks with another id count as ranks of another host"},
    {"NCCL_IGNORE_CPU_AFFINITY", ",0,", FW_SETTING_TELLS, "NCCL moves its threads to cores that the job was not given"},
    {"NCCL_DEBUG", ",VERSION,WARN,", FW_SETTING_TELLS, "NCCL prints what it does; TRACE slows it"},
    /* ---- CUDA */
    {"CUDA_VISIBLE_DEVICES", NULL, FW_SETTING_TELLS, "programs see only the GPUs that it names, in its order"},
    {"CUDA_DEVICE_ORDER", ",PCI_BUS_ID,", FW_SETTING_TELLS,
     "CUDA numbers GPUs otherwise than nvidia-smi and finewire topo"},
    {"CUDA_LAUNCH_BLOCKING", ",0,", FW_SETTING_SLOWS, "every kernel is waited for: nothing overlaps"},
    {"CUDA_DEVICE_MAX_CONNECTIONS", ",8,", FW_SETTING_SLOWS,
     "streams share fewer or more queues to the GPU: with 1, computing and collectives take turns"},
    {"CUDA_CACHE_DISABLE", ",0,", FW_SETTING_SLOWS,
     "kernels that are compiled at start are compiled again at every start"},
    {"CUDA_FORCE_PTX_JIT", ",0,", FW_SETTING_SLOWS, "kernels are compiled at start though they are there"},
    {"CUDA_DISABLE_PTX_JIT", ",0,", FW_SETTING_BREAKS,
     "kernels are not compiled for a GPU that is newer than the program: it does not start"},
    {"CUDA_MODULE_LOADING", ",LAZY,DEFAULT,", FW_SETTING_SLOWS,
     "all kernels are loaded at start: slower, and with more memory of the GPU"},
    {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ",100,", FW_SETTING_SLOWS, "a process gets only a part of the GPU"},
    {"CUDA_MPS_PIPE_DIRECTORY", NULL, FW_SETTING_TELLS, "the GPU is shared by MPS where its daemon runs"},
    {"CUDA_INJECTION64_PATH", NULL, FW_SETTING_SLOWS,
     "a library (a profiler) is put into every program that uses CUDA"},
    {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", ",0,", FW_SETTING_SLOWS,
     "an error of a kernel writes the GPU's memory to disk"},
};

const fw_setting_rule *fw_setting_rule_at(size_t i) { return i < sizeof rules / sizeof *rules ? &rules[i] : NULL; }

long long fw_setting_number(const char *value) {
    errno = 0;
    const long long number = strtoll(value, NULL, 0);
    return errno == 0 ? number : 0;
}

/* A number that NCCL reads in another spelling: 00, 0x1, or a word, which it takes for 0. */
static bool is_harmless_number(const fw_setting_rule *rule, const char *value) {
    if (strncmp(rule->variable, "NCCL_", 5) != 0 || rule->harmless[1] < '0' || rule->harmless[1] > '9') return false;
    const long long number = fw_setting_number(value);
    for (const char *p = rule->harmless; *p != 0 && p[1] != 0; p += 1 + strcspn(p + 1, ","))
        if (strtoll(p + 1, NULL, 10) == number) return true;
    return false;
}

static bool is_harmless(const fw_setting_rule *rule, const char *value) {
    const size_t n = strlen(value);
    if (rule->harmless == NULL || n == 0) return n == 0 && strcmp(rule->variable, "CUDA_VISIBLE_DEVICES") != 0;
    for (const char *p = rule->harmless; (p = strstr(p, value)) != NULL; p++)
        if (p > rule->harmless && p[-1] == ',' && p[n] == ',') return true;
    return is_harmless_number(rule, value);
}

const fw_setting_rule *fw_setting_rule_of(const char *variable, const char *value) {
    if (value == NULL) return NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].variable, variable) == 0) return is_harmless(&rules[i], value) ? NULL : &rules[i];
    return NULL;
}
