/* Names of checkpoint folders. Internal to the room. */
#ifndef FW_STORE_CHECKPOINT_NAMES_H
#define FW_STORE_CHECKPOINT_NAMES_H

#include "store/checkpoint.h"

#define FW_CHECKPOINT_FORMAT "finewire-checkpoint" /* "format" of its manifest */
#define FW_CHECKPOINT_ASIDE "set-aside-"           /* before the name of one that a run has passed over or given up */

/* Is the folder, of that name, a checkpoint, complete or damaged? By its manifest, or by its name where it holds nothing but
 * what checkpoints are made of. Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_checkpoint_is_ours(bool *ours, const char *path, const char *name);

/* Remove PARENT/NAME. It gets a temporary's name first, so that at no moment a part of it counts. */
fw_status fw_checkpoint_take_away(const char *parent, const char *name);

#endif
