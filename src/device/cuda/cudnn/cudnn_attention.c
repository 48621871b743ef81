#include "device/cuda/cudnn/cudnn_attention.h"

static const cudnnDataType_t IO = CUDNN_DATA_BFLOAT16, F32 = CUDNN_DATA_FLOAT, I32 = CUDNN_DATA_INT32,
                             YES_NO = CUDNN_DATA_BOOLEAN;

typedef struct parts {
    fw_cudnn_graph *g;
    const fw_cudnn_attention *a;
    fw_cudnn_shape scores;          /* b, H, s, s */
    fw_cudnn_descriptor lengths[2]; /* of queries, of keys */
    fw_cudnn_descriptor minus;      /* -infinity */
    fw_cudnn_descriptor scale;
} parts;

static fw_cudnn_descriptor offsets(const parts *p, int64_t number) {
    return fw_cudnn_tensor(p->g, number, fw_cudnn_packed(p->a->document_n + 1, 1, 1, 1), I32, NULL);
}

/* Heads of D elements, rows `stride` apart: b, heads, s, D. */
static fw_cudnn_shape rows_of(const parts *p, int64_t heads, int64_t stride) {
    const int64_t s = p->a->longest_n, D = p->a->D;
    return (fw_cudnn_shape){{p->a->document_n, heads, s, D}, {s * stride, D, stride, 1}};
}

static fw_cudnn_shape turned(fw_cudnn_shape shape) {
    return (fw_cudnn_shape){{shape.dim[0], shape.dim[1], shape.dim[3], shape.dim[2]},
                            {shape.stride[0], shape.stride[1], shape.stride[3], shape.stride[2]}};
}

/* One number a row and head, [N, H]. */
static fw_cudnn_shape row_numbers(const parts *p) {
    const int64_t s = p->a->longest_n, H = p->a->H;
    return (fw_cudnn_shape){{p->a->document_n, H, s, 1}, {s * H, 1, H, 1}};
}

static fw_cudnn_descriptor between(const parts *p, fw_cudnn_shape shape, cudnnDataType_t type) {
    return fw_cudnn_virtual(p->g, shape, type, NULL);
}

/* y = mode(x, b), as a tensor of x's `shape` that only the next operations see. */
static fw_cudnn_descriptor compute(const parts *p, cudnnPointwiseMode_t mode, fw_cudnn_shape shape,
                                   fw_cudnn_descriptor x, fw_cudnn_descriptor b) {
    fw_cudnn_descriptor y = between(p, shape, F32);
    fw_cudnn_pointwise(p->g, mode, F32, -1, x, b, NULL, y);
    return y;
}

static fw_cudnn_descriptor compare(const parts *p, cudnnPointwiseMode_t mode, fw_cudnn_descriptor x,
                                   fw_cudnn_descriptor b) {
    fw_cudnn_descriptor y = between(p, p->scores, YES_NO);
    fw_cudnn_pointwise(p->g, mode, YES_NO, -1, x, b, NULL, y);
    return y;
}

/* The number of the row (axis 2) or of the column (axis 3) within the document. */
static fw_cudnn_descriptor number_of(const parts *p, int64_t axis, fw_cudnn_descriptor scores) {
    fw_cudnn_descriptor y = between(p, p->scores, I32);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_GEN_INDEX, I32, axis, scores, NULL, NULL, y);
    return y;
}

static fw_cudnn_descriptor where(const parts *p, fw_cudnn_descriptor chosen, fw_cudnn_descriptor scores) {
    fw_cudnn_descriptor y = between(p, p->scores, F32);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_BINARY_SELECT, F32, -1, scores, p->minus, chosen, y);
    return y;
}

/* -infinity beyond the document's end and after the query's own position. */
static fw_cudnn_descriptor masked(const parts *p, fw_cudnn_descriptor scores) {
    fw_cudnn_descriptor row = number_of(p, 2, scores), column = number_of(p, 3, scores);
    row = compare(p, CUDNN_POINTWISE_CMP_LT, row, p->lengths[0]);
    column = compare(p, CUDNN_POINTWISE_CMP_LT, column, p->lengths[1]);
    scores = where(p, compare(p, CUDNN_POINTWISE_LOGICAL_AND, row, column), scores);
    row = number_of(p, 2, scores);
    column = number_of(p, 3, scores);
    return where(p, compare(p, CUDNN_POINTWISE_CMP_GE, row, column), scores);
}

/* scale * q k^T */
static fw_cudnn_descriptor scores_of(const parts *p, fw_cudnn_descriptor q, fw_cudnn_descriptor k, int padding) {
    fw_cudnn_descriptor s = between(p, p->scores, F32);
    fw_cudnn_multiply(p->g, q, k, s, (fw_cudnn_lengths){.m = p->lengths[0], .n = p->lengths[1], .padding = padding});
    return compute(p, CUDNN_POINTWISE_MUL, p->scores, s, p->scale);
}

