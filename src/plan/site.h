/* Where a run would be: how many ranks, what each may take, how fast it computes and what joins them.
 *
 * Ranks are numbered machine by machine. A link's rates are of one direction, in bytes a second: what is on the data
 * sheet (headline), and what collectives reach of it (real). docs/plan.md gives the source of each figure. */
#ifndef FW_PLAN_SITE_H
#define FW_PLAN_SITE_H

#include "device/device.h"
#include "machine/gpu_card.h"

#include <stdbool.h>

#include "plan/site_measured.h"

enum { FW_PLAN_LINK_NAME_BYTES = 64 };

typedef struct fw_plan_link {
    char name[FW_PLAN_LINK_NAME_BYTES]; /* "PCIe 4 x16" */
    double headline_rate, real_rate;
    double latency_s; /* of one hop of a ring */
    bool nvlink;
} fw_plan_link;

typedef struct fw_plan_site {
    const fw_gpu_card *card; /* NULL: ranks compute on this machine's CPU */
    int world, node_n;       /* ranks in all, and on one machine */
    int node_cap;            /* what a machine has room for */
    uint64_t memory_bytes;   /* of a GPU; of the machine, for all its ranks, on a CPU */
    uint64_t headroom_bytes; /* of a GPU: what the driver and libraries take outside the plan */
    double compute_rate;     /* operations a second of a rank, as a step reaches them */
    double memory_rate;      /* bytes a second, as a pass over memory reaches them */
    double host_rate;        /* bytes a second between device and host memory, one direction */
    double host_memory_rate; /* bytes a second of a machine's own memory, for all its ranks */
    double disk_rate;        /* the same of its disk */
    double busy_share;       /* of computing that collectives beside it take away */
    double jitter;           /* standard deviation of a rank's step time */
    fw_plan_link inside;     /* of one rank, in a machine */
    fw_plan_link between;    /* of one machine, to the others */
    int thread_n;            /* of a rank, on a CPU */
    fw_threads *threads; /* on a CPU: the device that would compute, to be asked for its scratch; copies of a site */
    fw_device *device;   /* borrow them from the one that was made */
    fw_plan_measured *measured;               /* NULL: nothing */
    char compute_source[96], link_source[96]; /* where the rates come from */
} fw_plan_site;

/* What is asked for; 0 and NULL: not said. */
typedef struct fw_plan_site_wish {
    const char *gpu, *link;
    int world, node_n;
    double network_gbps;
    bool cpu; /* this machine's, whatever else there is */
    int thread_n;
    bool mpi;                         /* CPU ranks talk by MPI, not by shared memory */
    fw_dtype t;                       /* computing type; what was measured goes by it */
    const fw_measured *measurements;  /* NULL: none */
    const struct fw_machine *machine; /* this one, when no card is named; NULL: not looked at */
} fw_plan_site_wish;

/* Errors: FW_ERR_OPTION with the nearest known name; a number of devices that machines cannot share out evenly. */
fw_status fw_plan_site_make(fw_plan_site *out, const fw_plan_site_wish *wish);
void fw_plan_site_fini(fw_plan_site *site);

/* The same kind of devices in another number: whole machines, as many as one has where that is less. False when `world` does
 * not make whole machines; the site is unchanged then. Rates stay as they are. */
bool fw_plan_site_resize(fw_plan_site *site, int world);

/* "nvlink", "pcie5x8", "25" (GB/s in one direction), "auto". Errors: FW_ERR_OPTION. */
fw_status fw_plan_link_make(fw_plan_link *out, const fw_gpu_card *card, int node_n, const char *word);

/* Device memory for the scratch of operations on an NVIDIA GPU: what its device would reserve for these limits (cuda_ops.c).
 * Where attention may be cuDNN's, with what it takes when backward is its own too, which depends on the version that is
 * installed. */
size_t fw_plan_gpu_scratch_bytes(const fw_device_limits *limits, const fw_gpu_card *card);

#endif
