/* The learning rate of an optimizer step. One unit everywhere: optimizer steps, counted from 1.
 *
 *   warm-up   step s <= w:  s / w                            the peak is reached at step w
 *             log: log(1 + s) / log(1 + w)                 DeepSpeed's log(s) / log(w), moved like the linear one
 *   linear    s > w:        (T - (s - 1)) / (T - w)          the last step still has a rate above 0
 *   cosine    s > w:        (1 + cos(pi (s - 1 - w) / (T - w))) / 2
 *   constant                1, without warm-up; constant_with_warmup: 1 after it
 *
 * times the peak rate, T steps in all, w of them warm-up. After the warm-up these are the values of transformers'
 * schedules; during it transformers gives (s - 1) / w, so that its first step does nothing. */
#ifndef FW_TRAIN_SCHEDULE_H
#define FW_TRAIN_SCHEDULE_H

#include "config/options.h"

#include <stdint.h>

typedef struct fw_schedule {
    fw_lr_schedule kind;
    fw_warmup_type warmup;
    double peak;
    int64_t warmup_n, total_n; /* steps */
} fw_schedule;

double fw_schedule_rate(const fw_schedule *schedule, int64_t step);

#endif
