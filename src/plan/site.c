#include "plan/site.h"

#include "base/host.h"
#include "base/nearest.h"
#include "machine/machine.h"
#include "machine/nccl_ways.h"
#include "shard/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- figures; docs/plan.md says where they come from */

/* What collectives reach of a link's data sheet. */
static const double nvlink_part = 0.80, pcie_part = 0.80, pcie_through_host_part = 0.50, network_part = 0.80;
/* Seconds of one hop of a ring: NVLink, PCIe, network. */
static const double nvlink_hop_s = 4e-6, pcie_hop_s = 6e-6, network_hop_s = 14e-6;
/* What a step's counted operations reach of a card's peak, and passes over memory of its bandwidth. */
static const double compute_part = 0.55, memory_part = 0.85;
/* Multiprocessors that collectives occupy while they run. */
static const double collective_sm_n = 16;
/* Rates that --link takes, GB/s: from a slow network's to more than any link has. */
static const double link_least = 0.001, link_most = 1e5;
static const double step_jitter = 0.005;
/* A server's memory (eight channels reach half of their 200 GB/s), and an NVMe disk of PCIe 4 x4. */
static const double server_memory_rate = 100e9, nvme_rate = 6e9;

/* On a GPU outside the arena: context 0.5 GiB, kernels as they are loaded 0.25 GiB, workspace of products 32 MiB; buffers
 * of NCCL, when there is more than one rank, 0.625 GiB. */
enum { CONTEXT_MIB = 512, KERNELS_MIB = 256, WORKSPACE_MIB = 32, NCCL_MIB = 640 };

/* A CPU that was not measured: operations and bytes a second of one core. */
static const double core_compute_rate = 30e9, core_memory_rate = 8e9, core_copy_rate = 4e9;
enum { CPU_CAP = 4096, NODE_N = 8 };

/* ---- links */

static void set_pcie(fw_plan_link *l, bool through_host, int generation, int lanes) {
    *l = (fw_plan_link){.headline_rate = fw_machine_pcie_bytes_per_s(generation, lanes), .latency_s = pcie_hop_s};
    l->real_rate = l->headline_rate * (through_host ? pcie_through_host_part : pcie_part);
    snprintf(l->name, sizeof l->name, "PCIe %d x%d%s", generation, lanes, through_host ? ", through host memory" : "");
}

static void set_nvlink(fw_plan_link *l, double both_rate) {
    *l = (fw_plan_link){.headline_rate = both_rate / 2,
                        .real_rate = both_rate / 2 * nvlink_part,
                        .latency_s = nvlink_hop_s,
                        .nvlink = true};
    snprintf(l->name, sizeof l->name, "NVLink %g GB/s both ways", both_rate * 1e-9);
}

static fw_status refuse_link(const char *word) {
    static const char *const known[] = {"auto",    "nvlink",  "pcie3x16", "pcie3x8", "pcie4x16",
                                        "pcie4x8", "pcie4x4", "pcie5x16", "pcie5x8", "pcie6x16"};
    fw_nearest nearest;
    fw_nearest_start(&nearest, word);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) fw_nearest_offer(&nearest, known[i]);
    return fw_fail(
        FW_ERR_OPTION,
        "--link is \"%.60s\"; it must be auto, nvlink, pcie and generation and lanes as pcie4x16, or GB/s in "
        "one direction, from %g to %g%s%s%s",
        word, link_least, link_most, nearest.best != NULL ? "; did you mean " : "",
        nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
}

