/* Buffers and calls of the operations of adapters. C is I; rows of y, dy and z are O + gap apart. */
#include "support/op_build.h"

static const float lora_scale = 1.75f, dropout_p = 0.3f;
static int64_t row_of(const fw_op_shape *s) { return s->O + s->gap; }

BUILD(lora_expand) {
    BUILD_LOCALS;
    add_buffer(c, "y", FW_OP_INOUT, c->t, FW_F64, s->N * row_of(s));
    fill_normal(c, 1);
    add_main_input(c, "u", s->N, s->R, 0);
    add_input(c, "b", s->O * s->R);
}
CALL(lora_expand) { return fw_lora_expand(d, p[0], row_of(s), p[1], p[2], lora_scale, s->N, s->O, s->R, t); }

BUILD(lora_reduce) {
    BUILD_LOCALS;
    add_output(c, "du", s->N * s->R);
    add_main_input(c, "dy", s->N, row_of(s), 0);
    add_input(c, "b", s->O * s->R);
}
CALL(lora_reduce) { return fw_lora_reduce(d, p[0], p[1], row_of(s), p[2], lora_scale, s->N, s->O, s->R, t); }

BUILD(lora_backward_b) {
    BUILD_LOCALS;
    add_accumulated(c, "db", s->O * s->R);
    add_main_input(c, "dy", s->N, row_of(s), 0);
    add_input(c, "u", s->N * s->R);
}
CALL(lora_backward_b) { return fw_lora_backward_b(d, p[0], p[1], row_of(s), p[2], lora_scale, s->N, s->O, s->R, t); }

BUILD(lora_backward_input) {
    BUILD_LOCALS;
    add_buffer(c, "dx", FW_OP_INOUT, c->t, FW_F64, s->N * s->C);
    fill_normal(c, 1);
    add_main_input(c, "du", s->N, s->R, 0);
    add_input(c, "a", s->R * s->C);
}
CALL(lora_backward_input) { return fw_lora_backward_input(d, p[0], p[1], p[2], s->N, s->C, s->R, t); }

BUILD(dropout) {
    BUILD_LOCALS;
    if (s->in_place) {
        add_null(c, "y");
    } else {
        add_output(c, "y", s->N * s->C);
        if (s->with_add) c->buffer[0].use = FW_OP_INOUT, fill_normal(c, 1);
    }
    add_main_input(c, "x", s->N, s->C, s->in_place);
    double *key = add_buffer(c, "key", FW_OP_IN, FW_I64, FW_I64, s->N);
    for (int64_t n = 0; n < s->N; n++) key[n] = (double)(fw_rng_bits(6, 0, (uint64_t)n) >> 12); /* exact as a double */
}
CALL(dropout) {
    return fw_dropout(d, s->in_place ? p[1] : p[0], p[1], s->with_add, p[2], 77, dropout_p, s->N, s->C, t);
}

BUILD(dora_norm) {
    BUILD_LOCALS;
    add_wide_output(c, "norm", s->O);
    add_main_input(c, "w", s->O, s->C, 0);
    add_input(c, "a", s->R * s->C);
    add_input(c, "b", s->O * s->R);
}
CALL(dora_norm) { return fw_dora_norm(d, p[0], p[1], p[2], p[3], lora_scale, s->O, s->C, s->R, t); }

static void add_norm(fw_op_case *c, int64_t n) {
    double *norm = add_wide_input(c, "norm", n, 1);
    for (int64_t o = 0; o < n; o++) norm[o] = rounded(FW_F32, 0.25 + fabs(norm[o]));
}
/* Rows of x lie further apart than those of y. */
static int64_t x_row_of(const fw_op_shape *s) { return s->in_place ? row_of(s) : row_of(s) + s->gap; }
BUILD(dora_scale) {
    BUILD_LOCALS;
    if (s->in_place) {
        add_null(c, "y");
    } else {
        add_output(c, "y", s->N * row_of(s));
        if (s->with_add) c->buffer[0].use = FW_OP_INOUT, fill_normal(c, 1);
    }
    add_main_input(c, "x", s->N, x_row_of(s), s->in_place);
    if (s->without) {
        add_null(c, "m");
        add_null(c, "norm");
        add_null(c, "b");
    } else {
        add_input(c, "m", s->O);
        add_norm(c, s->O);
        add_input(c, "b", s->O);
    }
}
CALL(dora_scale) {
    return fw_dora_scale(d, s->in_place ? p[1] : p[0], row_of(s), s->with_add ? 0.75f : 0, p[1], x_row_of(s), -1.5f,
                         p[2], p[3], p[4], s->N, s->O, t);
}

BUILD(dora_backward_m) {
    BUILD_LOCALS;
    add_accumulated(c, "dm", s->O);
    add_main_input(c, "dy", s->N, row_of(s), 0);
    add_input(c, "z", s->N * (row_of(s) + s->gap));
    add_norm(c, s->O);
}
CALL(dora_backward_m) {
    return fw_dora_backward_m(d, p[0], p[1], row_of(s), p[2], row_of(s) + s->gap, p[3], s->N, s->O, t);
}

/* Every code and every entry of a map of 8 bits; scales far apart. */
BUILD(unpack_4bit) {
    BUILD_LOCALS;
    const int64_t block_n = s->C == 0 ? 0 : (s->C + s->D - 1) / s->D;
    add_output(c, "y", s->C);
    double *code = add_buffer(c, "code", FW_OP_IN, FW_U8, FW_U8, (s->C + 1) / 2);
    for (int64_t i = 0; i < (s->C + 1) / 2; i++) code[i] = (double)(fw_rng_bits(8, 0, (uint64_t)i) % 256);
    add_buffer(c, "map", FW_OP_IN, FW_F32, FW_F32, 16);
    fill_normal(c, 1);
    if (s->without) {
        add_buffer(c, "absmax", FW_OP_IN, FW_F32, FW_F32, block_n);
        fill_normal(c, 1e-3);
        return;
    }
    add_null(c, "absmax");
    double *scale_code = add_buffer(c, "scale_code", FW_OP_IN, FW_U8, FW_U8, block_n);
    for (int64_t i = 0; i < block_n; i++) scale_code[i] = (double)(fw_rng_bits(9, 0, (uint64_t)i) % 256);
    add_buffer(c, "map8", FW_OP_IN, FW_F32, FW_F32, 256);
    fill_normal(c, 1);
    add_buffer(c, "nested", FW_OP_IN, FW_F32, FW_F32, (block_n + s->G - 1) / s->G);
    fill_normal(c, 2e-2);
    add_buffer(c, "offset", FW_OP_IN, FW_F32, FW_F32, 1);
    fill_normal(c, 3e-2);
}
CALL(unpack_4bit) {
    fw_quant_scales scales = {.block = s->D, .absmax = p[3]};
    if (!s->without) {
        scales.scale_code = p[4], scales.map8 = p[5], scales.nested = p[6], scales.offset = p[7];
        scales.nested_block = s->G;
    }
    return fw_unpack_4bit(d, p[0], p[1], p[2], &scales, s->C, t);
}
