/* The contract of the kinds of mirrors. Internal to the room. */
#ifndef FW_MIRROR_MIRROR_TARGET_H
#define FW_MIRROR_MIRROR_TARGET_H

#include "base/json.h"
#include "mirror/mirror.h"
#include "mirror/mirror_form.h"
#include "mirror/mirror_work.h"
#include "store/run_folder.h"

typedef struct fw_mirror_target {
    const fw_mirror_options *options; /* borrowed */
    fw_mirror_form form, check;       /* check: --mirror_check, no words: none */
    char *log_path;                   /* of commands */
    fw_output_lock lock;              /* FOLDER: one run at a time */
    bool met;                         /* it has been reached, and what it must be is known */
} fw_mirror_target;

/* Errors: FW_ERR_OPTION, FW_ERR_NOMEM. */
fw_status fw_mirror_target_init(fw_mirror_target *t, const fw_mirror_options *options);
void fw_mirror_target_fini(fw_mirror_target *t); /* takes a zeroed one */

/* What is copied: everything in dir, which has no folders in it. */
typedef struct fw_mirror_item {
    const char *dir, *name; /* "step-00000050" or "final" */
    bool is_model;
} fw_mirror_item;

/* Reach it for the first time: is it there, is it ours? Nothing where that cannot be asked.
 * Errors: FW_ERR_OPTION (it holds another run, or cannot work as it was written), FW_ERR_IO (out of reach for now). */
fw_status fw_mirror_target_meet(fw_mirror_target *t);
/* Copy, check, and make it count; nothing when it is there already. What was there under the name is replaced at the end.
 * Errors: FW_ERR_IO and others; then the mirror holds what it held before, as far as it lets us say so. */
fw_status fw_mirror_target_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work);

/* mirror_folder.c, mirror_command.c, mirror_hub.c */
fw_status fw_mirror_folder_check(const char *dir, const char *output_dir, const json_t *identity);
fw_status fw_mirror_folder_meet(fw_mirror_target *t);
fw_status fw_mirror_folder_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work);
fw_status fw_mirror_hub_meet(fw_mirror_target *t);
fw_status fw_mirror_hub_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work);
fw_status fw_mirror_command_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work);

/* The pointer that follows each checkpoint to where names cannot be asked for (commands, the Hub): {"format": "finewire-mirror", "name": "step-00000050"}. */
#define FW_MIRROR_POINTER "newest.json"
#define FW_MIRROR_POINTER_NAME "newest" /* of the folder that it is sent in */
/* *dir (fw_free): a folder that holds the pointer to item and nothing else, until the links are removed. */
fw_status fw_mirror_pointer_write(char **dir, const fw_mirror_target *t, const fw_mirror_item *item);
/* name: "step-" and digits, nothing else. Errors: FW_ERR_INPUT. */
fw_status fw_mirror_pointer_read(char **name, const json_t *pointer, const char *where);

#endif
