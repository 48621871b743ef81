/* What bounds are written with (op_bounds.c says what they are, op_bounds_adapter.c). */
#ifndef FW_TESTS_SUPPORT_OP_BOUND_H
#define FW_TESTS_SUPPORT_OP_BOUND_H

#include "support/op_cases.h"

#include <math.h>

static const double U = 0x1p-24, FLOOR = 0x1p-126;
enum { EXP = 8 };

static inline double sum_share(int64_t n) { return (fmin((double)n, 4 * sqrt((double)n)) + 2) * U; }

/* Rounding error of type t as a share. */
static inline double share_of(fw_dtype t) { return t == FW_BF16 ? 0x1p-8 : t == FW_F16 ? 0x1p-11 : U; }

static inline void set(fw_op_buffer *b, int64_t i, double y, double error) {
    b->bound[i] = error + fw_op_half_ulp(b->type, fabs(y) + error) + FLOOR;
}

#define BOUND(name) void fw_op_bound_##name(fw_op_case *c, double *const *judged)
#define BOUND_LOCALS                                                                                                   \
    const fw_op_shape *s = c->shape;                                                                                   \
    fw_op_buffer *b = c->buffer;                                                                                       \
    (void)s, (void)b, (void)judged

#endif
