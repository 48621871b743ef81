#include "train/course.h"

#include <math.h>

static int64_t steps_of(const fw_course *c, int64_t unit_n) { return (unit_n + c->batch_n - 1) / c->batch_n; }

void fw_course_resume(fw_course *c, int64_t step, int64_t epoch, int64_t position) {
    *c = (fw_course){.unit_n = c->unit_n, .batch_n = c->batch_n};
    int64_t plain_epoch, plain_position;
    fw_course_done(c, step, &plain_epoch, &plain_position);
    if (plain_epoch == epoch && plain_position == position) return;
    c->step = step;
    c->epoch = epoch;
    c->position = position;
}

/* Steps that what is left of the first epoch takes. */
static int64_t first_steps(const fw_course *c) { return steps_of(c, c->unit_n - c->position); }

fw_course_place fw_course_at(const fw_course *c, int64_t step) {
    const int64_t first = first_steps(c), whole = steps_of(c, c->unit_n), at = step - 1 - c->step;
    if (at < first) return (fw_course_place){c->epoch, at, c->position};
    return (fw_course_place){c->epoch + 1 + (at - first) / whole, (at - first) % whole, 0};
}

void fw_course_done(const fw_course *c, int64_t step, int64_t *epoch, int64_t *position) {
    *epoch = c->epoch;
    *position = c->position;
    if (step == c->step) return;
    fw_course_place last = fw_course_at(c, step);
    *epoch = last.epoch;
    *position = last.skip_n + (last.step_in_epoch + 1) * c->batch_n;
    if (*position < c->unit_n) return;
    *epoch += 1;
    *position = 0;
}

bool fw_course_ends_epoch(const fw_course *c, int64_t step) {
    int64_t epoch, position;
    fw_course_done(c, step, &epoch, &position);
    return position == 0;
}

double fw_course_epochs(const fw_course *c, int64_t step) {
    if (c->step == 0) return (double)step / (double)steps_of(c, c->unit_n);
    int64_t epoch, position;
    fw_course_done(c, step, &epoch, &position);
    return (double)epoch + (double)position / (double)c->unit_n;
}

double fw_course_steps(const fw_course *c, double epochs) {
    const double whole = (double)steps_of(c, c->unit_n);
    if (c->step == 0) return ceil(epochs * whole);
    double rest = epochs - (double)(c->epoch + 1); /* behind the first epoch */
    if (rest >= 0) return (double)(c->step + first_steps(c)) + ceil(rest * whole);
    double units = ceil((epochs - (double)c->epoch) * (double)c->unit_n) - (double)c->position;
    return (double)c->step + (units > 0 ? ceil(units / (double)c->batch_n) : 0);
}
