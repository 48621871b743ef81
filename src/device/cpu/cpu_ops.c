/* The operations that are loops over rows or elements: arguments packed up, rows split over the threads. */
#include "base/host.h"
#include "device/cpu/cpu.h"

#include <math.h>

/* What a range function needs: the device, the arguments of its kernel, and a few plain numbers. */
typedef struct call {
    fw_cpu *d;
    const void *s;
    void *y;
    const void *a, *b;
    const int32_t *id;
    int64_t N, C;
    float factor;
    fw_dtype t, t_y;
} call;

static fw_cpu *cpu(fw_device *d) { return (fw_cpu *)d; }
static char *row_of(const void *x, int64_t row, int64_t C, fw_dtype t) {
    return (char *)(uintptr_t)x + (size_t)(row * C) * fw_dtype_bytes(t);
}

/* ---- rows moved ---- */

static void gather(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    for (int64_t i = first; i < last; i++)
        memcpy(row_of(c->y, i, c->C, c->t), row_of(c->a, c->id[i], c->C, c->t), (size_t)c->C * fw_dtype_bytes(c->t));
}
static void scatter(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    for (int64_t i = first; i < last; i++)
        memcpy(row_of(c->y, c->id[i], c->C, c->t), row_of(c->a, i, c->C, c->t), (size_t)c->C * fw_dtype_bytes(c->t));
}

fw_status fw_cpu_gather_rows(fw_device *d, void *y_nC, const void *x_NC, const int32_t *row_n, int64_t n, int64_t C,
                             fw_dtype t) {
    call c = {.d = cpu(d), .y = y_nC, .a = x_NC, .id = row_n, .C = C, .t = t};
    fw_cpu_split(c.d, n, 1, n * C, gather, &c);
    return FW_OK;
}
fw_status fw_cpu_scatter_rows(fw_device *d, void *y_NC, const void *x_nC, const int32_t *row_n, int64_t n, int64_t N,
                              int64_t C, fw_dtype t) {
    FW_TRY(fw_cpu_zero(d, y_NC, (size_t)(N * C) * fw_dtype_bytes(t)));
    call c = {.d = cpu(d), .y = y_NC, .a = x_nC, .id = row_n, .C = C, .t = t};
    fw_cpu_split(c.d, n, 1, n * C, scatter, &c);
    return FW_OK;
}

/* ---- embedding ---- */

fw_status fw_cpu_embedding_forward(fw_device *d, void *y_NC, const void *w_VC, const int32_t *id_N, int64_t N,
                                   int64_t C, int64_t V, fw_dtype t) {
    (void)V;
    return fw_cpu_gather_rows(d, y_NC, w_VC, id_N, N, C, t);
}

static void embedding_columns(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->embedding_backward(c->y, c->a, c->id, c->N, c->C, c->t, first, last);
}
fw_status fw_cpu_embedding_backward(fw_device *d, float *dw_VC, const void *dy_NC, const int32_t *id_N, int64_t N,
                                    int64_t C, int64_t V, fw_dtype t) {
    (void)V;
    call c = {.d = cpu(d), .y = dw_VC, .a = dy_NC, .id = id_N, .N = N, .C = C, .t = t};
    fw_cpu_split(c.d, C, 64, N * C, embedding_columns, &c);
    return FW_OK;
}

/* ---- rmsnorm ---- */

static void rmsnorm_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->rmsnorm_forward(c->s, first, last);
}
fw_status fw_cpu_rmsnorm_forward(fw_device *d, void *y, int64_t y_stride, float *rstd_NG, const void *x,
                                 int64_t x_stride, const void *w_C, float eps, int64_t N, int64_t G, int64_t C,
                                 fw_dtype t) {
    const fw_cpu_rmsnorm_args s = {.y = y,
                                   .y_stride = y_stride,
                                   .rstd = rstd_NG,
                                   .x = x,
                                   .x_stride = x_stride,
                                   .w = w_C,
                                   .eps = eps,
                                   .N = N,
                                   .G = G,
                                   .C = C,
                                   .t = t};
    call c = {.d = cpu(d), .s = &s};
    fw_cpu_split(c.d, N, 1, N * G * C, rmsnorm_rows, &c);
    return FW_OK;
}

