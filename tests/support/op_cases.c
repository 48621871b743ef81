/* Buffers and calls of every operation: the table of device/ops.def once more, as data (shapes: op_shapes.c). */
#include "support/op_build.h"

/* --- embedding --- */
BUILD(embedding_forward) {
    BUILD_LOCALS;
    add_output(c, "y", s->N * s->C);
    add_input(c, "w", s->V * s->C);
    add_ids(c, "id", s->N, s->V);
}
CALL(embedding_forward) { return fw_embedding_forward(d, p[0], p[1], p[2], s->N, s->C, s->V, t); }
BUILD(embedding_backward) {
    BUILD_LOCALS;
    add_accumulated(c, "dw", s->V * s->C);
    add_input(c, "dy", s->N * s->C);
    add_ids(c, "id", s->N, s->V);
}
CALL(embedding_backward) { return fw_embedding_backward(d, p[0], p[1], p[2], s->N, s->C, s->V, t); }

/* --- rmsnorm --- */
static const float norm_eps = 1e-5f;
BUILD(rmsnorm_forward) {
    BUILD_LOCALS;
    int64_t row = s->G * s->C + s->gap;
    if (s->in_place)
        add_null(c, "y");
    else
        add_output(c, "y", s->N * (row + s->gap)); /* rows of y lie further apart than those of x */
    add_wide_output(c, "rstd", s->N * s->G);
    add_main_input(c, "x", s->N, row, s->in_place);
    add_input(c, "w", s->C);
}
CALL(rmsnorm_forward) {
    int64_t row = s->G * s->C + s->gap;
    return fw_rmsnorm_forward(d, s->in_place ? p[2] : p[0], s->in_place ? row : row + s->gap, p[1], p[2], row, p[3],
                              norm_eps, s->N, s->G, s->C, t);
}
BUILD(rmsnorm_backward) {
    BUILD_LOCALS;
    int64_t row = s->G * s->C + s->gap;
    if (s->in_place) {
        add_null(c, "dx");
    } else {
        double *dx = add_output(c, "dx", s->N * row);
        if (s->with_add == 2) c->buffer[0].use = FW_OP_INOUT, dx = fill_normal(c, 1);
        (void)dx;
    }
    add_accumulated(c, "dw", s->C);
    add_input(c, "dy", s->N * row);
    if (s->in_place) c->buffer[2].use = FW_OP_INOUT;
    if (s->with_add == 1)
        add_input(c, "dx_add", s->N * row);
    else
        add_null(c, "dx_add");
    const double *x = add_main_input(c, "x", s->N, row, 0);
    add_input(c, "w", s->C);
    double *rstd = add_wide_input(c, "rstd", s->N * s->G, 1);
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t g = 0; g < s->G; g++) {
            double sum = 0;
            for (int64_t i = 0; i < s->C; i++) sum += pow(x[n * row + g * s->C + i], 2);
            rstd[n * s->G + g] = (double)(float)(1 / sqrt(sum / (double)s->C + (double)norm_eps));
        }
    }
}
CALL(rmsnorm_backward) {
    int64_t row = s->G * s->C + s->gap;
    void *dx = s->in_place ? p[2] : p[0];
    return fw_rmsnorm_backward(d, dx, row, p[1], p[2], row, s->with_add == 2 ? dx : p[3], p[4], row, p[5], p[6], s->N,
                               s->G, s->C, t);
}

/* --- rope: tables of 50 positions --- */
enum { ROPE_P = 50 };
BUILD(rope) {
    BUILD_LOCALS;
    int64_t E = s->D / 2;
    add_main_input(c, "x", s->N, s->G * s->D + s->gap, 1);
    double *cosine = add_buffer(c, "cos", FW_OP_IN, FW_F32, FW_F32, ROPE_P * E);
    double *sine = add_buffer(c, "sin", FW_OP_IN, FW_F32, FW_F32, ROPE_P * E);
    for (int64_t i = 0; i < ROPE_P * E; i++) {
        double angle = (double)(i / E) * pow(10000, -(double)(i % E) / (double)E);
        cosine[i] = (double)(float)cos(angle);
        sine[i] = (double)(float)sin(angle);
    }
    add_ids(c, "position", s->N, ROPE_P);
}
CALL(rope) { return fw_rope(d, p[0], s->G * s->D + s->gap, p[1], p[2], p[3], s->N, s->G, s->D, s->direction, t); }