fw_status fw_plan_link_make(fw_plan_link *l, const fw_gpu_card *card, int node_n, const char *word) {
    if (word == NULL || strcasecmp(word, "auto") == 0) {
        /* A consumer board shares 16 lanes between two cards; where there are more, it is another kind of board. */
        if (card->nvlink_both_rate > 0 && node_n <= card->nvlink_peers)
            set_nvlink(l, card->nvlink_both_rate);
        else
            set_pcie(l, card->consumer, card->pcie_generation, card->consumer && node_n == 2 ? 8 : 16);
        return FW_OK;
    }
    if (strcasecmp(word, "nvlink") == 0) {
        if (card->nvlink_both_rate == 0)
            return fw_fail(FW_ERR_OPTION, "--link is nvlink, but %s has none; leave it out for PCIe %d x16",
                           card->title, card->pcie_generation);
        if (node_n > card->nvlink_peers)
            return fw_fail(
                FW_ERR_OPTION,
                "--link is nvlink, but it joins at most %d of %s, and a machine has %d; leave it out for PCIe, "
                "or say --gpus_per_node %d",
                card->nvlink_peers, card->title, node_n, card->nvlink_peers);
        set_nvlink(l, card->nvlink_both_rate);
        return FW_OK;
    }
    int generation = 0, lanes = 0, end = 0;
    if (strncasecmp(word, "pcie", 4) == 0) {
        if (sscanf(word + 4, "%1dx%2d%n", &generation, &lanes, &end) != 2 || word[4 + end] != 0 ||
            fw_pcie_headline_both_rate(generation, lanes) == 0)
            return refuse_link(word);
        set_pcie(l, card->consumer, generation, lanes);
        return FW_OK;
    }
    char *rest;
    double rate = strtod(word, &rest);
    if (rest == word || *rest != 0 || !(rate >= link_least && rate <= link_most)) return refuse_link(word);
    *l = (fw_plan_link){.headline_rate = rate * 1e9, .real_rate = rate * 1e9, .latency_s = pcie_hop_s};
    snprintf(l->name, sizeof l->name, "a link of %g GB/s", rate);
    return FW_OK;
}

/* ---- sites */