/* ---- forward: o = softmax(s) v, lse = max + log(sum of exp(s - max)) */

static void build_forward(const parts *p, fw_cudnn_descriptor q, fw_cudnn_descriptor k, fw_cudnn_descriptor lse) {
    const fw_cudnn_attention *a = p->a;
    const fw_cudnn_shape rows = fw_cudnn_packed(a->document_n, a->H, a->longest_n, 1);
    fw_cudnn_descriptor v =
        fw_cudnn_tensor(p->g, FW_CUDNN_V, rows_of(p, a->K, a->v_stride), IO, offsets(p, FW_CUDNN_OFFSETS_V));
    fw_cudnn_descriptor o =
        fw_cudnn_tensor(p->g, FW_CUDNN_O, rows_of(p, a->H, a->H * a->D), IO, offsets(p, FW_CUDNN_OFFSETS_O));
    fw_cudnn_descriptor s = masked(p, scores_of(p, q, k, 1));
    fw_cudnn_descriptor most = between(p, rows, F32), sum = between(p, rows, F32);
    fw_cudnn_reduce(p->g, CUDNN_REDUCE_TENSOR_MAX, s, most);
    s = compute(p, CUDNN_POINTWISE_SUB, p->scores, s, most);
    s = compute(p, CUDNN_POINTWISE_EXP, p->scores, s, NULL);
    fw_cudnn_reduce(p->g, CUDNN_REDUCE_TENSOR_ADD, s, sum);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_ADD, F32, -1, most, compute(p, CUDNN_POINTWISE_LOG, rows, sum, NULL), NULL,
                       lse);
    fw_cudnn_descriptor probability = between(p, p->scores, IO);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_DIV, F32, -1, s, sum, NULL, probability);
    fw_cudnn_multiply(p->g, probability, v, o, (fw_cudnn_lengths){.m = p->lengths[0], .k = p->lengths[1]});
}

/* ---- backward: p = exp(s - lse), ds = p (do v^T - delta), delta = do . o; dv = p^T do, dk = ds^T q, dq = ds k */

/* to = x^T y for each query head; where heads share keys, first for all of them, in memory of its own. */
static void keys_gradient(const parts *p, fw_cudnn_descriptor x, fw_cudnn_descriptor y, int64_t number,
                          int64_t heads_number, fw_cudnn_descriptor kv_offsets) {
    const fw_cudnn_attention *a = p->a;
    const fw_cudnn_lengths lengths = {.m = p->lengths[1], .k = p->lengths[0]};
    fw_cudnn_descriptor x_turned = between(p, turned(p->scores), IO);
    fw_cudnn_reshape(p->g, x, x_turned);
    fw_cudnn_descriptor to = fw_cudnn_tensor(p->g, number, rows_of(p, a->K, a->K * a->D), IO, kv_offsets);
    if (a->H == a->K) {
        fw_cudnn_multiply(p->g, x_turned, y, to, lengths);
        return;
    }
    /* cuDNN itself takes these offsets times H / K. */
    fw_cudnn_descriptor heads = fw_cudnn_tensor(p->g, heads_number, rows_of(p, a->H, a->H * a->D), IO, kv_offsets);
    fw_cudnn_multiply(p->g, x_turned, y, heads, lengths);
    fw_cudnn_reduce(p->g, CUDNN_REDUCE_TENSOR_ADD, heads, to);
}

static fw_cudnn_descriptor delta_of(const parts *p, fw_cudnn_descriptor d_o, fw_cudnn_descriptor o,
                                    fw_cudnn_descriptor lse_offsets) {
    const fw_cudnn_attention *a = p->a;
    const fw_cudnn_shape heads = rows_of(p, a->H, a->H * a->D);
    const fw_cudnn_shape rows = fw_cudnn_packed(a->document_n, a->H, a->longest_n, 1);
    fw_cudnn_descriptor product = compute(p, CUDNN_POINTWISE_MUL, heads, d_o, o), sum = between(p, rows, F32);
    fw_cudnn_reduce(p->g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    fw_cudnn_descriptor delta = fw_cudnn_tensor(p->g, FW_CUDNN_DELTA, row_numbers(p), F32, lse_offsets);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_MUL, F32, -1, sum, fw_cudnn_scalar(p->g, FW_CUDNN_ONE, F32), NULL, delta);
    return delta;
}