/* Rows go in FW_CPU_NORM_BLOCKS blocks at most; each block's part of dw is kept apart, and they are added in order. */
static int64_t norm_block_rows(int64_t N) {
    const int64_t even = (N + FW_CPU_NORM_BLOCKS - 1) / FW_CPU_NORM_BLOCKS;
    return even < 16 ? 16 : even;
}
static void rmsnorm_back_blocks(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    const fw_cpu_rmsnorm_args *s = c->s;
    (void)thread;
    const int64_t rows = norm_block_rows(s->N);
    for (int64_t i = first; i < last; i++)
        c->d->kernels->rmsnorm_backward(s, i * rows, (i + 1) * rows < s->N ? (i + 1) * rows : s->N,
                                        s->dw_partial + i * s->C);
}
fw_status fw_cpu_rmsnorm_backward(fw_device *d, void *dx, int64_t dx_stride, float *dw_C, const void *dy,
                                  int64_t dy_stride, const void *dx_add, const void *x, int64_t x_stride,
                                  const void *w_C, const float *rstd_NG, int64_t N, int64_t G, int64_t C, fw_dtype t) {
    if (N <= 0) return FW_OK;
    call c = {.d = cpu(d)};
    const int64_t thread_n = fw_threads_n(d->threads), rows = norm_block_rows(N), block_n = (N + rows - 1) / rows;
    FW_TRY(fw_cpu_need(c.d, (size_t)((FW_CPU_NORM_BLOCKS * C + thread_n - 1) / thread_n)));
    const fw_cpu_rmsnorm_args s = {.y = dx,
                                   .y_stride = dx_stride,
                                   .rstd = (float *)(uintptr_t)rstd_NG,
                                   .dw_partial = c.d->scratch,
                                   .x = x,
                                   .w = w_C,
                                   .dy = dy,
                                   .dx_add = dx_add,
                                   .x_stride = x_stride,
                                   .dy_stride = dy_stride,
                                   .N = N,
                                   .G = G,
                                   .C = C,
                                   .t = t};
    c.s = &s;
    fw_cpu_split(c.d, block_n, 1, N * G * C, rmsnorm_back_blocks, &c);
    if (dw_C != NULL) c.d->kernels->add_columns(dw_C, s.dw_partial, block_n, C, FW_F32, 0, C);
    return FW_OK;
}

/* ---- rope, swiglu, add, bias ---- */

static void rope_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->rope(c->s, first, last);
}
fw_status fw_cpu_rope(fw_device *d, void *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                      const int32_t *position_N, int64_t N, int64_t G, int64_t D, int direction, fw_dtype t) {
    const fw_cpu_rope_args s = {.x = x,
                                .x_stride = x_stride,
                                .cos_PE = cos_PE,
                                .sin_PE = sin_PE,
                                .position = position_N,
                                .G = G,
                                .D = D,
                                .direction = direction,
                                .t = t};
    call c = {.d = cpu(d), .s = &s};
    fw_cpu_split(c.d, N, 1, N * G * D, rope_rows, &c);
    return FW_OK;
}

static void swiglu_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->swiglu_forward(c->y, c->a, c->C, c->t, first, last);
}
fw_status fw_cpu_swiglu_forward(fw_device *d, void *h_NF, const void *gu_N2F, int64_t N, int64_t F, fw_dtype t) {
    call c = {.d = cpu(d), .y = h_NF, .a = gu_N2F, .C = F, .t = t};
    fw_cpu_split(c.d, N, 1, N * F, swiglu_rows, &c);
    return FW_OK;
}
static void swiglu_back_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->swiglu_backward(c->y, c->b, c->a, c->C, c->t, first, last);
}
fw_status fw_cpu_swiglu_backward(fw_device *d, void *dgu_N2F, const void *dh_NF, const void *gu_N2F, int64_t N,
                                 int64_t F, fw_dtype t) {
    call c = {.d = cpu(d), .y = dgu_N2F, .a = gu_N2F, .b = dh_NF, .C = F, .t = t};
    fw_cpu_split(c.d, N, 1, N * F, swiglu_back_rows, &c);
    return FW_OK;
}

static void add_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->add(c->y, c->a, c->b, c->t, first, last);
}
fw_status fw_cpu_add(fw_device *d, void *y, const void *a, const void *b, int64_t n, fw_dtype t) {
    call c = {.d = cpu(d), .y = y, .a = a, .b = b, .t = t};
    fw_cpu_split(c.d, n, 1024, n, add_range, &c);
    return FW_OK;
}

static void bias_columns(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->add_columns(c->y, c->a, c->N, c->C, c->t, first, last);
}
fw_status fw_cpu_bias_backward(fw_device *d, float *db_O, const void *dy_NO, int64_t N, int64_t O, fw_dtype t) {
    call c = {.d = cpu(d), .y = db_O, .a = dy_NO, .N = N, .C = O, .t = t};
    fw_cpu_split(c.d, O, 128, N * O, bias_columns, &c);
    return FW_OK;
}

/* ---- loss and optimizer ---- */

static void loss_rows(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->cross_entropy(c->s, first, last);
}
fw_status fw_cpu_cross_entropy(fw_device *d, float *loss_N, void *dlogits_NV, const float *logits_NV,
                               const int32_t *label_N, int64_t N, int64_t V, float scale, fw_dtype t) {
    const fw_cpu_cross_entropy_args s = {
        .loss = loss_N, .dlogits = dlogits_NV, .logits = logits_NV, .label = label_N, .V = V, .scale = scale, .t = t};
    call c = {.d = cpu(d), .s = &s};
    fw_cpu_split(c.d, N, 1, N * V, loss_rows, &c);
    return FW_OK;
}

