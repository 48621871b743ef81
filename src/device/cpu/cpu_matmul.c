/* Matrix products: what multiplies, and how a product is cut into one rectangle per thread. */
#include "device/cpu/cpu.h"

/* A single row (decoding) reads the weights in place, which beats packing them. Two or more are packed: what a row gives
 * then does not depend on how many stand beside it. */
enum { FEW_ROWS = 1 };

size_t fw_cpu_matmul_scratch_n(const fw_cpu *d, const fw_device_limits *limits) {
    const int64_t dim = limits->matmul_dim > limits->N ? limits->matmul_dim : limits->N;
    const size_t n = d->kernels->gemm_scratch_n(dim), few = FEW_ROWS * (size_t)dim;
    return n > few ? n : few;
}

/* m_parts x n_parts rectangles. */
typedef struct product {
    fw_cpu *d;
    const fw_cpu_gemm_args *g;
    int m_parts, n_parts;
} product;

static int64_t pieces(int64_t total, int64_t unit, int parts) {
    const int64_t units = (total + unit - 1) / unit;
    return (units + parts - 1) / parts * unit;
}

/* Tiles of the largest rectangle, and the packing of its operands (about 1/20 of a tile's row or column). */
static double cost(const product *p, int m_parts, int n_parts) {
    const double m = (double)pieces(p->g->M, p->d->kernels->mr, m_parts);
    const double n = (double)pieces(p->g->N, p->d->kernels->nr, n_parts);
    return m * n + 20 * (m + n);
}

static void choose_parts(product *p, int thread_n) {
    p->m_parts = thread_n, p->n_parts = 1;
    for (int m_parts = 1; m_parts < thread_n; m_parts++)
        if (thread_n % m_parts == 0 && cost(p, m_parts, thread_n / m_parts) < cost(p, p->m_parts, p->n_parts))
            p->m_parts = m_parts, p->n_parts = thread_n / m_parts;
}

static void multiply_part(void *context, int index, int thread_n) {
    const product *p = context;
    (void)thread_n;
    int64_t m0, m1, n0, n1;
    fw_threads_split(&m0, &m1, p->g->M, p->d->kernels->mr, index % p->m_parts, p->m_parts);
    fw_threads_split(&n0, &n1, p->g->N, p->d->kernels->nr, index / p->m_parts, p->n_parts);
    if (m0 >= m1 || n0 >= n1) return;
    if (p->d->onednn != NULL && p->g->t == FW_BF16)
        fw_onednn_gemm(p->d->onednn, index, p->g, m0, m1, n0, n1);
    else
        p->d->kernels->gemm(p->g, m0, m1, n0, n1, fw_cpu_scratch(p->d, index));
}

static void multiply_few(void *context, int64_t first, int64_t last, int thread) {
    const product *p = context;
    p->d->kernels->gemv(p->g, first, last, fw_cpu_scratch(p->d, thread));
}

fw_status fw_cpu_multiply(fw_device *base, const fw_cpu_gemm_args *g) {
    fw_cpu *d = (fw_cpu *)base;
    product p = {.d = d, .g = g};
    if (g->M <= FEW_ROWS && g->b_k == 1 && !g->add && g->factor == 1) {
        FW_TRY(fw_cpu_need(d, (size_t)(g->M * g->K)));
        fw_cpu_split(d, g->N, 64, g->N * g->K, multiply_few, &p);
        return FW_OK;
    }
    const int own = d->onednn == NULL || g->t != FW_BF16;
    if (own) FW_TRY(fw_cpu_need(d, d->kernels->gemm_scratch_n(g->K)));
    if (fw_threads_n(base->threads) == 1 || g->M * g->N * g->K < 1 << 18) {
        p.m_parts = p.n_parts = 1;
        multiply_part(&p, 0, 1);
    } else {
        choose_parts(&p, fw_threads_n(base->threads));
        fw_threads_run(base->threads, multiply_part, &p);
    }
    return own ? FW_OK : fw_onednn_status(d->onednn);
}

fw_status fw_cpu_matmul_forward(fw_device *d, void *y_NO, const void *x_NI, const void *w_OI, const void *b_O,
                                int64_t N, int64_t O, int64_t I, fw_dtype t, fw_dtype t_y) {
    if (N <= 0 || O <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {
        .a = x_NI,
        .a_row = I,
        .a_k = 1,
        .b = w_OI,
        .b_k = 1,
        .b_col = I,
        .bias = b_O,
        .c = y_NO,
        .c_row = O,
        .M = N,
        .N = O,
        .K = I,
        .t = t,
        .t_c = t_y,
        .factor = 1,
    };
    return fw_cpu_multiply(d, &g);
}

fw_status fw_cpu_matmul_backward_input(fw_device *d, void *dx_NI, const void *dy_NO, const void *w_OI, int64_t N,
                                       int64_t O, int64_t I, fw_dtype t) {
    if (N <= 0 || I <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {
        .a = dy_NO,
        .a_row = O,
        .a_k = 1,
        .b = w_OI,
        .b_k = I,
        .b_col = 1,
        .c = dx_NI,
        .c_row = I,
        .M = N,
        .N = I,
        .K = O,
        .t = t,
        .t_c = t,
        .factor = 1,
    };
    return fw_cpu_multiply(d, &g);
}

fw_status fw_cpu_matmul_backward_weight(fw_device *d, float *dw_OI, const void *dy_NO, const void *x_NI, int64_t N,
                                        int64_t O, int64_t I, fw_dtype t) {
    if (N <= 0 || O <= 0 || I <= 0) return FW_OK;
    const fw_cpu_gemm_args g = {
        .a = dy_NO,
        .a_row = 1,
        .a_k = O,
        .b = x_NI,
        .b_k = I,
        .b_col = 1,
        .c = dw_OI,
        .c_row = I,
        .M = O,
        .N = I,
        .K = N,
        .t = t,
        .t_c = FW_F32,
        .add = 1,
        .factor = 1,
    };
    return fw_cpu_multiply(d, &g);
}
