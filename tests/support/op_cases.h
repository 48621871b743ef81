/* One table of cases for every operation of a device, used by every test that runs operations on two devices.
 *
 * A case is one call: its buffers with their first contents, and, after the judge has run, how far each element
 * of each output may be from what the judge says (0: equal). The table is made from device/ops.def, so an
 * operation without cases does not compile. Nothing here knows which device is under test.
 *
 * The judge is the device "ref". Where rounding matters it runs in fp64 on the same numbers (FW_F64, see
 * device/ref/ref_element.h), and a device must come within its own rounding errors of that. Operations that only move
 * numbers, round once, or work on fp32 alone are judged in the device's types, the first two by equal values. */
#ifndef FW_TESTS_SUPPORT_OP_CASES_H
#define FW_TESTS_SUPPORT_OP_CASES_H

#include "device/device.h"

/* What a case is made from; letters as in device/device.h, C also for F, I and plain counts. */
typedef struct fw_op_shape {
    const char *name;
    int64_t N, C, G, O, V, H, K, D, R, q_offset;
    int64_t gap;       /* elements between the end of a row and the next row, where the operation has strides */
    double magnitude;  /* of the values; 0 stands for 1 */
    int zero;          /* 1: rows 0, 2, 4 ... of the main input are zero */
    int in_place;      /* the output is input number in_place (1 the first that may be shared) */
    int without;       /* an optional argument is NULL */
    int with_add;      /* rmsnorm_backward: 1 dx_add is a buffer of its own, 2 it is dx; dropout, dora_scale: to y */
    int packed;        /* attention: several documents in a row, of 7 tokens or, if more than 1, of `packed` */
    int wide_output;   /* matmul_forward: t_y is FW_F32 */
    int direction;     /* rope */
    int64_t step;      /* adamw, optimizer_step, step_8bit */
    int rule;          /* fw_step_rule */
    int64_t first;     /* factored_: of the elements at hand; N of them, of a matrix of G rows and C columns */
    fw_dtype from, to; /* cast */
} fw_op_shape;

typedef enum fw_op_use { FW_OP_IN, FW_OP_OUT, FW_OP_INOUT } fw_op_use;

typedef struct fw_op_buffer {
    const char *name;
    fw_op_use use;
    fw_dtype type, judge_type;
    int on_host;
    int64_t n;     /* elements; -1: the argument is NULL */
    double *value; /* contents before the call, representable in `type`; outputs hold NaN */
    double *bound; /* outputs: allowed difference */
} fw_op_buffer;

enum { FW_OP_BUFFER_CAP = 12 };

typedef struct fw_op_kind fw_op_kind;

typedef struct fw_op_case {
    const fw_op_kind *kind;
    const fw_op_shape *shape;
    fw_dtype t;
    int same_types;
    int buffer_n;
    fw_op_buffer buffer[FW_OP_BUFFER_CAP];
} fw_op_case;

struct fw_op_kind {
    const char *op;
    int same_types;
    void (*build)(fw_op_case *c, fw_device *judge); /* adds buffers in the order of the operation's parameters */
    fw_status (*call)(fw_device *d, const fw_op_shape *s, fw_dtype t, void *const *p);
    void (*bound)(fw_op_case *c, double *const *judged);
    const fw_op_shape *shapes; /* ends with one without a name */
};

/* Every operation, in the order of ops.def. */
extern const fw_op_kind fw_op_kinds[];
extern const int fw_op_kind_n;

/* Scratch for the largest case. */
void fw_op_cases_limits(fw_device_limits *out);

fw_status fw_op_case_create(fw_op_case **out, const fw_op_kind *kind, const fw_op_shape *shape, fw_dtype t,
                            fw_device *judge);
void fw_op_case_destroy(fw_op_case *c);

/* What a run left behind: the buffers' bytes (all in one piece, for comparing runs) and their values. */
typedef struct fw_op_result {
    double *value[FW_OP_BUFFER_CAP];
    unsigned char *bytes;
    size_t bytes_n;
} fw_op_result;

/* Run the case on d, each buffer between guards: NaN, and closed to the address sanitizer where there is one. skew: elements by which buffers start off their 64-byte alignment. as_judge: in judge_type.
 * Errors: FW_ERR_INTERNAL when the call wrote outside its buffers or into an input; what the call returned. */
fw_status fw_op_case_run(fw_op_result *out, fw_device *d, const fw_op_case *c, int as_judge, int64_t skew);
void fw_op_result_fini(fw_op_result *r);

/* Sets the bounds from the judge's result. */
void fw_op_case_set_bounds(fw_op_case *c, const fw_op_result *judged);

/* FW_ERR_INTERNAL naming the first element that is further from the judge than its bound.
 * *share: the largest difference as a share of its bound. */
fw_status fw_op_case_compare(double *share, const fw_op_case *c, const fw_op_result *tried, const fw_op_result *judged);

/* --- for the table itself (op_cases*.c, op_shapes.c, op_bounds*.c) --- */

/* How far a sum of n products, each of size at most 1 of `size` in total, may be off when carried in fp32. */
double fw_op_sum_error(int64_t n, double size);
/* Elements from a row of dq, dk or dv to the next: further apart than rows of inputs, aligned where the gap is. */
static inline int64_t fw_op_dq_row(const fw_op_shape *s) {
    return s->H * s->D + s->gap + (s->gap > 0 && s->gap % 8 == 0 ? 8 : 1);
}
static inline int64_t fw_op_dkv_row(const fw_op_shape *s) {
    return s->K * s->D + s->gap + (s->gap > 0 && s->gap % 8 == 0 ? 16 : 2);
}
/* Half of the distance between neighbours of type t at |y| + error: what rounding the result may add. */
double fw_op_half_ulp(fw_dtype t, double y);

#define FW_OP(name, parameters, arguments)                                                                             \
    extern const fw_op_shape fw_op_shapes_##name[];                                                                    \
    void fw_op_build_##name(fw_op_case *c, fw_device *judge);                                                          \
    fw_status fw_op_call_##name(fw_device *d, const fw_op_shape *s, fw_dtype t, void *const *p);                       \
    void fw_op_bound_##name(fw_op_case *c, double *const *judged);
#include "device/ops.def"
#undef FW_OP

#endif
