/* What `finewire bench --save` kept of this machine, as far as it is about the ranks of a plan. */
#ifndef FW_PLAN_SITE_MEASURED_H
#define FW_PLAN_SITE_MEASURED_H

#include "machine/measured.h"

struct fw_plan_ring;
struct fw_plan_site;

typedef struct fw_plan_measured {
    fw_measured all;                         /* a copy: what the records below are in */
    int world;                               /* of the collectives */
    const fw_measured_record *gemm, *update; /* NULL: not measured */
    const fw_measured_record *all_reduce[2], *all_gather[2], *reduce_scatter[2]; /* of fp32, of bf16 */
} fw_plan_measured;

/* Look for measurements of this host, device, number of ranks and threads, of collectives by this
 * transport ("shm", "mpi", "nccl"); sets the site's rates by them and says so in its
 * sources. Leaves the site as it is when there are none. Errors: FW_ERR_NOMEM. */
fw_status fw_plan_site_use_measured(struct fw_plan_site *site, const fw_measured *measurements, const char *device,
                                    const char *transport, fw_dtype t);
/* takes NULL */
void fw_plan_measured_destroy(fw_plan_measured *m);

/* Seconds of these collectives by what was measured; 0 when it was not. A reduce_scatter or an all_gather that was not
 * measured is half of an all_reduce of the same buffer. m may be NULL. */
double fw_plan_measured_seconds(const fw_plan_measured *m, const struct fw_plan_ring *ring);

#endif
