/* Loops over elements, sixteen at a time and what remains. */
#ifndef FW_DEVICE_CPU_KERNELS_OVER_H
#define FW_DEVICE_CPU_KERNELS_OVER_H

#include "device/cpu/kernels/cpu_vec.h"

/* Runs BODY(at, n) over first..last: n is FW_LANES, a constant, but for the end. */
#define FW_OVER(first, last, BODY)                                                                                     \
    do {                                                                                                               \
        int64_t over_at_ = (first);                                                                                    \
        for (; over_at_ + FW_LANES <= (last); over_at_ += FW_LANES) BODY(over_at_, FW_LANES);                          \
        if (over_at_ < (last)) BODY(over_at_, (last)-over_at_);                                                        \
    } while (0)

FW_INLINE fw_v get(const void *x, int64_t at, int64_t n, fw_dtype t) {
    return n == FW_LANES ? v_get(x, at, t) : v_get_some(x, at, n, t);
}
FW_INLINE void put(void *y, int64_t at, fw_v v, int64_t n, fw_dtype t) {
    if (n == FW_LANES)
        v_put(y, at, v, t);
    else
        v_put_some(y, at, v, n, t);
}

#endif
