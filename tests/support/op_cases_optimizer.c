/* Buffers and calls of updates by the optimizers other than AdamW. */
#include "support/op_build.h"

#include "quant/dynamic_map.h"

static fw_step_options options_of(const fw_op_shape *s) {
    return (fw_step_options){.rule = (fw_step_rule)s->rule,
                             .learning_rate = 1e-2f,
                             .weight_decay = 0.1f,
                             .beta1 = 0.9,
                             .beta2 = s->rule == FW_STEP_VECTOR && s->step == 1 ? 0 : 0.99,
                             .epsilon = s->rule == FW_STEP_VECTOR ? 1e-30f : 1e-8f,
                             .momentum = 0.8f,
                             .dampening = s->in_place ? 0 : 0.2f,
                             .nesterov = s->in_place,
                             .grad_scale = 0.37f,
                             .along = 0.6f,
                             .step = s->step};
}

/* An array that a rule updates; NULL when it has none. */
static double *add_array(fw_op_case *c, const char *name, int is_there) {
    if (is_there) return add_accumulated(c, name, c->shape->C);
    add_null(c, name);
    return NULL;
}

BUILD(optimizer_step) {
    BUILD_LOCALS;
    const int rule = s->rule;
    add_array(c, "w", rule != FW_STEP_VECTOR);
    if (rule == FW_STEP_LAMB) c->buffer[0].use = FW_OP_IN;
    add_array(c, "m", (rule == FW_STEP_SGD && !s->without) || rule == FW_STEP_LION || rule == FW_STEP_LAMB);
    double *v = add_array(c, "v", rule == FW_STEP_LAMB || rule == FW_STEP_VECTOR);
    for (int64_t i = 0; v != NULL && i < s->C; i++) v[i] = fabs(v[i]);
    add_buffer(c, "g", FW_OP_INOUT, FW_F32, FW_F32, s->C);
    double *g = fill_normal(c, magnitude_of(c));
    for (int64_t i = 0; i < s->C && s->zero; i++) g[i] = 0;
}
CALL(optimizer_step) {
    const fw_step_options o = options_of(s);
    (void)t;
    return fw_optimizer_step(d, p[0], p[1], p[2], p[3], s->C, &o);
}

/* Codes of all kinds, and scales; the second block, where there is one, is as it begins. */
static void add_codes(fw_op_case *c, const char *code_name, const char *scale_name, int is_there) {
    const int64_t n = c->shape->C, block_n = (n + FW_DYNAMIC_BLOCK_N - 1) / FW_DYNAMIC_BLOCK_N;
    if (!is_there) {
        add_null(c, code_name);
        add_null(c, scale_name);
        return;
    }
    double *code = add_buffer(c, code_name, FW_OP_INOUT, FW_U8, FW_U8, n);
    for (int64_t i = 0; i < n; i++)
        code[i] = i / FW_DYNAMIC_BLOCK_N == 1 ? 0 : (double)(fw_rng_bits(7, 0, (uint64_t)i) % FW_DYNAMIC_CODES);
    double *scale = add_accumulated(c, scale_name, block_n);
    for (int64_t i = 0; i < block_n; i++) scale[i] = i == 1 ? 0 : fabs(scale[i]) * magnitude_of(c);
    for (int64_t i = 0; i < block_n; i++) scale[i] = rounded(FW_F32, scale[i]);
}

BUILD(step_8bit) {
    BUILD_LOCALS;
    add_accumulated(c, "w", s->C);
    add_codes(c, "code1", "scale1", 1);
    add_codes(c, "code2", "scale2", s->rule == FW_STEP_ADAMW);
    add_buffer(c, "g", FW_OP_INOUT, FW_F32, FW_F32, s->C);
    double *g = fill_normal(c, magnitude_of(c));
    for (int64_t i = 0; i < s->C && s->zero; i++) g[i] = 0;
}
CALL(step_8bit) {
    const fw_step_options o = options_of(s);
    (void)t;
    return fw_step_8bit(d, p[0], p[1], p[2], p[3], p[4], p[5], s->C, &o);
}

BUILD(factored_sums) {
    BUILD_LOCALS;
    add_buffer(c, "row", FW_OP_OUT, FW_F32, FW_F32, s->G);
    add_buffer(c, "col", FW_OP_OUT, FW_F32, FW_F32, s->C);
    add_buffer(c, "g", FW_OP_IN, FW_F32, FW_F32, s->N);
    fill_normal(c, 1);
}
CALL(factored_sums) {
    (void)t;
    return fw_factored_sums(d, p[0], p[1], p[2], s->first, s->N, s->G, s->C, 0.37f, 1e-30f);
}

static void add_positive(fw_op_case *c, const char *name, fw_op_use use, int64_t n) {
    add_buffer(c, name, use, FW_F32, FW_F32, n);
    double *x = fill_normal(c, 1);
    for (int64_t i = 0; i < n; i++) x[i] = rounded(FW_F32, fabs(x[i]) + 0.01);
}
BUILD(factored_moments) {
    BUILD_LOCALS;
    add_positive(c, "row", FW_OP_INOUT, s->G);
    add_positive(c, "col", FW_OP_INOUT, s->C);
    add_positive(c, "sum", FW_OP_INOUT, s->G + s->C);
}
CALL(factored_moments) {
    (void)t;
    return fw_factored_moments(d, p[0], p[1], p[2], s->G, s->C, 0.7f);
}
BUILD(factored_direction) {
    BUILD_LOCALS;
    add_buffer(c, "g", FW_OP_INOUT, FW_F32, FW_F32, s->N);
    fill_normal(c, 1);
    add_positive(c, "factor", FW_OP_IN, s->G + s->C);
}
CALL(factored_direction) {
    (void)t;
    return fw_factored_direction(d, p[0], p[1], s->first, s->N, s->G, s->C, 0.37f);
}