/* The first step gives m and v their pages, a piece that fits the cache at a time: cleared by the system, then written. */
enum { ADAMW_PIECE = 1 << 15 };
static void adamw_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    const fw_cpu_adamw_args *s = c->s;
    (void)thread;
    if (!s->first_step) {
        c->d->kernels->adamw(s, first, last);
        return;
    }
    for (int64_t next; first < last; first = next) {
        next = last - first > ADAMW_PIECE ? first + ADAMW_PIECE : last;
        fw_host_take_pages(s->m + first, (size_t)(next - first) * sizeof *s->m);
        fw_host_take_pages(s->v + first, (size_t)(next - first) * sizeof *s->v);
        c->d->kernels->adamw(s, first, next);
    }
}
fw_status fw_cpu_adamw(fw_device *d, float *w, float *m, float *v, float *g, void *w_compute, int64_t n,
                       const fw_adamw_options *o, fw_dtype t) {
    const double correction1 = 1 - pow((double)o->beta1, (double)o->step);
    const double correction2 = 1 - pow((double)o->beta2, (double)o->step);
    const fw_cpu_adamw_args s = {
        .w = w,
        .m = m,
        .v = v,
        .g = g,
        .w_compute = w_compute,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .epsilon = o->epsilon,
        .grad_scale = o->grad_scale,
        .step_size = (float)((double)o->learning_rate / correction1),
        .root_factor = (float)(1 / sqrt(correction2)),
        .decay = (float)((double)o->learning_rate * (double)o->weight_decay),
        .first_step = o->step == 1,
        .t = t,
    };
    call c = {.d = cpu(d), .s = &s};
    fw_cpu_split(c.d, n, 1024, n, adamw_range, &c);
    return FW_OK;
}

enum { SUM_BLOCK = 1 << 16 };
typedef struct sum_call {
    fw_cpu *d;
    const float *x;
    int64_t n;
} sum_call;
static void sum_blocks(void *context, int64_t first, int64_t last, int thread) {
    const sum_call *c = context;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        const int64_t left = c->n - i * SUM_BLOCK;
        c->d->sum_blocks[i] = c->d->kernels->sum_squares(c->x + i * SUM_BLOCK, left < SUM_BLOCK ? left : SUM_BLOCK);
    }
}
fw_status fw_cpu_sum_squares(fw_device *d, double *out, const float *x, int64_t n) {
    double sum = 0;
    const int64_t round = (int64_t)FW_CPU_SUM_BLOCKS * SUM_BLOCK;
    for (int64_t at = 0; at < n; at += round) {
        sum_call c = {cpu(d), x + at, n - at < round ? n - at : round};
        const int64_t block_n = (c.n + SUM_BLOCK - 1) / SUM_BLOCK;
        fw_cpu_split(c.d, block_n, 1, c.n, sum_blocks, &c);
        for (int64_t i = 0; i < block_n; i++) sum += c.d->sum_blocks[i];
    }
    *out = sum;
    return FW_OK;
}

/* ---- scale, cast, zero, copy ---- */

static void scale_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->scale(c->y, c->factor, first, last);
}
fw_status fw_cpu_scale(fw_device *d, float *x, int64_t n, float factor) {
    call c = {.d = cpu(d), .y = x, .factor = factor};
    fw_cpu_split(c.d, n, 1024, n, scale_range, &c);
    return FW_OK;
}

static void cast_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    c->d->kernels->cast(c->y, c->t_y, c->a, c->t, first, last);
}
fw_status fw_cpu_cast(fw_device *d, void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t n) {
    call c = {.d = cpu(d), .y = y, .t_y = t_y, .a = x, .t = t_x};
    fw_cpu_split(c.d, n, 1024, n, cast_range, &c);
    return FW_OK;
}

static void zero_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    memset((char *)c->y + first, 0, (size_t)(last - first));
}
fw_status fw_cpu_zero(fw_device *d, void *x, size_t bytes) {
    call c = {.y = x};
    fw_cpu_split(cpu(d), (int64_t)bytes, 4096, (int64_t)bytes / 16, zero_range, &c);
    return FW_OK;
}

static void copy_range(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    (void)thread;
    memcpy((char *)c->y + first, (const char *)c->a + first, (size_t)(last - first));
}
fw_status fw_cpu_copy(fw_device *d, void *y, const void *x, size_t bytes) {
    call c = {.y = y, .a = x};
    fw_cpu_split(cpu(d), (int64_t)bytes, 4096, (int64_t)bytes / 16, copy_range, &c);
    return FW_OK;
}
