/* A stand-in for libfinewire_nccl.so and a GPU, for ranks that a test forks: collectives run on a thread of each rank, as
 * they would on a GPU's stream, through memory that the ranks share; nothing waits but copies and that thread. */
#ifndef FW_TESTS_SUPPORT_FAKE_NCCL_H
#define FW_TESTS_SUPPORT_FAKE_NCCL_H

#include "comm/nccl/nccl_plugin.h"
#include "device/device.h"

/* Before the ranks are forked; once a test. 0 when it worked. */
int fw_fake_nccl_reset(void);
const fw_nccl_plugin *fw_fake_nccl(void);
/* A device whose memory is on a GPU as far as anybody can see; `index` says which. */
fw_status fw_fake_gpu_create(fw_device **out, int index);
/* What the fake's sums do from now on, in processes forked later: nothing wrong; a wrong number; they never end. */
typedef enum fw_fake_nccl_fault { FW_FAKE_NCCL_GOOD, FW_FAKE_NCCL_WRONG, FW_FAKE_NCCL_HANGS } fw_fake_nccl_fault;
void fw_fake_nccl_break(fw_fake_nccl_fault fault);
/* How many links this process has aborted. */
int fw_fake_nccl_aborted(void);

#endif