static fw_status find_card(const fw_gpu_card **card, const char *name) {
    *card = fw_gpu_card_find(name);
    if (*card != NULL) return FW_OK;
    fw_nearest nearest;
    fw_nearest_start(&nearest, name);
    const char *known;
    for (int i = 0; (known = fw_gpu_card_spelling_at(i)) != NULL; i++) fw_nearest_offer(&nearest, known);
    return fw_fail(FW_ERR_OPTION, "--gpu is \"%.60s\", which is no card known here; %s%s%s", name,
                   nearest.best != NULL ? "did you mean "
                                        : "known are as h100-sxm, l40s, rtx4090 (docs/plan.md lists them)",
                   nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
}

bool fw_plan_site_resize(fw_plan_site *s, int world) {
    if (world < 1 || (world > s->node_cap && world % s->node_cap != 0)) return false;
    s->world = world;
    s->node_n = world < s->node_cap ? world : s->node_cap;
    if (s->card != NULL)
        s->headroom_bytes = (uint64_t)(CONTEXT_MIB + KERNELS_MIB + WORKSPACE_MIB + (world > 1 ? NCCL_MIB : 0)) << 20;
    return true;
}

static fw_status share_out(fw_plan_site *s, const fw_plan_site_wish *w, bool on_gpu) {
    s->world = w->world > 0 ? w->world : 1;
    s->node_cap = w->node_n > 0 ? w->node_n : on_gpu ? NODE_N : s->world;
    if (fw_plan_site_resize(s, s->world)) return FW_OK;
    const int below = s->world / s->node_cap * s->node_cap;
    return fw_fail(FW_ERR_OPTION, "%d devices do not make whole machines of %d; use %d or %d, or say --gpus_per_node",
                   s->world, s->node_cap, below, below + s->node_cap);
}

/* ---- this machine's GPUs */

/* How they are joined: by NVLink if every pair is, else over PCIe as wide as the narrowest, and directly where NCCL takes
 * that way between all of them; what is not known of a pair goes by the kind of card. An idle GPU lowers its link's generation, so that the highest counts; the width stays. */
static void find_link(fw_plan_link *l, const fw_gpu_card *card, const fw_machine *m) {
    bool nvlink = m->gpu_n > 1, direct = true;
    int generation = 0, lanes = 0;
    for (int a = 0; a < m->gpu_n; a++) {
        const fw_machine_gpu *gpu = &m->gpu[a];
        if (gpu->pcie_gen_max > 0 && (generation == 0 || gpu->pcie_gen_max < generation))
            generation = gpu->pcie_gen_max;
        if (gpu->pcie_width > 0 && (lanes == 0 || gpu->pcie_width < lanes)) lanes = gpu->pcie_width;
        for (int b = 0; b < m->gpu_n; b++) {
            if (a == b) continue;
            const fw_nccl_way way = fw_nccl_way_between(m, a, b);
            const bool unknown = way == FW_WAY_UNKNOWN;
            nvlink = nvlink && (way == FW_WAY_NVLINK || (unknown && fw_machine_pair_of(m, a, b)->nvlink_n > 0));
            direct = direct && (way == FW_WAY_NVLINK || way == FW_WAY_PCIE || (unknown && !card->consumer));
        }
    }
    if (nvlink && card->nvlink_both_rate > 0)
        set_nvlink(l, card->nvlink_both_rate);
    else
        set_pcie(l, !direct, generation > 0 ? generation : card->pcie_generation, lanes > 0 ? lanes : 16);
}

static fw_status find_here(fw_plan_site *s, const fw_machine *m) {
    s->card = fw_gpu_card_find(m->gpu[0].name);
    if (s->card == NULL)
        return fw_fail(
            FW_ERR_OPTION,
            "this machine has %.80s, whose speed is not known here; name the card that is nearest to it with "
            "--gpu, or use --device cpu",
            m->gpu[0].name);
    bool known = false;
    for (int i = 0; i < m->gpu_n; i++) {
        const int64_t all = m->gpu[i].memory_bytes, used = m->gpu[i].memory_used_bytes;
        if (all <= 0) continue;
        const uint64_t free_bytes = used <= 0 ? (uint64_t)all : used < all ? (uint64_t)(all - used) : 0;
        if (!known || free_bytes < s->memory_bytes) s->memory_bytes = free_bytes;
        known = true;
    }
    if (!known) s->memory_bytes = s->card->memory_bytes;
    return FW_OK;
}

/* ---- a machine with GPUs, here or anywhere */

static fw_status make_gpu(fw_plan_site *s, const fw_plan_site_wish *w) {
    const fw_gpu_card *card = s->card;
    const bool said = w->link != NULL && strcasecmp(w->link, "auto") != 0;
    if (w->gpu == NULL && !said)
        find_link(&s->inside, card, w->machine);
    else
        FW_TRY(fw_plan_link_make(&s->inside, card, s->node_n, w->link));
    const double peak = w->t == FW_F32 ? card->fp32_rate : card->bf16_rate;
    s->compute_rate = peak * compute_part;
    s->memory_rate = card->memory_rate * memory_part;
    s->host_rate = fw_machine_pcie_bytes_per_s(card->pcie_generation, 16) * pcie_part;
    s->host_memory_rate = server_memory_rate;
    s->disk_rate = nvme_rate;
    s->busy_share = collective_sm_n / card->sm_n;
    s->jitter = step_jitter;
    const double gbps = w->network_gbps > 0 ? w->network_gbps : card->nvlink_peers == 8 ? 400.0 * s->node_n : 100;
    s->between = (fw_plan_link){.headline_rate = gbps * 1e9 / 8, .latency_s = network_hop_s};
    s->between.real_rate = s->between.headline_rate * network_part;
    snprintf(s->between.name, sizeof s->between.name, "network of %g Gbit/s a machine%s", gbps,
             w->network_gbps > 0 ? "" : " (assumed)");
    snprintf(s->compute_source, sizeof s->compute_source, "data sheet, %.0f TFLOP/s in %s, %.0f %% of it reached",
             peak * 1e-12, fw_dtype_name(w->t), compute_part * 100);
    snprintf(s->link_source, sizeof s->link_source, "data sheet");
    if (w->gpu != NULL || w->measurements == NULL) return FW_OK;
    return fw_plan_site_use_measured(s, w->measurements, w->machine->gpu[0].name, "nccl", w->t);
}

static fw_status make_cpu(fw_plan_site *s, const fw_plan_site_wish *w) {
    int cpus[CPU_CAP];
    const int cpu_n = fw_host_cpus(cpus, CPU_CAP);
    if (s->node_n < s->world)
        return fw_fail(FW_ERR_OPTION,
                       "ranks on CPUs are planned for one machine; leave out --gpus_per_node, or name a --gpu");
    if (s->world > FW_COMM_MAX_WORLD)
        return fw_fail(FW_ERR_OPTION, "%d ranks on this machine's CPUs; at most %d can be, or name a --gpu", s->world,
                       FW_COMM_MAX_WORLD);
    s->thread_n = w->thread_n > 0 ? w->thread_n : cpu_n / s->world > 0 ? cpu_n / s->world : 1;
    const double cores = (double)cpu_n / s->world; /* of a rank, however many threads it has */
    s->memory_bytes = fw_host_memory_available();
    s->compute_rate = core_compute_rate * cores;
    s->memory_rate = core_memory_rate * cores;
    s->host_rate = core_memory_rate * cores;
    s->host_memory_rate = s->memory_rate * s->world;
    s->disk_rate = nvme_rate;
    s->busy_share = 1; /* copying is done by the cores that compute */
    s->inside = (fw_plan_link){.name = "memory of the machine",
                               .headline_rate = core_copy_rate * cores,
                               .real_rate = core_copy_rate * cores,
                               .latency_s = 2e-5};
    s->between = s->inside;
    snprintf(s->compute_source, sizeof s->compute_source,
             "a guess: 30 GFLOP/s a core; finewire bench --save measures it");
    snprintf(s->link_source, sizeof s->link_source, "a guess: 4 GB/s a core; finewire bench --save measures it");
    FW_TRY(fw_threads_create(&s->threads, s->thread_n, NULL));
    FW_TRY(fw_device_create(&s->device, "cpu", s->threads));
    return w->measurements != NULL ? fw_plan_site_use_measured(s, w->measurements, "cpu", w->mpi ? "mpi" : "shm", w->t)
                                   : FW_OK;
}

void fw_plan_site_fini(fw_plan_site *s) {
    fw_device_destroy(s->device);
    fw_threads_destroy(s->threads);
    fw_plan_measured_destroy(s->measured);
    *s = (fw_plan_site){0};
}

fw_status fw_plan_site_make(fw_plan_site *s, const fw_plan_site_wish *w) {
    *s = (fw_plan_site){0};
    const bool here = !w->cpu && w->gpu == NULL && w->machine != NULL && w->machine->gpu_n > 0;
    const bool on_gpu = here || (!w->cpu && w->gpu != NULL);
    fw_plan_site_wish wish = *w;
    if (!on_gpu && w->link != NULL && strcasecmp(w->link, "auto") != 0)
        return fw_fail(FW_ERR_OPTION, "--link is for GPUs, and no card is named; add --gpu NAME");
    if (here) {
        FW_TRY(find_here(s, w->machine));
        if (wish.world == 0) wish.world = w->machine->gpu_n;
        if (wish.node_n == 0) wish.node_n = w->machine->gpu_n;
    } else if (on_gpu) {
        FW_TRY(find_card(&s->card, w->gpu));
        s->memory_bytes = s->card->memory_bytes;
    }
    FW_TRY(share_out(s, &wish, on_gpu));
    fw_status status = on_gpu ? make_gpu(s, &wish) : make_cpu(s, &wish);
    if (status != FW_OK) fw_plan_site_fini(s);
    return status;
}
