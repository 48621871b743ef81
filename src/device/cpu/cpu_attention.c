/* Attention on the cpu device: jobs over threads. */
#include "device/cpu/cpu.h"

size_t fw_cpu_attention_scratch_n(const fw_cpu *d, int64_t N, int64_t H, int64_t D) {
    const size_t forward = d->kernels->attention_forward_scratch_n(N, H, D);
    const size_t backward = d->kernels->attention_backward_scratch_n(N, D);
    return forward > backward ? forward : backward;
}

typedef struct call {
    fw_cpu *d;
    const fw_cpu_attention_args *a;
} call;

static void forward_jobs(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    c->d->kernels->attention_forward(c->a, first, last, fw_cpu_scratch(c->d, thread));
}

fw_status fw_cpu_attention_forward(fw_device *base, void *o_NHD, float *lse_NH, const void *q, int64_t q_stride,
                                   const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                                   const int32_t *first_N, int64_t N, int64_t q_offset, int64_t H, int64_t K, int64_t D,
                                   float scale, fw_dtype t) {
    if (N <= 0) return FW_OK;
    fw_cpu *d = (fw_cpu *)base;
    const fw_cpu_attention_args a = {
        .o = o_NHD,
        .lse = lse_NH,
        .q = q,
        .k = k,
        .v = v,
        .q_stride = q_stride,
        .k_stride = k_stride,
        .v_stride = v_stride,
        .first = first_N,
        .N = N,
        .q_offset = q_offset,
        .H = H,
        .K = K,
        .D = D,
        .scale = scale,
        .t = t,
    };
    FW_TRY(fw_cpu_need(d, d->kernels->attention_forward_scratch_n(q_offset + N, H, D)));
    call c = {d, &a};
    fw_cpu_split(d, d->kernels->attention_jobs(&a), 1, N * (q_offset + N) * H * D, forward_jobs, &c);
    return FW_OK;
}

static void backward_heads(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    c->d->kernels->attention_backward(c->a, first, last, fw_cpu_scratch(c->d, thread));
}
static void backward_kv(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    c->d->kernels->attention_backward_kv(c->a, first, last, fw_cpu_scratch(c->d, thread));
}
static void backward_q(void *context, int64_t first, int64_t last, int thread) {
    const call *c = context;
    c->d->kernels->attention_backward_q(c->a, first, last, fw_cpu_scratch(c->d, thread));
}

fw_status fw_cpu_attention_backward(fw_device *base, void *dq, int64_t dq_stride, void *dk, void *dv,
                                    int64_t dkv_stride, const void *do_NHD, const void *o_NHD, const float *lse_NH,
                                    const void *q, int64_t q_stride, const void *k, int64_t k_stride, const void *v,
                                    int64_t v_stride, const int32_t *first_N, int64_t N, int64_t H, int64_t K,
                                    int64_t D, float scale, fw_dtype t) {
    if (N <= 0) return FW_OK;
    fw_cpu *d = (fw_cpu *)base;
    const fw_cpu_attention_args a = {
        .o = (void *)(uintptr_t)o_NHD,
        .dq = dq,
        .dk = dk,
        .dv = dv,
        .dq_stride = dq_stride,
        .dkv_stride = dkv_stride,
        .lse = (float *)(uintptr_t)lse_NH,
        .q = q,
        .k = k,
        .v = v,
        .d_o = do_NHD,
        .q_stride = q_stride,
        .k_stride = k_stride,
        .v_stride = v_stride,
        .first = first_N,
        .N = N,
        .H = H,
        .K = K,
        .D = D,
        .scale = scale,
        .t = t,
    };
    FW_TRY(fw_cpu_need(d, d->kernels->attention_backward_scratch_n(N, D)));
    call c = {d, &a};
    const int64_t work = N * N * H * D, thread_n = fw_threads_n(base->threads);
    const int64_t heads_each = (K + thread_n - 1) / thread_n;
    if (5 * heads_each * thread_n <= 7 * K) { /* one pass of 5 products by whole heads, against two of 7 in all */
        fw_cpu_split(d, K, 1, work, backward_heads, &c);
    } else {
        fw_cpu_split(d, d->kernels->attention_backward_kv_jobs(&a), 1, work, backward_kv, &c);
        fw_cpu_split(d, d->kernels->attention_backward_q_jobs(&a), 1, work, backward_q, &c);
    }
    return FW_OK;
}