/* --- matmul: C is I --- */
BUILD(matmul_forward) {
    BUILD_LOCALS;
    if (s->wide_output)
        add_wide_output(c, "y", s->N * s->O);
    else
        add_output(c, "y", s->N * s->O);
    add_main_input(c, "x", s->N, s->C, 0);
    add_input(c, "w", s->O * s->C);
    if (s->without)
        add_null(c, "b");
    else
        add_input(c, "b", s->O);
}
CALL(matmul_forward) {
    return fw_matmul_forward(d, p[0], p[1], p[2], p[3], s->N, s->O, s->C, t,
                             s->wide_output && t != FW_F64 ? FW_F32 : t);
}
BUILD(matmul_backward_input) {
    BUILD_LOCALS;
    add_output(c, "dx", s->N * s->C);
    add_main_input(c, "dy", s->N, s->O, 0);
    add_input(c, "w", s->O * s->C);
}
CALL(matmul_backward_input) { return fw_matmul_backward_input(d, p[0], p[1], p[2], s->N, s->O, s->C, t); }
BUILD(matmul_backward_weight) {
    BUILD_LOCALS;
    add_accumulated(c, "dw", s->O * s->C);
    add_main_input(c, "dy", s->N, s->O, 0);
    add_input(c, "x", s->N * s->C);
}
CALL(matmul_backward_weight) { return fw_matmul_backward_weight(d, p[0], p[1], p[2], s->N, s->O, s->C, t); }
BUILD(bias_backward) {
    BUILD_LOCALS;
    add_accumulated(c, "db", s->O);
    add_main_input(c, "dy", s->N, s->O, 0);
}
CALL(bias_backward) { return fw_bias_backward(d, p[0], p[1], s->N, s->O, t); }

/* --- swiglu: C is F --- */
BUILD(swiglu_forward) {
    BUILD_LOCALS;
    add_output(c, "h", s->N * s->C);
    add_main_input(c, "gu", s->N, 2 * s->C, 0);
}
CALL(swiglu_forward) { return fw_swiglu_forward(d, p[0], p[1], s->N, s->C, t); }
BUILD(swiglu_backward) {
    BUILD_LOCALS;
    if (s->in_place)
        add_null(c, "dgu");
    else
        add_output(c, "dgu", s->N * 2 * s->C);
    add_input(c, "dh", s->N * s->C);
    add_main_input(c, "gu", s->N, 2 * s->C, s->in_place);
}
CALL(swiglu_backward) { return fw_swiglu_backward(d, s->in_place ? p[2] : p[0], p[1], p[2], s->N, s->C, t); }

/* --- add: C is n --- */
BUILD(add) {
    BUILD_LOCALS;
    if (s->in_place)
        add_null(c, "y");
    else
        add_output(c, "y", s->C);
    add_main_input(c, "a", 1, s->C, s->in_place == 1);
    add_input(c, "b", s->C);
    if (s->in_place == 2) c->buffer[2].use = FW_OP_INOUT;
}
CALL(add) { return fw_add(d, p[s->in_place], p[1], p[2], s->C, t); }

