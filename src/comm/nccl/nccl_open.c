/* From ranks that know each other to GPUs that do: the plugin, the id, the communicator, and a first sum that is checked
 * and timed, so that a machine whose GPUs cannot reach each other is found out before the model is read. */
#include "comm/nccl/nccl_open.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "comm/nccl/nccl_internal.h"
#include "comm/shm/shm_internal.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plugin and its parts ---- */

/* NCCL refuses two ranks on one GPU of a host. As ranks of different hosts, which talk through sockets, it takes them:
 * for tests, and the only way to run several ranks on a machine with one GPU. What the user has set stands. */
static void pretend_hosts(int rank) {
    char id[32];
    snprintf(id, sizeof id, "finewire-rank-%d", rank);
    setenv("NCCL_HOSTID", id, 0);
    setenv("NCCL_NET", "Socket", 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_MNNVL_ENABLE", "0", 0);
    setenv("NCCL_RAS_ENABLE", "0", 0);
    setenv("NCCL_CUMEM_HOST_ENABLE", "0", 0);
}

static const fw_nccl_plugin *replaced;

void fw_nccl_replace_plugin(const fw_nccl_plugin *plugin) { replaced = plugin; }

static fw_status load(fw_nccl *n, const fw_gpu *gpu) {
    n->plugin = replaced;
    if (replaced != NULL) return n->plugin->open_gpu(&n->gpu, gpu);
    static const fw_plugin_place place = {.name = "libfinewire_nccl.so",
                                          .variable = "FINEWIRE_NCCL_PLUGIN",
                                          .symbol = "finewire_nccl_plugin",
                                          .made_by = "make cuda",
                                          .libraries = "the CUDA libraries"};
    char path[4096];
    const fw_plugin_head *head;
    fw_status status = fw_plugin_open(&head, &place, path, sizeof path);
    if (status != FW_OK) return fw_fail_context(status, "several ranks on GPUs need NCCL: ");
    n->plugin = (const fw_nccl_plugin *)(const void *)head;
    return n->plugin->open_gpu(&n->gpu, gpu);
}

static fw_status share_progress(fw_comm *all, fw_nccl *n) {
    void *own;
    fw_shm_host *host = fw_shm_of(all)->host;
    FW_TRY(fw_shm_alloc(all, &own, sizeof(fw_nccl_progress), "progress of collectives"));
    const fw_shm_region *region = &host->region[atomic_load(&host->region_n) - 1];
    n->progress = (fw_nccl_progress *)(void *)region->base;
    n->progress_step_bytes = region->stride_bytes;
    return FW_OK;
}

/* ---- the communicator of all ranks ---- */

static double meeting_s(const fw_comm *all) {
    const fw_comm_options *o = &all->options;
    return o->connect_timeout_s < o->timeout_s ? o->connect_timeout_s : o->timeout_s;
}

static fw_status open_part(fw_comm *all, fw_nccl_part *part) {
    fw_nccl *n = fw_nccl_of(all);
    unsigned char id[FW_NCCL_ID_BYTES] = {0}, everyone[FW_COMM_MAX_WORLD * FW_NCCL_ID_BYTES];
    fw_status status = all->options.rank == 0 ? n->plugin->make_id(id) : FW_OK;
    FW_TRY(fw_comm_agree(all, status));
    FW_TRY(fw_comm_exchange(all, everyone, id, sizeof id));
    status = n->plugin->open(&part->link, n->gpu, everyone, all->options.rank, all->options.world);
    if (status == FW_OK) status = fw_nccl_settle(all, part->link, "joining the other ranks", meeting_s(all));
    return fw_comm_agree(all, status);
}

/* ---- the first sums ---- */

enum { TRY_N = 4 << 20, TRY_BYTES = TRY_N * 4, TRY_TIMES = 4, TRY_PART_N = 1 << 18 };

static fw_status sum_once(fw_comm *all, float *memory, int mark) {
    fw_nccl *n = fw_nccl_of(all);
    fw_nccl_link *link = fw_nccl_part_of(all)->link;
    const fw_nccl_call call = {.kind = FW_NCCL_ALL_REDUCE, .dtype = FW_F32, .n = TRY_N, .buffer = memory};
    FW_TRY(n->plugin->start(link, &call));
    FW_TRY(fw_nccl_settle(all, link, "the first sum", meeting_s(all)));
    FW_TRY(n->plugin->mark(n->gpu, mark));
    const uint64_t end_ns = fw_host_now_ns() + (uint64_t)(meeting_s(all) * 1e9);
    for (int yes = 0; !yes;) {
        FW_TRY(n->plugin->passed(n->gpu, mark, &yes));
        if (fw_failure_is_set(&all->job->failure)) return fw_comm_report_failure(all);
        if (!yes && fw_host_now_ns() > end_ns)
            return fw_fail(
                FW_ERR_RANK,
                "the GPUs joined but their first sum was not done after %.0f s: peer access between them may "
                "be broken; try NCCL_P2P_DISABLE=1 in the environment (slower), and NCCL_DEBUG=INFO tells "
                "more",
                meeting_s(all));
    }
    return n->plugin->await(n->gpu, mark);
}

/* Rank r gives r + 1 + i % 7 at place i, and every place of the sum is looked at. host: TRY_PART_N values. */
static fw_status check_sum(fw_comm *all, float *memory, float *host) {
    const int world = all->options.world, rank = all->options.rank;
    fw_device *d = all->job->device;
    for (int at = 0; at < TRY_N; at += TRY_PART_N) {
        for (int i = 0; i < TRY_PART_N; i++) host[i] = (float)(rank + 1 + (at + i) % 7);
        FW_TRY(fw_copy(d, memory + at, host, TRY_PART_N * sizeof *host));
    }
    FW_TRY(sum_once(all, memory, 0));
    for (int at = 0; at < TRY_N; at += TRY_PART_N) {
        FW_TRY(fw_copy(d, host, memory + at, TRY_PART_N * sizeof *host));
        for (int i = 0; i < TRY_PART_N; i++) {
            const float expected = (float)(world * (world + 1) / 2 + world * ((at + i) % 7));
            if (host[i] != expected)
                return fw_fail(FW_ERR_RANK,
                               "the first sum between the GPUs is wrong (place %d is %g, must be %g): peer access "
                               "between them may be broken; try NCCL_P2P_DISABLE=1 in the environment",
                               at + i, (double)host[i], (double)expected);
        }
    }
    return FW_OK;
}

static fw_status try_sums(fw_comm *all, float *memory, float *host, double *bytes_per_s) {
    const int world = all->options.world;
    FW_TRY(check_sum(all, memory, host));
    const uint64_t start_ns = fw_host_now_ns();
    for (int k = 0; k < TRY_TIMES; k++) FW_TRY(sum_once(all, memory, 0));
    const double bytes = 2.0 * (world - 1) / world * TRY_BYTES * TRY_TIMES;
    *bytes_per_s = bytes * 1e9 / (double)(fw_host_now_ns() - start_ns + 1);
    return FW_OK;
}

static fw_status check_sums(fw_comm *all, double *bytes_per_s) {
    fw_nccl *n = fw_nccl_of(all);
    float *host = NULL;
    void *memory = NULL;
    fw_status status = FW_NEW_ARRAY(host, TRY_PART_N);
    if (status == FW_OK) status = n->plugin->alloc(n->gpu, &memory, TRY_BYTES);
    status = fw_comm_agree(all, status); /* nobody begins a sum that another rank cannot take part in */
    if (status == FW_OK) status = fw_comm_agree(all, try_sums(all, memory, host, bytes_per_s));
    if (status != FW_OK) { /* a sum that does not end would be waited for when its memory goes */
        pthread_mutex_lock(&n->lock);
        n->aborted = 1;
        n->plugin->abort(fw_nccl_part_of(all)->link);
        pthread_mutex_unlock(&n->lock);
    }
    n->plugin->release(n->gpu, memory);
    fw_free(host);
    return status;
}

/* ---- what is said at the start ---- */

/* What rank 0 knows of the machine, and every rank's GPU. */
typedef struct scene {
    fw_machine *machine; /* rank 0 only */
    char pci_id[FW_COMM_MAX_WORLD][FW_MACHINE_PCI_BYTES];
} scene;

/* Before this program sets any variable of NCCL: what the user has set is meant. Collective. */
static fw_status look_around(fw_comm *all, scene *s) {
    char mine[FW_MACHINE_PCI_BYTES] = "";
    snprintf(mine, sizeof mine, "%s", all->job->device->gpu->pci_id);
    FW_TRY(fw_comm_exchange(all, s->pci_id, mine, sizeof mine));
    return fw_comm_agree(all, all->options.rank == 0 ? fw_machine_read(&s->machine, NULL) : FW_OK);
}

/* What is known of the ways between the GPUs, once. Where NVML does not know them, CUDA says at least who reaches whom. */
static fw_status report(const fw_comm *all, const scene *s, double bytes_per_s, int shared) {
    const fw_nccl *n = fw_nccl_of(all);
    const int v = n->plugin->version();
    fw_strbuf ways = {0};
    char peers[256];
    fw_log_info("nccl      %d.%d.%d, all_reduce of 16 MiB: %.1f GB/s (bus)%s", v / 10000, v / 100 % 100, v % 100,
                bytes_per_s / 1e9, shared ? "; several ranks share a GPU and talk through sockets" : "");
    fw_status status = fw_nccl_ways_of_ranks(&ways, s->machine, s->pci_id, all->options.world);
    const char *known = ways.len_bytes > 0 ? fw_strbuf_text(&ways) : "not known (no NVML)";
    if (status == FW_OK && !shared && strstr(known, "not known") == NULL) {
        fw_log_info("paths     %s", known);
    } else if (status == FW_OK && !shared) {
        n->plugin->describe_peers(n->gpu, peers, sizeof peers);
        fw_log_info("paths     %s; direct access between GPUs:%s%s", known, peers[0] == ' ' ? "" : " ", peers);
    }
    fw_strbuf_fini(&ways);
    if (status == FW_OK) fw_nccl_warn_settings(s->machine, bytes_per_s);
    return status;
}

/* ---- */

static fw_status open_all(fw_comm *all, const scene *s, int shared) {
    fw_nccl *n = fw_nccl_of(all);
    fw_nccl_part *part;
    double bytes_per_s = 0;
    FW_TRY(fw_comm_agree(all, load(n, all->job->device->gpu)));
    FW_TRY(share_progress(all, n));
    FW_TRY(FW_NEW(part));
    fw_status status = open_part(all, part);
    if (status == FW_OK) status = fw_nccl_add_part(all, part);
    if (status != FW_OK) {
        if (all->gpu_part == NULL) {
            n->plugin->close(part->link, 0);
            fw_free(part);
        }
        return status;
    }
    FW_TRY(check_sums(all, &bytes_per_s));
    if (all->options.rank == 0) FW_TRY(report(all, s, bytes_per_s, shared));
    return fw_nccl_start_watchdog(all);
}

static fw_status open_with(fw_comm *all, scene *s, int shared) {
    fw_nccl *n;
    FW_TRY(look_around(all, s));
    if (shared) pretend_hosts(all->options.rank);
    FW_TRY(FW_NEW(n));
    n->host = all->transport;
    pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&n->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    all->job->nccl = n;
    all->transport = &fw_nccl_transport;
    /* A failure from here on ends the job: the transport's destroy takes down what was made. */
    return open_all(all, s, shared);
}

fw_status fw_nccl_open(fw_comm *all, int shared) {
    scene *s;
    FW_TRY(FW_NEW(s));
    const fw_status status = open_with(all, s, shared);
    fw_machine_destroy(s->machine);
    fw_free(s);
    return status;
}
