/* Operations checked, scratch reserved, kernels launched. */
#include "device/cuda/cuda_check.h"

#include "base/alloc.h"

#include <stdio.h>

/* sum_squares has so many partial sums at most, however many numbers there are. */
enum { PARTIAL_MAX = 2048 };

/* cudaError_t, as the runtime's header has them: this file is compiled without it. */
enum { ERROR_INVALID_VALUE = 1, ERROR_MEMORY = 2, ERROR_CONFIGURATION = 9 };

fw_status fw_cuda_status(const fw_cuda *d, const char *what, int error) {
    if (error == 0) return FW_OK;
    fw_status status = FW_ERR_RANK;
    if (error == ERROR_MEMORY) status = FW_ERR_FIT;
    if (error == ERROR_INVALID_VALUE || error == ERROR_CONFIGURATION) status = FW_ERR_INTERNAL;
    return fw_fail(status, "%s: %s: %s (error %d)", d->base.name, what, d->backend->error_text(error), error);
}

fw_status fw_cuda_bad_shape(const fw_device *d, const char *op, const char *what, int64_t a, int64_t b) {
    return fw_fail(FW_ERR_INTERNAL, "%s: %s cannot take %s %lld, %lld", d->name, op, what, (long long)a, (long long)b);
}

/* ---- memory ---- */

static fw_status alloc_block(fw_device *d, void **out, size_t bytes, int lazy) {
    (void)lazy; /* a GPU gives memory at once */
    return fw_cuda_launched(d, "memory", fw_cuda_of(d)->backend->alloc(fw_cuda_of(d), out, bytes));
}
static void free_block(fw_device *d, void *block, size_t bytes) {
    (void)bytes;
    fw_cuda_of(d)->backend->free(fw_cuda_of(d), block);
}

static fw_status set_scratch(fw_cuda *d, size_t bytes) {
    void *block;
    const fw_status status = alloc_block(&d->base, &block, bytes, 0);
    if (status != FW_OK) return fw_fail_context(status, "scratch (%zu bytes): ", bytes);
    d->backend->free(d, d->launch.scratch);
    d->launch.scratch = block;
    d->launch.scratch_bytes = bytes;
    return FW_OK;
}

fw_status fw_cuda_need(fw_cuda *d, const char *op, size_t bytes) {
    fw_device *base = &d->base;
    const size_t before = d->launch.scratch_bytes;
    if (bytes <= before) return FW_OK;
    FW_TRY(fw_device_check_frozen(base, op, bytes));
    FW_TRY(set_scratch(d, bytes));
    base->allocated_bytes += bytes - before;
    if (base->allocated_bytes > base->peak_bytes) base->peak_bytes = base->allocated_bytes;
    return FW_OK;
}
fw_status fw_cuda_need_for(fw_device *d, const char *op, size_t (*bytes_of)(const fw_cuda_limits *),
                           fw_cuda_limits limits) {
    limits.sm_n = fw_cuda_of(d)->launch.sm_n;
    return fw_cuda_need(fw_cuda_of(d), op, bytes_of(&limits));
}

static fw_status choose_attention(fw_cuda *d, const fw_device_limits *l, size_t *bytes) {
    *bytes = 0;
    if (d->library != NULL) return d->library->choose(d->library, d, l, bytes);
    if (l->attention.choice == FW_ATTENTION_CUDNN)
        return fw_fail(FW_ERR_OPTION, "--attn_implementation cudnn: %s; use finewire or auto", d->no_library);
    if (l->attention.choice == FW_ATTENTION_OWN)
        snprintf(d->base.attention, sizeof d->base.attention, "own kernels");
    else
        snprintf(d->base.attention, sizeof d->base.attention, "own kernels (%s)", d->no_library);
    return FW_OK;
}