/* --- attention: documents are 7 tokens long, or as many as `packed` says if more than 1; the last one is open --- */
enum { DOCUMENT_N = 7 };
static void add_first(fw_op_case *c) {
    const fw_op_shape *s = c->shape;
    if (!s->packed) {
        add_null(c, "first");
        return;
    }
    double *first = add_buffer(c, "first", FW_OP_IN, FW_I32, FW_I32, s->N);
    int64_t document_n = s->packed > 1 ? s->packed : DOCUMENT_N;
    for (int64_t n = 0; n < s->N; n++) first[n] = (double)((s->q_offset + n) / document_n * document_n);
}
static float attention_scale(const fw_op_shape *s) { return 1 / sqrtf((float)s->D); }
BUILD(attention_forward) {
    BUILD_LOCALS;
    int64_t keys = s->q_offset + s->N, kv_row = s->K * s->D + s->gap;
    add_output(c, "o", s->N * s->H * s->D);
    if (s->without)
        add_null(c, "lse");
    else
        add_wide_output(c, "lse", s->N * s->H);
    add_main_input(c, "q", s->N, s->H * s->D + s->gap, 0);
    add_scaled_input(c, "k", keys * kv_row);
    add_input(c, "v", keys * (kv_row + s->gap));
    add_first(c);
}
CALL(attention_forward) {
    return fw_attention_forward(d, p[0], p[1], p[2], s->H * s->D + s->gap, p[3], s->K * s->D + s->gap, p[4],
                                s->K * s->D + 2 * s->gap, p[5], s->N, s->q_offset, s->H, s->K, s->D, attention_scale(s),
                                t);
}
BUILD(attention_backward) {
    BUILD_LOCALS;
    int64_t q_row = s->H * s->D + s->gap, kv_row = s->K * s->D + s->gap, o_n = s->N * s->H * s->D;
    add_output(c, "dq", s->N * fw_op_dq_row(s));
    add_output(c, "dk", s->N * fw_op_dkv_row(s));
    add_output(c, "dv", s->N * fw_op_dkv_row(s));
    add_input(c, "do", o_n);
    double *o = add_input(c, "o", o_n);
    double *lse = add_wide_input(c, "lse", s->N * s->H, 1);
    double *q = add_main_input(c, "q", s->N, q_row, 0);
    double *k = add_scaled_input(c, "k", s->N * kv_row);
    double *v = add_input(c, "v", s->N * (kv_row + s->gap));
    add_first(c);
    int32_t *first = NULL;
    if (s->packed) {
        FW_ASSERT(FW_NEW_ARRAY(first, (size_t)s->N) == FW_OK);
        for (int64_t n = 0; n < s->N; n++) first[n] = (int32_t)c->buffer[9].value[n];
    }
    FW_ASSERT(fw_attention_forward(judge, o, (void *)lse, q, q_row, k, kv_row, v, kv_row + s->gap, first, s->N, 0, s->H,
                                   s->K, s->D, attention_scale(s), FW_F64) == FW_OK);
    for (int64_t i = 0; i < o_n; i++) o[i] = rounded(c->t, o[i]);
    for (int64_t i = 0; i < s->N * s->H; i++) lse[i] = rounded(FW_F32, lse[i]);
    fw_free(first);
}
CALL(attention_backward) {
    int64_t q_row = s->H * s->D + s->gap, kv_row = s->K * s->D + s->gap;
    return fw_attention_backward(d, p[0], fw_op_dq_row(s), p[1], p[2], fw_op_dkv_row(s), p[3], p[4], p[5], p[6], q_row,
                                 p[7], kv_row, p[8], kv_row + s->gap, p[9], s->N, s->H, s->K, s->D, attention_scale(s),
                                 t);
}

/* --- cross entropy --- */
static const float loss_scale = 1 / 37.0f;
BUILD(cross_entropy) {
    BUILD_LOCALS;
    int shared = s->in_place && c->t == FW_F32; /* only fp32 gradients may take the logits' place */
    add_wide_output(c, "loss", s->N);
    if (s->without || shared)
        add_null(c, "dlogits");
    else
        add_output(c, "dlogits", s->N * s->V);
    double *logits = add_wide_input(c, "logits", s->N * s->V, magnitude_of(c));
    if (shared) c->buffer[2].use = FW_OP_INOUT;
    if (s->zero) memset(logits, 0, (size_t)(s->N * s->V) * sizeof *logits);
    add_ids(c, "label", s->N, s->V);
}
CALL(cross_entropy) {
    void *dlogits = s->without ? NULL : p[1] != NULL ? p[1] : p[2];
    return fw_cross_entropy(d, p[0], dlogits, p[2], p[3], s->N, s->V, loss_scale, t);
}

