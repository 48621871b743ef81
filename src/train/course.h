/* Which samples of which epoch an optimizer step takes. Arithmetic only.
 *
 * A run that never changed its batch takes batch_n units (samples, or bins with packing) a step from the start. One that was
 * resumed with another batch begins at a place inside of an epoch: what is left of that epoch is cut anew, so each unit
 * is still taken exactly once, in the same order. */
#ifndef FW_TRAIN_COURSE_H
#define FW_TRAIN_COURSE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_course {
    int64_t unit_n, batch_n; /* of an epoch, of a step: all ranks */
    /* after `step` steps, so many whole epochs and units of the next were done; all 0 for the plain course */
    int64_t step, epoch, position;
} fw_course;

/* Where a step (from 1) begins: units [skip_n + step_in_epoch * batch_n, ...) of the epoch's order. */
typedef struct fw_course_place {
    int64_t epoch, step_in_epoch, skip_n;
} fw_course_place;

/* Go on from a checkpoint. It stays the plain course where that leads to the same place. */
void fw_course_resume(fw_course *c, int64_t step, int64_t epoch, int64_t position);
fw_course_place fw_course_at(const fw_course *c, int64_t step);
/* Whole epochs and units of the running one when `step` steps are done. */
void fw_course_done(const fw_course *c, int64_t step, int64_t *epoch, int64_t *position);
double fw_course_epochs(const fw_course *c, int64_t step);
bool fw_course_ends_epoch(const fw_course *c, int64_t step);
/* Steps from the start of the run until so many epochs are done; at least c->step. */
double fw_course_steps(const fw_course *c, double epochs);

#endif
