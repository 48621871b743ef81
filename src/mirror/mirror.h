/* --mirror: what a run saves is copied somewhere else, behind the training.
 *
 * Rank 0 has one thread for it, which copies one thing at a time: the newest complete checkpoint (one that waits is passed
 * over when a newer one comes), and in the end the model. A copy that fails is tried again after 1, 2, 4, ... seconds, at
 * most five minutes, for as long as the run lasts. Nothing here fails a run: offer says nothing, and what could not be copied
 * is what finish returns.
 *
 * Any function but create, finish and destroy only takes a lock that is never held during work. */
#ifndef FW_MIRROR_MIRROR_H
#define FW_MIRROR_MIRROR_H

#include "base/json.h"
#include "store/checkpoint.h"

typedef struct fw_mirror_options {
    const char *to, *check; /* --mirror, --mirror_check (NULL: none) */
    const char *output_dir;
    fw_checkpoint_rules rules; /* what is kept there; keep_n 0: all */
    double timeout_s;          /* of one copy */
    const json_t *identity;    /* of the run (run_folder.h) */
    int64_t from_step;         /* where the run begins: later checkpoints are of a course that is given up */
    int cpu_first, cpu_n;      /* where the thread may run; n = 0: anywhere */
} fw_mirror_options;

typedef struct fw_mirror fw_mirror;

/* What can be seen from the options alone. Errors: FW_ERR_OPTION. */
fw_status fw_mirror_check_options(const char *to, const char *check, int64_t keep_n);

/* The same of what stands there: a folder that holds another run, or is OUTPUT_DIR itself. Writes nothing. Errors: FW_ERR_OPTION. */
fw_status fw_mirror_check_place(const char *to, const char *output_dir, const json_t *identity);

/* A mirror that is out of reach is a warning, and tried again.
 * Errors: FW_ERR_OPTION (it belongs to another run, or another run writes to it), FW_ERR_NOMEM. */
fw_status fw_mirror_create(fw_mirror **out, const fw_mirror_options *options);

/* OUTPUT_DIR/step-... is complete. All take NULL: no mirror. */
void fw_mirror_offer(fw_mirror *m, int64_t step);
/* OUTPUT_DIR/final is complete. */
void fw_mirror_offer_model(fw_mirror *m);
/* The disk is short: a checkpoint that is held only to be copied goes, and is passed over. Returns when it has gone, or after
 * ten seconds. */
void fw_mirror_let_go(fw_mirror *m);

/* For the progress line: "" (nothing yet), "mirror 43%", "mirror step 50", "mirror fails". Returns out. */
enum { FW_MIRROR_TEXT_BYTES = 32 };
const char *fw_mirror_tell(fw_mirror *m, char out[FW_MIRROR_TEXT_BYTES]);

/* No more will come. Waits until all is copied, at most wait_s, until `is_wished` says that nobody wants to wait (NULL: never),
 * or until it has failed four times. Errors: FW_ERR_IO: what the mirror lacks, and why. */
fw_status fw_mirror_finish(fw_mirror *m, double wait_s, int (*is_wished)(void));
/* Stops what is on its way, without waiting for it longer than a few seconds. Takes NULL. */
void fw_mirror_destroy(fw_mirror *m);

#endif
