/* Attention on the cpu device: document by document, jobs over threads.
 *
 * Each document is a call of its own, with tiles counted from its first key: what a document gives then depends on that
 * document alone, to the last bit, wherever it lies in the batch and whatever lies beside it. */
#include "device/cpu/cpu.h"

#include <stdbool.h>

size_t fw_cpu_attention_scratch_n(const fw_cpu *d, int64_t N, int64_t H, int64_t D) {
    const size_t forward = d->kernels->attention_forward_scratch_n(N, H, D);
    const size_t backward = d->kernels->attention_backward_scratch_n(N, D);
    return forward > backward ? forward : backward;
}

typedef struct call {
    fw_cpu *d;
    const fw_cpu_attention_args *a;
} call;

/* The row after the last one that sees the same first key as `row`. */
static int64_t end_of_document(const int32_t *first_N, int64_t row, int64_t N) {
    if (first_N == NULL) return N;
    int64_t next = row + 1;
    while (next < N && first_N[next] == first_N[row]) next++;
    return next;
}

static void *at(const void *x, int64_t n, fw_dtype t) {
    return x == NULL ? NULL : (char *)(uintptr_t)x + n * (int64_t)fw_dtype_bytes(t);
}

/* The same attention for rows [row, next) of one document, with its first key as key 0. */
static fw_cpu_attention_args cut(const fw_cpu_attention_args *a, int64_t row, int64_t next) {
    fw_cpu_attention_args part = *a;
    const int64_t key = a->first == NULL ? 0 : a->first[row];
    part.o = at(a->o, row * a->H * a->D, a->t);
    part.d_o = at(a->d_o, row * a->H * a->D, a->t);
    part.lse = a->lse == NULL ? NULL : a->lse + row * a->H;
    part.q = at(a->q, row * a->q_stride, a->t);
    part.dq = at(a->dq, row * a->dq_stride, a->t);
    part.k = at(a->k, key * a->k_stride, a->t);
    part.v = at(a->v, key * a->v_stride, a->t);
    part.dk = at(a->dk, key * a->dkv_stride, a->t);
    part.dv = at(a->dv, key * a->dkv_stride, a->t);
    part.first = NULL;
    part.N = next - row;
    part.q_offset = a->q_offset + row - key;
    return part;
}

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
    for (int64_t row = 0, next; row < N; row = next) {
        next = end_of_document(first_N, row, N);
        const fw_cpu_attention_args part = cut(&a, row, next);
        call c = {d, &part};
        fw_cpu_split(d, d->kernels->attention_jobs(&part), 1, part.N * (part.q_offset + part.N) * H * D, forward_jobs,
                     &c);
    }
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

static void backward(fw_cpu *d, const fw_cpu_attention_args *a) {
    call c = {d, a};
    const int64_t work = a->N * a->N * a->H * a->D, thread_n = fw_threads_n(d->base.threads);
    const int64_t heads_each = (a->K + thread_n - 1) / thread_n;
    if (5 * heads_each * thread_n <= 7 * a->K) { /* one pass of 5 products by whole heads, against two of 7 in all */
        fw_cpu_split(d, a->K, 1, work, backward_heads, &c);
    } else {
        fw_cpu_split(d, d->kernels->attention_backward_kv_jobs(a), 1, work, backward_kv, &c);
        fw_cpu_split(d, d->kernels->attention_backward_q_jobs(a), 1, work, backward_q, &c);
    }
}

/* Does every row see from the first row of its own group on? */
static bool are_documents(const int32_t *first_N, int64_t N) {
    for (int64_t row = 0, next; first_N != NULL && row < N; row = next) {
        next = end_of_document(first_N, row, N);
        if (first_N[row] != row) return false;
    }
    return true;
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
    if (!are_documents(first_N, N)) { /* windows that overlap: keys get gradients from more than one of them */
        backward(d, &a);
        return FW_OK;
    }
    for (int64_t row = 0, next; row < N; row = next) {
        next = end_of_document(first_N, row, N);
        const fw_cpu_attention_args part = cut(&a, row, next);
        backward(d, &part);
    }
    return FW_OK;
}
