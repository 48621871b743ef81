/* --max_time: is there time for another step and a save after it? */
#ifndef FW_TRAIN_DEADLINE_H
#define FW_TRAIN_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_deadline {
    double limit_s; /* from begin_ns on; 0: none */
    uint64_t begin_ns;
    double step_s, save_s; /* the longest so far; save_s begins as an estimate */
} fw_deadline;

/* What took so long may take as long again: the longest is kept. */
static inline void fw_deadline_note(double *longest_s, uint64_t ns) {
    double s = (double)ns * 1e-9;
    if (s > *longest_s) *longest_s = s;
}

/* The next step and the save could end after the limit: half as much again is allowed for, and a second to leave. */
static inline bool fw_deadline_is_near(const fw_deadline *d, uint64_t now_ns) {
    return d->limit_s > 0 && (double)(now_ns - d->begin_ns) * 1e-9 + 1.5 * (d->step_s + d->save_s) + 1 > d->limit_s;
}

#endif
