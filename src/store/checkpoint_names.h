/* Names of checkpoint folders. Internal to the room. */
#ifndef FW_STORE_CHECKPOINT_NAMES_H
#define FW_STORE_CHECKPOINT_NAMES_H

#include <stdint.h>

/* "step-00000050" gives 50; -1 for any other name. */
int64_t fw_checkpoint_step_of(const char *name);

#endif