static fw_status reserve(fw_device *base, const fw_device_limits *l, int dry, size_t *bytes) {
    fw_cuda *d = fw_cuda_of(base);
    size_t library_bytes;
    FW_TRY(choose_attention(d, l, &library_bytes));
    const fw_cuda_limits limits = {l->N, l->matmul_dim, l->H, l->K, l->D, d->launch.sm_n};
    const size_t of_each[] = {d->launch.scratch_bytes,
                              fw_cuda_scratch_rmsnorm_backward(&limits),
                              fw_cuda_scratch_bias_backward(&limits),
                              fw_cuda_scratch_dora_backward_m(&limits),
                              fw_cuda_scratch_embedding_backward(&limits),
                              fw_cuda_scratch_attention(&limits),
                              library_bytes,
                              PARTIAL_MAX * sizeof(double)};
    size_t most = 0;
    for (size_t i = 0; i < sizeof of_each / sizeof *of_each; i++) most = of_each[i] > most ? of_each[i] : most;
    *bytes = most - d->launch.scratch_bytes;
    return dry || *bytes == 0 ? FW_OK : set_scratch(d, most);
}

/* ---- embedding, norms, rope ---- */

fw_status fw_cuda_op_embedding_forward(fw_device *d, void *y, const void *w, const int32_t *id, int64_t N, int64_t C,
                                       int64_t V, fw_dtype t) {
    static const char op[] = "embedding_forward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, C);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_embedding_forward(&fw_cuda_of(d)->launch, y, w, id, N, C, V, t));
}

fw_status fw_cuda_op_embedding_backward(fw_device *d, float *dw, const void *dy, const int32_t *id, int64_t N,
                                        int64_t C, int64_t V, fw_dtype t) {
    static const char op[] = "embedding_backward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, C);
    if (N == 0) return FW_OK;
    FW_TRY(fw_cuda_need_for(d, op, fw_cuda_scratch_embedding_backward, (fw_cuda_limits){.N = N, .dim = C > V ? C : V}));
    return fw_cuda_launched(d, op, fw_cuda_embedding_backward(&fw_cuda_of(d)->launch, dw, dy, id, N, C, V, t));
}

fw_status fw_cuda_op_rmsnorm_forward(fw_device *d, void *y, int64_t y_stride, float *rstd, const void *x,
                                     int64_t x_stride, const void *w, float eps, int64_t N, int64_t G, int64_t C,
                                     fw_dtype t) {
    static const char op[] = "rmsnorm_forward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, C);
    CHECK_ROWS(op, N, G);
    CHECK_STRIDE(op, x_stride, G * C);
    CHECK_STRIDE(op, y_stride, G * C);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(
        d, op, fw_cuda_rmsnorm_forward(&fw_cuda_of(d)->launch, y, y_stride, rstd, x, x_stride, w, eps, N, G, C, t));
}

fw_status fw_cuda_op_rmsnorm_backward(fw_device *d, void *dx, int64_t dx_stride, float *dw, const void *dy,
                                      int64_t dy_stride, const void *dx_add, const void *x, int64_t x_stride,
                                      const void *w, const float *rstd, int64_t N, int64_t G, int64_t C, fw_dtype t) {
    static const char op[] = "rmsnorm_backward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, C);
    CHECK_ROWS(op, N, G);
    CHECK_STRIDE(op, x_stride, G * C);
    CHECK_STRIDE(op, dx_stride, G * C);
    CHECK_STRIDE(op, dy_stride, G * C);
    if (N == 0) return FW_OK;
    FW_TRY(
        fw_cuda_need_for(d, op, fw_cuda_scratch_rmsnorm_backward, (fw_cuda_limits){.N = N, .dim = C, .H = G, .D = C}));
    return fw_cuda_launched(d, op,
                            fw_cuda_rmsnorm_backward(&fw_cuda_of(d)->launch, dx, dx_stride, dw, dy, dy_stride, dx_add,
                                                     x, x_stride, w, rstd, N, G, C, t));
}

fw_status fw_cuda_op_rope(fw_device *d, void *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                          const int32_t *position, int64_t N, int64_t G, int64_t D, int direction, fw_dtype t) {
    static const char op[] = "rope";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, G);
    CHECK(D > 0 && D % 2 == 0, op, "the head size, which must be even,", D, 0);
    CHECK(direction == 1 || direction == -1, op, "the direction", direction, 0);
    CHECK_STRIDE(op, x_stride, G * D);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(
        d, op, fw_cuda_rope(&fw_cuda_of(d)->launch, x, x_stride, cos_PE, sin_PE, position, N, G, D, direction, t));
}

/* ---- products and bias ---- */