/* --- rows: G is n, the number of rows picked --- */
BUILD(gather_rows) {
    BUILD_LOCALS;
    add_output(c, "y", s->G * s->C);
    add_input(c, "x", s->N * s->C);
    add_ids(c, "row", s->G, s->N);
}
CALL(gather_rows) { return fw_gather_rows(d, p[0], p[1], p[2], s->G, s->C, t); }
BUILD(scatter_rows) {
    BUILD_LOCALS;
    add_output(c, "y", s->N * s->C);
    add_input(c, "x", s->G * s->C);
    double *row = add_buffer(c, "row", FW_OP_IN, FW_I32, FW_I32, s->G);
    uint32_t *order;
    FW_ASSERT(FW_NEW_ARRAY(order, (size_t)s->N) == FW_OK);
    fw_rng_permute(4, 0, order, (uint32_t)s->N);
    for (int64_t i = 0; i < s->G; i++) row[i] = order[i];
    fw_free(order);
}
CALL(scatter_rows) { return fw_scatter_rows(d, p[0], p[1], p[2], s->G, s->N, s->C, t); }

/* --- adamw and the loops over C numbers --- */
static fw_adamw_options adamw_options(const fw_op_shape *s) {
    return (fw_adamw_options){.learning_rate = 1e-2f,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .epsilon = 1e-8f,
                              .weight_decay = s->without ? 0 : 0.1f,
                              .grad_scale = 0.37f,
                              .step = s->step};
}
BUILD(adamw) {
    BUILD_LOCALS;
    add_accumulated(c, "w", s->C);
    add_accumulated(c, "m", s->C);
    double *v = add_accumulated(c, "v", s->C);
    for (int64_t i = 0; i < s->C; i++) v[i] = fabs(v[i]);
    add_buffer(c, "g", FW_OP_INOUT, FW_F32, FW_F32, s->C);
    double *g = fill_normal(c, magnitude_of(c));
    if (s->zero)
        for (int64_t i = 0; i < s->C; i++) g[i] = 0;
    if (s->without)
        add_null(c, "w_compute");
    else
        add_output(c, "w_compute", s->C);
}
CALL(adamw) {
    fw_adamw_options options = adamw_options(s);
    return fw_adamw(d, p[0], p[1], p[2], p[3], p[4], s->C, &options, t);
}
BUILD(sum_squares) {
    BUILD_LOCALS;
    add_buffer(c, "out", FW_OP_OUT, FW_F64, FW_F64, 1);
    c->buffer[0].on_host = 1;
    add_wide_input(c, "x", s->C, magnitude_of(c));
}
CALL(sum_squares) {
    (void)t;
    return fw_sum_squares(d, p[0], p[1], s->C);
}
BUILD(scale) {
    BUILD_LOCALS;
    add_buffer(c, "x", FW_OP_INOUT, FW_F32, FW_F32, s->C);
    fill_normal(c, magnitude_of(c));
}
CALL(scale) {
    (void)t;
    return fw_scale(d, p[0], s->C, loss_scale);
}
BUILD(cast) {
    BUILD_LOCALS;
    /* ties, the ends of every type's range, subnormals and what is no number come before the normal numbers */
    static const double edge[] = {
        0.0,       -0.0,     1 + 0x1p-8,   1 + 0x3p-8,       1 + 0x1p-11,       65504,      65519.99,
        65520,     1e30,     3.4028234e38, 3.39e38,          0x1p-14,           0x1p-24,    0x1p-25,
        0x1.8p-25, 0x1p-130, 0x1p-149,     (double)INFINITY, -(double)INFINITY, (double)NAN};
    add_buffer(c, "y", FW_OP_OUT, s->to, s->to, s->C);
    add_buffer(c, "x", FW_OP_IN, s->from, s->from, s->C);
    double *x = fill_normal(c, 1);
    for (size_t i = 0; i < sizeof edge / sizeof *edge && (int64_t)i < s->C; i++) x[i] = rounded(s->from, edge[i]);
}
CALL(cast) {
    (void)t;
    return fw_cast(d, p[0], s->to, p[1], s->from, s->C);
}
BUILD(zero) {
    BUILD_LOCALS;
    add_buffer(c, "x", FW_OP_OUT, FW_U8, FW_U8, s->C);
}
CALL(zero) {
    (void)t;
    return fw_zero(d, p[0], (size_t)s->C);
}
BUILD(copy) {
    BUILD_LOCALS;
    add_buffer(c, "y", FW_OP_OUT, FW_U8, FW_U8, s->C);
    double *x = add_buffer(c, "x", FW_OP_IN, FW_U8, FW_U8, s->C);
    for (int64_t i = 0; i < s->C; i++) x[i] = (double)(fw_rng_bits(5, 0, (uint64_t)i) % 256);
}
CALL(copy) {
    (void)t;
    return fw_copy(d, p[0], p[1], (size_t)s->C);
}