static void queries_gradient(const parts *p, fw_cudnn_descriptor ds, fw_cudnn_descriptor k,
                             fw_cudnn_descriptor k_offsets) {
    const fw_cudnn_attention *a = p->a;
    const fw_cudnn_lengths lengths = {.m = p->lengths[0], .k = p->lengths[1]};
    const fw_cudnn_shape shape = rows_of(p, a->H, a->dq_stride);
    fw_cudnn_descriptor k_turned = fw_cudnn_virtual(p->g, rows_of(p, a->K, a->k_stride), IO, k_offsets);
    fw_cudnn_reshape(p->g, k, k_turned);
    fw_cudnn_descriptor dq_offsets = offsets(p, FW_CUDNN_OFFSETS_DQ);
    fw_cudnn_descriptor dq = fw_cudnn_tensor(p->g, FW_CUDNN_DQ, shape, IO, dq_offsets);
    if (a->whole_sums) {
        fw_cudnn_multiply(p->g, ds, k_turned, dq, lengths);
        return;
    }
    fw_cudnn_descriptor sum = fw_cudnn_tensor(p->g, FW_CUDNN_DQ_SUM, shape, F32, dq_offsets);
    fw_cudnn_multiply(p->g, ds, k_turned, sum, lengths);
    fw_cudnn_pointwise(p->g, CUDNN_POINTWISE_IDENTITY, F32, -1, sum, NULL, NULL, dq);
}

static void build_backward(const parts *p, fw_cudnn_descriptor q, fw_cudnn_descriptor k, fw_cudnn_descriptor k_offsets,
                           fw_cudnn_descriptor lse, fw_cudnn_descriptor lse_offsets) {
    const fw_cudnn_attention *a = p->a;
    fw_cudnn_descriptor o_offsets = offsets(p, FW_CUDNN_OFFSETS_O), kv_offsets = offsets(p, FW_CUDNN_OFFSETS_DKV);
    const fw_cudnn_shape heads = rows_of(p, a->H, a->H * a->D);
    fw_cudnn_descriptor o = fw_cudnn_tensor(p->g, FW_CUDNN_O, heads, IO, o_offsets);
    fw_cudnn_descriptor d_o = fw_cudnn_tensor(p->g, FW_CUDNN_D_O, heads, IO, o_offsets);
    fw_cudnn_descriptor v =
        fw_cudnn_tensor(p->g, FW_CUDNN_V, turned(rows_of(p, a->K, a->v_stride)), IO, offsets(p, FW_CUDNN_OFFSETS_V));
    fw_cudnn_descriptor delta = delta_of(p, d_o, o, lse_offsets);
    fw_cudnn_descriptor s = compute(p, CUDNN_POINTWISE_SUB, p->scores, scores_of(p, q, k, 0), lse);
    fw_cudnn_descriptor probability = compute(p, CUDNN_POINTWISE_EXP, p->scores, masked(p, s), NULL);
    keys_gradient(p, probability, d_o, FW_CUDNN_DV, FW_CUDNN_DV_HEADS, kv_offsets);
    fw_cudnn_descriptor ds = between(p, p->scores, F32);
    fw_cudnn_multiply(p->g, d_o, v, ds, (fw_cudnn_lengths){.m = p->lengths[0], .n = p->lengths[1]});
    ds = compute(p, CUDNN_POINTWISE_SUB, p->scores, ds, delta);
    ds = compute(p, CUDNN_POINTWISE_MUL, p->scores, ds, probability);
    ds = compute(p, CUDNN_POINTWISE_MUL, p->scores, ds, p->scale);
    keys_gradient(p, ds, q, FW_CUDNN_DK, FW_CUDNN_DK_HEADS, kv_offsets);
    queries_gradient(p, ds, k, k_offsets);
}

fw_status fw_cudnn_attention_build(fw_cudnn_graph *g, const fw_cudnn_attention *a) {
    parts p = {.g = g, .a = a, .scores = fw_cudnn_packed(a->document_n, a->H, a->longest_n, a->longest_n)};
    const fw_cudnn_shape lengths = fw_cudnn_packed(a->document_n, 1, 1, 1);
    p.lengths[0] = fw_cudnn_tensor(g, FW_CUDNN_LENGTHS_Q, lengths, I32, NULL);
    p.lengths[1] = fw_cudnn_tensor(g, FW_CUDNN_LENGTHS_KV, lengths, I32, NULL);
    p.minus = fw_cudnn_scalar(g, FW_CUDNN_MINUS, F32);
    p.scale = fw_cudnn_scalar(g, FW_CUDNN_SCALE, F32);
    fw_cudnn_descriptor q =
        fw_cudnn_tensor(g, FW_CUDNN_Q, rows_of(&p, a->H, a->q_stride), IO, offsets(&p, FW_CUDNN_OFFSETS_Q));
    fw_cudnn_descriptor k_offsets = offsets(&p, FW_CUDNN_OFFSETS_K);
    fw_cudnn_descriptor k = fw_cudnn_tensor(g, FW_CUDNN_K, turned(rows_of(&p, a->K, a->k_stride)), IO, k_offsets);
    fw_cudnn_descriptor lse_offsets = offsets(&p, FW_CUDNN_OFFSETS_LSE);
    fw_cudnn_descriptor lse = fw_cudnn_tensor(g, FW_CUDNN_LSE, row_numbers(&p), F32, lse_offsets);
    if (a->backward)
        build_backward(&p, q, k, k_offsets, lse, lse_offsets);
    else
        build_forward(&p, q, k, lse);
    return fw_cudnn_graph_finish(g);
}
