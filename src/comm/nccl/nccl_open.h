/* Joining the ranks' GPUs; called by fw_comm_use_device only. */
#ifndef FW_COMM_NCCL_NCCL_OPEN_H
#define FW_COMM_NCCL_NCCL_OPEN_H

#include "comm/comm_internal.h"

/* Collectives of all ranks go between GPUs from now on. Every rank has a GPU. shared: several ranks use one GPU.
 * Collective. Errors: FW_ERR_OPTION (no plugin), FW_ERR_RANK (NCCL's words; the first sums are wrong or do not come). */
fw_status fw_nccl_open(fw_comm *all, int shared);

/* A report of the job's failure (fw_failure_report gave `status`), with what is known of the rank that died. */
fw_status fw_nccl_explain(const fw_comm *c, fw_status status);

/* Tests: take this instead of libfinewire_nccl.so; NULL: no more. */
struct fw_nccl_plugin;
void fw_nccl_replace_plugin(const struct fw_nccl_plugin *plugin);

#endif
