/* How much a target counts in the loss, as a whole number of 2^-16: so that sums of weights are exact, and the same in
 * whatever order and on however many ranks they are made. */
#ifndef FW_BASE_LOSS_WEIGHT_H
#define FW_BASE_LOSS_WEIGHT_H

#include <stdint.h>

typedef int32_t fw_loss_weight;

enum {
    FW_LOSS_WEIGHT_ONE = 1 << 16,
    FW_LOSS_WEIGHT_LARGEST = 1000 /* that a message may have, as a number */
};

/* Of one weight, or of a sum of them. */
static inline double fw_loss_weight_value(int64_t weight) { return (double)weight * 0x1p-16; }

#endif
