/* Names of checkpoint folders. Internal to the room. */
#ifndef FW_STORE_CHECKPOINT_NAMES_H
#define FW_STORE_CHECKPOINT_NAMES_H

#include "store/checkpoint.h"

/* Remove PARENT/NAME. It gets a temporary's name first, so that at no moment a part of it counts. */
fw_status fw_checkpoint_take_away(const char *parent, const char *name);

#endif
