/* Whether all ranks were started to do the same. finewire's own launcher sees to that; another launcher, or somebody with
 * several terminals, may give each rank options and files of its own, and each would train its share in its own way. */
#ifndef FW_TRAIN_SAME_JOB_H
#define FW_TRAIN_SAME_JOB_H

#include "comm/comm.h"
#include "config/options.h"

/* Error on every rank: FW_ERR_OPTION naming the first option that differs, its two values and the two ranks. Options that
 * concern a rank alone (threads, display) may differ. Collective. */
fw_status fw_same_options(fw_comm *comm, const fw_options *options);
/* The same for what a rank has read: `hash` of it, `what` for the message ("other conversations from FILE"). */
fw_status fw_same_content(fw_comm *comm, uint64_t hash, const char *what, const char *path);

#endif