static fw_status check_product(fw_device *d, const char *op, int64_t N, int64_t O, int64_t I, fw_dtype t) {
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, O);
    CHECK_ROWS(op, N, I);
    return FW_OK;
}

fw_status fw_cuda_op_matmul_forward(fw_device *d, void *y, const void *x, const void *w, const void *b, int64_t N,
                                    int64_t O, int64_t I, fw_dtype t, fw_dtype t_y) {
    static const char op[] = "matmul_forward";
    FW_TRY(check_product(d, op, N, O, I, t));
    CHECK(t_y == t || t_y == FW_F32, op, "types of the input and the result", (int64_t)t, (int64_t)t_y);
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->matmul_forward(fw_cuda_of(d), y, x, w, b, N, O, I, t, t_y);
}

fw_status fw_cuda_op_matmul_backward_input(fw_device *d, void *dx, const void *dy, const void *w, int64_t N, int64_t O,
                                           int64_t I, fw_dtype t) {
    FW_TRY(check_product(d, "matmul_backward_input", N, O, I, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->matmul_backward_input(fw_cuda_of(d), dx, dy, w, N, O, I, t);
}

fw_status fw_cuda_op_matmul_backward_weight(fw_device *d, float *dw, const void *dy, const void *x, int64_t N,
                                            int64_t O, int64_t I, fw_dtype t) {
    FW_TRY(check_product(d, "matmul_backward_weight", N, O, I, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->matmul_backward_weight(fw_cuda_of(d), dw, dy, x, N, O, I, t);
}

fw_status fw_cuda_op_bias_backward(fw_device *d, float *db, const void *dy, int64_t N, int64_t O, fw_dtype t) {
    static const char op[] = "bias_backward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, O);
    if (N == 0) return FW_OK;
    FW_TRY(fw_cuda_need_for(d, op, fw_cuda_scratch_bias_backward, (fw_cuda_limits){.N = N, .dim = O}));
    return fw_cuda_launched(d, op, fw_cuda_bias_backward(&fw_cuda_of(d)->launch, db, dy, N, O, t));
}

/* ---- swiglu, add ---- */

fw_status fw_cuda_op_swiglu_forward(fw_device *d, void *h, const void *gu, int64_t N, int64_t F, fw_dtype t) {
    static const char op[] = "swiglu_forward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, F);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_swiglu_forward(&fw_cuda_of(d)->launch, h, gu, N, F, t));
}

fw_status fw_cuda_op_swiglu_backward(fw_device *d, void *dgu, const void *dh, const void *gu, int64_t N, int64_t F,
                                     fw_dtype t) {
    static const char op[] = "swiglu_backward";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, F);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_swiglu_backward(&fw_cuda_of(d)->launch, dgu, dh, gu, N, F, t));
}

fw_status fw_cuda_op_add(fw_device *d, void *y, const void *a, const void *b, int64_t n, fw_dtype t) {
    static const char op[] = "add";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, n, 1);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_add(&fw_cuda_of(d)->launch, y, a, b, n, t));
}

/* ---- attention ---- */

static fw_status check_heads(fw_device *d, const char *op, int64_t N, int64_t H, int64_t K, int64_t D, fw_dtype t) {
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, H);
    CHECK(K > 0 && H % K == 0, op, "query and key/value heads", H, K);
    CHECK(D > 0 && D % 2 == 0 && D <= 256, op, "the head size, which must be even and at most 256,", D, 0);
    return FW_OK;
}

static fw_status by_library(fw_device *d, const char *op, int *taken, const fw_cuda_attention_call *call) {
    fw_cuda_library *l = fw_cuda_of(d)->library;
    *taken = 0;
    return l == NULL ? FW_OK : l->attend(l, fw_cuda_of(d), op, call, taken);
}

