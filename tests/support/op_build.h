/* What the tables of cases are written with (op_cases.c, op_cases_adapter.c): adding buffers and filling them. */
#ifndef FW_TESTS_SUPPORT_OP_BUILD_H
#define FW_TESTS_SUPPORT_OP_BUILD_H

#include "support/op_cases.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>

/* --- adding buffers; each returns the first contents, to be filled or changed --- */

static inline double *add_buffer(fw_op_case *c, const char *name, fw_op_use use, fw_dtype type, fw_dtype judge_type,
                                 int64_t n) {
    FW_ASSERT(c->buffer_n < FW_OP_BUFFER_CAP);
    fw_op_buffer *b = &c->buffer[c->buffer_n++];
    *b =
        (fw_op_buffer){.name = name, .use = use, .type = type, .judge_type = c->same_types ? type : judge_type, .n = n};
    FW_ASSERT(FW_NEW_ARRAY(b->value, (size_t)n) == FW_OK);
    FW_ASSERT(FW_NEW_ARRAY(b->bound, (size_t)n) == FW_OK);
    for (int64_t i = 0; i < n; i++) b->value[i] = (double)NAN;
    return b->value;
}

static inline void add_null(fw_op_case *c, const char *name) {
    FW_ASSERT(c->buffer_n < FW_OP_BUFFER_CAP);
    c->buffer[c->buffer_n++] = (fw_op_buffer){.name = name, .n = -1};
}

static inline double rounded(fw_dtype type, double value) {
    if (type == FW_BF16) return (double)fw_bf16_to_f32(fw_bf16_from_f32((float)value));
    if (type == FW_F16) return (double)fw_f16_to_f32(fw_f16_from_f32((float)value));
    return type == FW_F32 ? (double)(float)value : value;
}

/* Normal numbers times `magnitude`, the last buffer added. */
static inline double *fill_normal(fw_op_case *c, double magnitude) {
    const fw_op_buffer *b = &c->buffer[c->buffer_n - 1];
    for (int64_t i = 0; i < b->n; i++)
        b->value[i] = rounded(b->type, magnitude * fw_rng_normal(2, (uint64_t)c->buffer_n, (uint64_t)i));
    return b->value;
}

static inline double magnitude_of(const fw_op_case *c) { return c->shape->magnitude > 0 ? c->shape->magnitude : 1; }

/* Tensors of the compute type: numbers in, nothing yet out. */
static inline double *add_input(fw_op_case *c, const char *name, int64_t n) {
    add_buffer(c, name, FW_OP_IN, c->t, FW_F64, n);
    return fill_normal(c, 1);
}
static inline double *add_scaled_input(fw_op_case *c, const char *name, int64_t n) {
    add_buffer(c, name, FW_OP_IN, c->t, FW_F64, n);
    return fill_normal(c, magnitude_of(c));
}
static inline double *add_output(fw_op_case *c, const char *name, int64_t n) {
    return add_buffer(c, name, FW_OP_OUT, c->t, FW_F64, n);
}
/* The main input, `rows` of `row_n`: large, small or with zero rows as the shape says. `shared`: the output too. */
static inline double *add_main_input(fw_op_case *c, const char *name, int64_t rows, int64_t row_n, int shared) {
    add_buffer(c, name, shared ? FW_OP_INOUT : FW_OP_IN, c->t, FW_F64, rows * row_n);
    double *x = fill_normal(c, magnitude_of(c));
    if (c->shape->zero)
        for (int64_t i = 0; i < rows * row_n; i++) x[i] = i / row_n % 2 == 0 ? 0 : x[i];
    return x;
}
/* fp32 for devices, fp64 for the judge. */
static inline double *add_wide_input(fw_op_case *c, const char *name, int64_t n, double magnitude) {
    add_buffer(c, name, FW_OP_IN, FW_F32, FW_F64, n);
    return fill_normal(c, magnitude);
}
static inline double *add_wide_output(fw_op_case *c, const char *name, int64_t n) {
    return add_buffer(c, name, FW_OP_OUT, FW_F32, FW_F64, n);
}
static inline double *add_accumulated(fw_op_case *c, const char *name, int64_t n) {
    add_buffer(c, name, FW_OP_INOUT, FW_F32, FW_F64, n);
    return fill_normal(c, 1);
}
static inline double *add_ids(fw_op_case *c, const char *name, int64_t n, int64_t limit) {
    double *id = add_buffer(c, name, FW_OP_IN, FW_I32, FW_I32, n);
    for (int64_t i = 0; i < n; i++) id[i] = (double)(fw_rng_bits(3, (uint64_t)limit, (uint64_t)i) % (uint64_t)limit);
    return id;
}

#define BUILD(name) void fw_op_build_##name(fw_op_case *c, fw_device *judge)
#define CALL(name) fw_status fw_op_call_##name(fw_device *d, const fw_op_shape *s, fw_dtype t, void *const *p)
#define BUILD_LOCALS                                                                                                   \
    const fw_op_shape *s = c->shape;                                                                                   \
    (void)judge

#endif
