/* The operations of adapters (thin products, whose operands may be parts of longer rows, and loops over rows), and of
 * weights in 4 bits. */
#include "device/cpu/cpu.h"

fw_status fw_cpu_lora_expand(fw_device *d, void *y, int64_t y_stride, const void *u_NR, const void *b_OR, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t) {
    if (N <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {.a = u_NR,
                                .a_row = R,
                                .a_k = 1,
                                .b = b_OR,
                                .b_k = 1,
                                .b_col = R,
                                .c = y,
                                .c_row = y_stride,
                                .M = N,
                                .N = O,
                                .K = R,
                                .t = t,
                                .t_c = t,
                                .add = 1,
                                .factor = scale};
    return fw_cpu_multiply(d, &g);
}

fw_status fw_cpu_lora_reduce(fw_device *d, void *du_NR, const void *dy, int64_t dy_stride, const void *b_OR,
                             float scale, int64_t N, int64_t O, int64_t R, fw_dtype t) {
    if (N <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {.a = dy,
                                .a_row = dy_stride,
                                .a_k = 1,
                                .b = b_OR,
                                .b_k = R,
                                .b_col = 1,
                                .c = du_NR,
                                .c_row = R,
                                .M = N,
                                .N = R,
                                .K = O,
                                .t = t,
                                .t_c = t,
                                .factor = scale};
    return fw_cpu_multiply(d, &g);
}

fw_status fw_cpu_lora_backward_b(fw_device *d, float *db_OR, const void *dy, int64_t dy_stride, const void *u_NR,
                                 float scale, int64_t N, int64_t O, int64_t R, fw_dtype t) {
    if (N <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {.a = dy,
                                .a_row = 1,
                                .a_k = dy_stride,
                                .b = u_NR,
                                .b_k = R,
                                .b_col = 1,
                                .c = db_OR,
                                .c_row = R,
                                .M = O,
                                .N = R,
                                .K = N,
                                .t = t,
                                .t_c = FW_F32,
                                .add = 1,
                                .factor = scale};
    return fw_cpu_multiply(d, &g);
}

fw_status fw_cpu_lora_backward_input(fw_device *d, void *dx_NI, const void *du_NR, const void *a_RI, int64_t N,
                                     int64_t I, int64_t R, fw_dtype t) {
    if (N <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {.a = du_NR,
                                .a_row = R,
                                .a_k = 1,
                                .b = a_RI,
                                .b_k = I,
                                .b_col = 1,
                                .c = dx_NI,
                                .c_row = I,
                                .M = N,
                                .N = I,
                                .K = R,
                                .t = t,
                                .t_c = t,
                                .add = 1,
                                .factor = 1};
    return fw_cpu_multiply(d, &g);
}

/* ---- loops ---- */

typedef struct call {
    fw_cpu *d;
    const fw_cpu_dropout_args *dropout;
    const fw_cpu_dora_args *dora;
} call;

static void drop_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->dropout(c->dropout, first, last);
}
fw_status fw_cpu_dropout(fw_device *d, void *y_NC, const void *x_NC, int add, const uint64_t *key_N, uint64_t salt,
                         float p, int64_t N, int64_t C, fw_dtype t) {
    const fw_cpu_dropout_args s = {
        .y = y_NC, .x = x_NC, .key = key_N, .salt = salt, .C = C, .p = p, .add = add, .t = t};
    call c = {.d = (fw_cpu *)d, .dropout = &s};
    fw_cpu_split(c.d, N, 1, N * C, drop_rows, &c);
    return FW_OK;
}

static void norm_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->dora_norm(c->dora, first, last);
}
fw_status fw_cpu_dora_norm(fw_device *d, float *norm_O, const void *w_OI, const void *a_RI, const void *b_OR,
                           float scale, int64_t O, int64_t I, int64_t R, fw_dtype t) {
    const fw_cpu_dora_args s = {
        .norm = norm_O, .w = w_OI, .a = a_RI, .b = b_OR, .scale = scale, .I = I, .R = R, .t = t};
    call c = {.d = (fw_cpu *)d, .dora = &s};
    fw_cpu_split(c.d, O, 4, O * I * R, norm_rows, &c);
    return FW_OK;
}

static void scale_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    c->d->kernels->dora_scale(c->dora, first, last, fw_cpu_scratch(c->d, thread));
}
fw_status fw_cpu_dora_scale(fw_device *d, void *y, int64_t y_stride, float keep, const void *x, int64_t x_stride,
                            float factor, const void *m_O, const float *norm_O, const void *b_O, int64_t N, int64_t O,
                            fw_dtype t) {
    const fw_cpu_dora_args s = {.y = y,
                                .y_stride = y_stride,
                                .keep = keep,
                                .x = x,
                                .x_stride = x_stride,
                                .factor = factor,
                                .m = m_O,
                                .norm = (float *)(uintptr_t)norm_O,
                                .b = b_O,
                                .O = O,
                                .t = t};
    call c = {.d = (fw_cpu *)d, .dora = &s};
    FW_TRY(fw_cpu_need(c.d, (size_t)(O + 15) / 16 * 16));
    fw_cpu_split(c.d, N, 1, N * O, scale_rows, &c);
    return FW_OK;
}

static void magnitude_columns(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->dora_backward_m(c->dora, first, last);
}
fw_status fw_cpu_dora_backward_m(fw_device *d, float *dm_O, const void *dy, int64_t dy_stride, const void *z,
                                 int64_t z_stride, const float *norm_O, int64_t N, int64_t O, fw_dtype t) {
    if (N <= 0) return FW_OK;
    const fw_cpu_dora_args s = {.dm = dm_O,
                                .dy = dy,
                                .dy_stride = dy_stride,
                                .x = z,
                                .x_stride = z_stride,
                                .norm = (float *)(uintptr_t)norm_O,
                                .N = N,
                                .t = t};
    call c = {.d = (fw_cpu *)d, .dora = &s};
    fw_cpu_split(c.d, O, 64, N * O, magnitude_columns, &c);
    return FW_OK;
}

/* ---- weights from 4 bits ---- */

typedef struct unpack_call {
    fw_cpu *d;
    const fw_cpu_unpack_args *s;
} unpack_call;
static void unpack_blocks(void *context, int64_t first, int64_t last, int thread) {
    const unpack_call *c = context;
    (void)thread;
    c->d->kernels->unpack_4bit(c->s, first, last);
}
fw_status fw_cpu_unpack_4bit(fw_device *d, void *y_n, const uint8_t *code, const float *map_16,
                             const fw_quant_scales *scales, int64_t n, fw_dtype t) {
    const fw_cpu_unpack_args s = {.y = y_n, .code = code, .map_16 = map_16, .scales = scales, .n = n, .t = t};
    unpack_call c = {(fw_cpu *)d, &s};
    fw_cpu_split(c.d, (n + scales->block - 1) / scales->block, 1, n, unpack_blocks, &c);
    return FW_OK;
}