fw_status fw_cuda_op_attention_forward(fw_device *d, void *o, float *lse, const void *q, int64_t q_stride,
                                       const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                                       const int32_t *first, int64_t N, int64_t q_offset, int64_t H, int64_t K,
                                       int64_t D, float scale, fw_dtype t) {
    static const char op[] = "attention_forward";
    FW_TRY(check_heads(d, op, N, H, K, D, t));
    CHECK_STRIDE(op, q_stride, H * D);
    CHECK_STRIDE(op, k_stride, K * D);
    CHECK_STRIDE(op, v_stride, K * D);
    CHECK(q_offset >= 0, op, "the position of the first query", q_offset, 0);
    if (N == 0) return FW_OK;
    int taken;
    FW_TRY(by_library(d, op, &taken,
                      &(fw_cuda_attention_call){.q = q,
                                                .k = k,
                                                .v = v,
                                                .q_stride = q_stride,
                                                .k_stride = k_stride,
                                                .v_stride = v_stride,
                                                .first_N = first,
                                                .N = N,
                                                .q_offset = q_offset,
                                                .H = H,
                                                .K = K,
                                                .D = D,
                                                .scale = scale,
                                                .t = t,
                                                .o = o,
                                                .lse = lse}));
    if (taken) return FW_OK;
    FW_TRY(fw_cuda_need_for(d, op, fw_cuda_scratch_attention,
                            (fw_cuda_limits){.N = N + q_offset, .H = H, .K = K, .D = D}));
    return fw_cuda_launched(d, op,
                            fw_cuda_attention_forward(&fw_cuda_of(d)->launch, o, lse, q, q_stride, k, k_stride, v,
                                                      v_stride, first, N, q_offset, H, K, D, scale, t));
}

fw_status fw_cuda_op_attention_backward(fw_device *d, void *dq, int64_t dq_stride, void *dk, void *dv,
                                        int64_t dkv_stride, const void *d_o, const void *o, const float *lse,
                                        const void *q, int64_t q_stride, const void *k, int64_t k_stride, const void *v,
                                        int64_t v_stride, const int32_t *first, int64_t N, int64_t H, int64_t K,
                                        int64_t D, float scale, fw_dtype t) {
    static const char op[] = "attention_backward";
    FW_TRY(check_heads(d, op, N, H, K, D, t));
    CHECK_STRIDE(op, q_stride, H * D);
    CHECK_STRIDE(op, k_stride, K * D);
    CHECK_STRIDE(op, v_stride, K * D);
    CHECK_STRIDE(op, dq_stride, H * D);
    CHECK_STRIDE(op, dkv_stride, K * D);
    if (N == 0) return FW_OK;
    int taken;
    FW_TRY(by_library(d, op, &taken,
                      &(fw_cuda_attention_call){.q = q,
                                                .k = k,
                                                .v = v,
                                                .q_stride = q_stride,
                                                .k_stride = k_stride,
                                                .v_stride = v_stride,
                                                .first_N = first,
                                                .N = N,
                                                .H = H,
                                                .K = K,
                                                .D = D,
                                                .scale = scale,
                                                .t = t,
                                                .o = (void *)(uintptr_t)o,
                                                .lse = (float *)(uintptr_t)lse,
                                                .d_o = d_o,
                                                .dq = dq,
                                                .dk = dk,
                                                .dv = dv,
                                                .dq_stride = dq_stride,
                                                .dkv_stride = dkv_stride}));
    if (taken) return FW_OK;
    FW_TRY(fw_cuda_need_for(d, op, fw_cuda_scratch_attention, (fw_cuda_limits){.N = N, .H = H, .K = K, .D = D}));
    return fw_cuda_launched(d, op,
                            fw_cuda_attention_backward(&fw_cuda_of(d)->launch, dq, dq_stride, dk, dv, dkv_stride, d_o,
                                                       o, lse, q, q_stride, k, k_stride, v, v_stride, first, N, H, K, D,
                                                       scale, t));
}

/* ---- loss, rows, update ---- */

fw_status fw_cuda_op_cross_entropy(fw_device *d, float *loss, void *dlogits, const float *logits, const int32_t *label,
                                   int64_t N, int64_t V, float scale_, fw_dtype t) {
    static const char op[] = "cross_entropy";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, V);
    CHECK(dlogits != (const void *)logits || t == FW_F32, op, "shared memory for results of type", (int64_t)t, 0);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(
        d, op, fw_cuda_cross_entropy(&fw_cuda_of(d)->launch, loss, dlogits, logits, label, N, V, scale_, t));
}

fw_status fw_cuda_op_gather_rows(fw_device *d, void *y, const void *x, const int32_t *row, int64_t n, int64_t C,
                                 fw_dtype t) {
    static const char op[] = "gather_rows";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, n, C);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_gather_rows(&fw_cuda_of(d)->launch, y, x, row, n, C, t));
}

