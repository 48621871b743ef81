/* Where collectives find their data: in memory of the host, or of GPUs. */
#include "comm/comm_internal.h"
#include "comm/nccl/nccl_open.h"
#include "device/device.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct card {
    char device[8];
    int32_t has_gpu, index;
    char id[40]; /* of the GPU */
} card;

/* All compute in the same way; a GPU belongs to one rank unless it is asked for. */
static fw_status compare(fw_comm *c, const card *all, int *ranks_on_gpu) {
    const int me = c->options.rank, world = c->options.world;
    *ranks_on_gpu = 1;
    for (int r = 1; r < world; r++)
        if (strcmp(all[r].device, all[0].device) != 0)
            return fw_fail(FW_ERR_OPTION,
                           "rank 0 computes on %.7s and rank %d on %.7s; give --device so that all use the same",
                           all[0].device, r, all[r].device);
    if (!all[me].has_gpu) return FW_OK;
    const char *asked = getenv("FINEWIRE_SHARE_GPU");
    const int may_share = asked != NULL && strcmp(asked, "1") == 0;
    for (int r = 0; r < world; r++)
        for (int s = r + 1; s < world; s++) {
            if (strcmp(all[r].id, all[s].id) != 0) continue;
            if (!may_share)
                return fw_fail(FW_ERR_OPTION,
                               "ranks %d and %d would both use GPU %d: there are fewer GPUs than ranks; use fewer "
                               "--num_processes, make more GPUs visible (CUDA_VISIBLE_DEVICES), or set "
                               "FINEWIRE_SHARE_GPU=1 to share one, for tests (slow)",
                               r, s, all[r].index);
            if (r == me || s == me) ++*ranks_on_gpu;
        }
    return FW_OK;
}

static fw_status meet_on_devices(fw_comm *c, fw_device *d) {
    card mine = {0}, all[FW_COMM_MAX_WORLD];
    snprintf(mine.device, sizeof mine.device, "%s", d->name);
    if (d->gpu != NULL) {
        mine.has_gpu = 1;
        mine.index = d->gpu->index;
        snprintf(mine.id, sizeof mine.id, "%s", d->gpu->id);
    }
    FW_TRY(fw_comm_exchange(c, all, &mine, sizeof mine));
    /* Every rank has seen the same cards and comes to the same answer. */
    FW_TRY(compare(c, all, &c->job->ranks_on_gpu));
    if (d->gpu != NULL && c->options.link == FW_COMM_LINK_MPI)
        return fw_fail(FW_ERR_OPTION, "--transport mpi is for CPU ranks; GPUs of one host are joined by NCCL: leave "
                                      "--transport out, or use --device cpu");
    int shared = 0;
    for (int r = 0; r < c->options.world; r++)
        for (int s = r + 1; s < c->options.world; s++) shared |= mine.has_gpu && strcmp(all[r].id, all[s].id) == 0;
    return d->gpu != NULL ? fw_nccl_open(c, shared) : FW_OK;
}

fw_status fw_comm_use_device(fw_comm *c, fw_device *device) {
    FW_TRY(fw_comm_refuse_group(c, "fw_comm_use_device"));
    c->job->device = device;
    if (c->options.world == 1) return FW_OK;
    fw_status status = meet_on_devices(c, device);
    if (status != FW_OK) {
        fw_comm_abort(c, status);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    return FW_OK;
}

int fw_comm_ranks_on_gpu(const fw_comm *c) { return c->job->ranks_on_gpu > 0 ? c->job->ranks_on_gpu : 1; }

fw_status fw_comm_report_failure(const fw_comm *c) {
    const fw_status status = fw_failure_report(&c->job->failure, c->job->all->options.rank);
    return c->job->nccl != NULL ? fw_nccl_explain(c, status) : status;
}
