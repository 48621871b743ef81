/* NCCL listens to many variables, and an inherited one can make a job several times slower without a word. */
#include "comm/nccl/nccl_internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

typedef struct warning {
    const char *variable;
    const char *harmless; /* values that change nothing, each between commas: ",0,"; NULL: every value counts */
    const char *effect;
} warning;

static const warning warnings[] = {
    {"NCCL_P2P_DISABLE", ",0,", "GPUs do not read each other's memory: NVLink and PCIe peer access are not used"},
    {"NCCL_P2P_LEVEL", ",SYS,5,", "peer access is used only between GPUs that are near enough"},
    {"NCCL_P2P_DIRECT_DISABLE", ",0,", "GPUs of one process do not read each other's memory directly"},
    {"NCCL_SHM_DISABLE", ",0,", "ranks of one host talk through the network instead of shared memory"},
    {"NCCL_IB_DISABLE", ",0,", "InfiniBand and RoCE are not used, sockets instead"},
    {"NCCL_NET_DISABLE_INTRA", ",0,", "the way over the network between GPUs of one host is closed"},
    {"NCCL_NVLS_ENABLE", ",1,2,", "sums inside the NVLink switch are not used"},
    {"NCCL_CUMEM_ENABLE", ",1,", "memory cannot be registered for direct access"},
    {"NCCL_ALGO", NULL, "NCCL does not choose its algorithm by itself"},
    {"NCCL_PROTO", NULL, "NCCL does not choose its protocol by itself"},
    {"NCCL_MAX_NCHANNELS", NULL, "fewer channels than NCCL would choose may be used"},
    {"NCCL_MAX_CTAS", NULL, "fewer thread blocks than NCCL would choose may be used"},
    {"NCCL_NTHREADS", NULL, "NCCL does not choose its thread blocks by itself"},
    {"NCCL_BUFFSIZE", NULL, "NCCL does not choose the size of its buffers by itself"},
    {"NCCL_NET", NULL, "the network is not chosen by NCCL"},
    {"NCCL_TOPO_FILE", NULL, "the topology is read from a file instead of being found"},
    {"NCCL_HOSTID", NULL, "ranks with another id count as ranks of another host"},
    {"NCCL_LAUNCH_MODE", ",PARALLEL,", "kernels of collectives are launched in another way"},
    {"NCCL_CTA_POLICY", NULL, "how many multiprocessors collectives take is not finewire's choice"},
};

static int is_harmless(const warning *w, const char *value) {
    const size_t n = strlen(value);
    if (w->harmless == NULL || n == 0) return n == 0;
    for (const char *p = w->harmless; (p = strstr(p, value)) != NULL; p++)
        if (p[-1] == ',' && p[n] == ',') return 1;
    return 0;
}

int fw_nccl_warn_environment(void) {
    int warned_n = 0;
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++) {
        const warning *w = &warnings[i];
        const char *value = getenv(w->variable);
        if (value == NULL || is_harmless(w, value)) continue;
        fw_log_warning("%s=%.60s is set in the environment: %s; unset it unless you mean it", w->variable, value,
                       w->effect);
        warned_n++;
    }
    return warned_n;
}