fw_status fw_cuda_op_scatter_rows(fw_device *d, void *y, const void *x, const int32_t *row, int64_t n, int64_t N,
                                  int64_t C, fw_dtype t) {
    static const char op[] = "scatter_rows";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, n, C);
    CHECK(n <= N, op, "rows, room for rows", n, N);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_scatter_rows(&fw_cuda_of(d)->launch, y, x, row, n, N, C, t));
}

fw_status fw_cuda_op_adamw(fw_device *d, float *w, float *m, float *v, float *g, void *w_compute, int64_t n,
                           const fw_adamw_options *options, fw_dtype t) {
    static const char op[] = "adamw";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, n, 1);
    CHECK(options->step >= 1, op, "the step", options->step, 0);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_adamw(&fw_cuda_of(d)->launch, w, m, v, g, w_compute, n, options, t));
}

fw_status fw_cuda_op_sum_squares(fw_device *d, double *out, const float *x, int64_t n) {
    static const char op[] = "sum_squares";
    fw_cuda *c = fw_cuda_of(d);
    CHECK_ROWS(op, n, 1);
    const int64_t part_n = fw_cuda_sum_squares_blocks(n);
    const size_t bytes = (size_t)part_n * sizeof(double);
    *out = 0;
    if (n == 0) return FW_OK;
    FW_TRY(fw_cuda_need(c, op, bytes));
    FW_TRY(fw_cuda_launched(d, op, fw_cuda_sum_squares(&c->launch, c->launch.scratch, x, n)));
    FW_TRY(fw_cuda_launched(d, op, c->backend->copy(c, c->partial, c->launch.scratch, bytes)));
    for (int64_t i = 0; i < part_n; i++) *out += c->partial[i];
    return FW_OK;
}

fw_status fw_cuda_op_scale(fw_device *d, float *x, int64_t n, float factor) {
    static const char op[] = "scale";
    CHECK_ROWS(op, n, 1);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_scale(&fw_cuda_of(d)->launch, x, n, factor));
}

fw_status fw_cuda_op_cast(fw_device *d, void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t n) {
    static const char op[] = "cast";
    CHECK((t_y == FW_F16 || t_y == FW_F32 || t_y == FW_BF16) && (t_x == FW_F16 || t_x == FW_F32 || t_x == FW_BF16), op,
          "types of the result and the input", (int64_t)t_y, (int64_t)t_x);
    CHECK_ROWS(op, n, 1);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_cast(&fw_cuda_of(d)->launch, y, t_y, x, t_x, n));
}

fw_status fw_cuda_op_zero(fw_device *d, void *x, size_t bytes) {
    return bytes == 0 ? FW_OK : fw_cuda_launched(d, "zero", fw_cuda_of(d)->backend->zero(fw_cuda_of(d), x, bytes));
}

fw_status fw_cuda_op_copy(fw_device *d, void *y, const void *x, size_t bytes) {
    return bytes == 0 ? FW_OK : fw_cuda_launched(d, "copy", fw_cuda_of(d)->backend->copy(fw_cuda_of(d), y, x, bytes));
}

/* ---- creation ---- */

static void destroy(fw_device *base) {
    fw_cuda *d = fw_cuda_of(base);
    if (d->library != NULL) d->library->destroy(d->library);
    d->backend->free(d, d->launch.scratch);
    fw_free(d->partial);
    d->backend->destroy(d);
}

static const fw_device_ops cuda_ops = {
#define FW_OP(name, parameters, arguments) .name = fw_cuda_op_##name,
#include "device/ops.def"
#undef FW_OP
    .alloc = alloc_block,
    .free = free_block,
    .reserve = reserve,
    .destroy = destroy,
};

fw_status fw_cuda_init(fw_cuda *d, const fw_cuda_backend *backend, const char *name, void *stream, int sm_n) {
    FW_TRY(FW_NEW_ARRAY(d->partial, PARTIAL_MAX));
    d->base.ops = &cuda_ops;
    d->base.name = name;
    d->backend = backend;
    d->launch.stream = stream;
    d->launch.sm_n = sm_n;
    snprintf(d->no_library, sizeof d->no_library, "this device has no cuDNN");
    return FW_OK;
}
