/* What is known about a collective once every rank has come to it. */
#ifndef FW_COMM_SHM_SHM_MEET_H
#define FW_COMM_SHM_SHM_MEET_H

#include "comm/shm/shm_internal.h"

typedef struct fw_shm_meeting {
    char *buffer[FW_COMM_MAX_WORLD], *part[FW_COMM_MAX_WORLD]; /* of rank r, as this process sees it; NULL: private */
    int buffers_shared, parts_shared;                          /* those of all ranks are */
} fw_shm_meeting;

/* Publish this rank's descriptor, wait for all, compare. Errors: FW_ERR_RANK, also when the ranks differ: by name. */
fw_status fw_shm_meet(fw_comm *c, const fw_comm_op *op, fw_shm_meeting *out);
fw_status fw_shm_data_barrier(fw_comm *c, const fw_comm_op *op);

#endif
