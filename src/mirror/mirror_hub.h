/* The Hugging Face Hub, through `hf`, the program of huggingface_hub: it knows the Hub's ways of uploading, and the token.
 * Internal to the room.
 *
 *   step-00000050/...     a checkpoint, each in a folder of the repository
 *   newest/newest.json    which of them is the newest complete one
 *   newest/run.json       whose they are
 *   config.json, ...      the model, at the top: the repository can be loaded by its name */
#ifndef FW_MIRROR_MIRROR_HUB_H
#define FW_MIRROR_MIRROR_HUB_H

#include "mirror/mirror_form.h"
#include "mirror/mirror_work.h"

/* There is a program hf. Errors: FW_ERR_OPTION. */
fw_status fw_mirror_hub_find(const char *option);
/* NAME/... of the repository into DIR/NAME/... */
fw_status fw_mirror_hub_get(const fw_mirror_form *f, const char *name, const char *dir, const char *log_path,
                            fw_mirror_work *work);

#endif