/* --- the table --- */

/* Operations that move numbers or round once: equal bits. Updates and
 * sum_squares have bounds, but no fp64 form. */
enum {
    same_types_embedding_forward = 1,
    same_types_embedding_backward = 1,
    same_types_rmsnorm_forward = 0,
    same_types_rmsnorm_backward = 0,
    same_types_rope = 0,
    same_types_matmul_forward = 0,
    same_types_matmul_backward_input = 0,
    same_types_matmul_backward_weight = 0,
    same_types_bias_backward = 0,
    same_types_swiglu_forward = 0,
    same_types_swiglu_backward = 0,
    same_types_add = 1,
    same_types_attention_forward = 0,
    same_types_attention_backward = 0,
    same_types_cross_entropy = 0,
    same_types_gather_rows = 1,
    same_types_scatter_rows = 1,
    same_types_lora_expand = 0,
    same_types_lora_reduce = 0,
    same_types_lora_backward_b = 0,
    same_types_lora_backward_input = 0,
    same_types_dropout = 0,
    same_types_dora_norm = 0,
    same_types_dora_scale = 0,
    same_types_dora_backward_m = 0,
    same_types_unpack_4bit = 1,
    same_types_adamw = 1,
    same_types_optimizer_step = 1,
    same_types_step_8bit = 1,
    same_types_factored_sums = 1,
    same_types_factored_moments = 1,
    same_types_factored_direction = 1,
    same_types_sum_squares = 1,
    same_types_scale = 1,
    same_types_cast = 1,
    same_types_zero = 1,
    same_types_copy = 1,
};

const fw_op_kind fw_op_kinds[] = {
#define FW_OP(name, parameters, arguments)                                                                             \
    {#name, same_types_##name, fw_op_build_##name, fw_op_call_##name, fw_op_bound_##name, fw_op_shapes_##name},
#include "device/ops.def"
#undef FW_OP
};
const int fw_op_kind_n = sizeof fw_op_kinds / sizeof *fw_op_kinds;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void fw_op_cases_limits(fw_device_limits *out) {
    *out = (fw_device_limits){0};
    for (int i = 0; i < fw_op_kind_n; i++) {
        for (const fw_op_shape *s = fw_op_kinds[i].shapes; s->name != NULL; s++) {
            out->N = larger(out->N, s->N + s->q_offset);
            out->matmul_dim = larger(out->matmul_dim, larger(larger(s->O, s->C), s->R));
            out->H = larger(out->H, s->H);
            out->K = larger(out->K, s->K);
            out->D = larger(out->D, s->D);
        }
    }
}

fw_status fw_op_case_create(fw_op_case **out, const fw_op_kind *kind, const fw_op_shape *shape, fw_dtype t,
                            fw_device *judge) {
    fw_op_case *c;
    FW_TRY(FW_NEW(c));
    *c = (fw_op_case){.kind = kind, .shape = shape, .t = t, .same_types = kind->same_types};
    kind->build(c, judge);
    *out = c;
    return FW_OK;
}

void fw_op_case_destroy(fw_op_case *c) {
    if (c == NULL) return;
    for (int i = 0; i < c->buffer_n; i++) {
        fw_free(c->buffer[i].value);
        fw_free(c->buffer[i].bound);
    }
    fw_free(c);
}
