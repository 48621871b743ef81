/* o = softmax(scale * q k^T) v over the keys first[n] .. q_offset + n, one query and head at a time, and its gradient.
 *
 * With P the probabilities: dv_j = sum_n P_nj do_n, dP_nj = do_n . v_j, dS_nj = P_nj (dP_nj - do_n . o_n),
 * dq_n = scale * sum_j dS_nj k_j, dk_j = scale * sum_n dS_nj q_n. Scores are computed again where they are
 * needed: nothing of size keys is stored, only sums over one head. */
#include "base/alloc.h"
#include "device/ref/ref_element.h"
#include "device/ref/ref_ops.h"

#include <math.h>

static double dot(const void *a, int64_t a_at, const void *b, int64_t b_at, int64_t n, fw_dtype t) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fw_ref_load(a, a_at + i, t) * fw_ref_load(b, b_at + i, t);
    return sum;
}

fw_status fw_ref_attention_forward(fw_device *d, void *o_NHD, float *lse_NH, const void *q, int64_t q_stride,
                                   const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                                   const int32_t *first_N, int64_t N, int64_t q_offset, int64_t H, int64_t K, int64_t D,
                                   float scale, fw_dtype t) {
    (void)d;
    double *o_D;
    FW_TRY(FW_NEW_ARRAY(o_D, (size_t)D));
    for (int64_t n = 0; n < N; n++) {
        int64_t first = first_N != NULL ? first_N[n] : 0, last = q_offset + n;
        for (int64_t h = 0; h < H; h++) {
            int64_t q_at = n * q_stride + h * D, kv_head = h / (H / K) * D;
            double maximum = -INFINITY, denominator = 0;
            for (int64_t j = first; j <= last; j++)
                maximum = fmax(maximum, (double)scale * dot(q, q_at, k, j * k_stride + kv_head, D, t));
            memset(o_D, 0, (size_t)D * sizeof *o_D);
            for (int64_t j = first; j <= last; j++) {
                double p = exp((double)scale * dot(q, q_at, k, j * k_stride + kv_head, D, t) - maximum);
                denominator += p;
                for (int64_t e = 0; e < D; e++) o_D[e] += p * fw_ref_load(v, j * v_stride + kv_head + e, t);
            }
            for (int64_t e = 0; e < D; e++) fw_ref_store(o_NHD, (n * H + h) * D + e, t, o_D[e] / denominator);
            if (lse_NH != NULL) fw_ref_store(lse_NH, n * H + h, fw_ref_wide(t), maximum + log(denominator));
        }
    }
    fw_free(o_D);
    return FW_OK;
}

/* What both halves of the gradient read. */
typedef struct backward_inputs {
    const void *do_NHD, *o_NHD, *q, *k, *v;
    const float *lse_NH;
    int64_t q_stride, k_stride, v_stride, heads_per_kv, H, D;
    double scale;
    fw_dtype t;
} backward_inputs;

/* P and dS of query n and key j in head h. */
static void softmax_gradient(double *p, double *ds, const backward_inputs *in, int64_t n, int64_t h, int64_t j) {
    int64_t row = n * in->H + h, o_at = row * in->D, kv_head = h / in->heads_per_kv * in->D;
    double score =
        in->scale * dot(in->q, n * in->q_stride + h * in->D, in->k, j * in->k_stride + kv_head, in->D, in->t);
    double delta = dot(in->do_NHD, o_at, in->o_NHD, o_at, in->D, in->t);
    *p = exp(score - fw_ref_load(in->lse_NH, row, fw_ref_wide(in->t)));
    *ds = *p * (dot(in->do_NHD, o_at, in->v, j * in->v_stride + kv_head, in->D, in->t) - delta);
}

fw_status fw_ref_attention_backward(fw_device *d, void *dq, int64_t dq_stride, void *dk, void *dv, int64_t dkv_stride,
                                    const void *do_NHD, const void *o_NHD, const float *lse_NH, const void *q,
                                    int64_t q_stride, const void *k, int64_t k_stride, const void *v, int64_t v_stride,
                                    const int32_t *first_N, int64_t N, int64_t H, int64_t K, int64_t D, float scale,
                                    fw_dtype t) {
    (void)d;
    const backward_inputs in = {.do_NHD = do_NHD,
                                .o_NHD = o_NHD,
                                .q = q,
                                .k = k,
                                .v = v,
                                .lse_NH = lse_NH,
                                .q_stride = q_stride,
                                .k_stride = k_stride,
                                .v_stride = v_stride,
                                .heads_per_kv = H / K,
                                .H = H,
                                .D = D,
                                .scale = (double)scale,
                                .t = t};
    int64_t heads_per_kv = H / K;
    double *sum_D, *sum_v_D, p, ds;
    FW_TRY(FW_NEW_ARRAY(sum_D, 2 * (size_t)D));
    sum_v_D = sum_D + D;

    for (int64_t n = 0; n < N; n++) {
        for (int64_t h = 0; h < H; h++) {
            memset(sum_D, 0, (size_t)D * sizeof *sum_D);
            for (int64_t j = first_N != NULL ? first_N[n] : 0; j <= n; j++) {
                int64_t k_at = j * k_stride + h / heads_per_kv * D;
                softmax_gradient(&p, &ds, &in, n, h, j);
                for (int64_t e = 0; e < D; e++) sum_D[e] += ds * fw_ref_load(k, k_at + e, t);
            }
            for (int64_t e = 0; e < D; e++) fw_ref_store(dq, n * dq_stride + h * D + e, t, in.scale * sum_D[e]);
        }
    }

    for (int64_t j = 0; j < N; j++) {
        for (int64_t kv_head = 0; kv_head < K; kv_head++) {
            memset(sum_D, 0, 2 * (size_t)D * sizeof *sum_D);
            for (int64_t h = kv_head * heads_per_kv; h < (kv_head + 1) * heads_per_kv; h++) {
                for (int64_t n = j; n < N; n++) {
                    if (first_N != NULL && first_N[n] > j) break; /* first does not decrease: no later query sees j */
                    softmax_gradient(&p, &ds, &in, n, h, j);
                    for (int64_t e = 0; e < D; e++) {
                        sum_D[e] += ds * fw_ref_load(q, n * q_stride + h * D + e, t);
                        sum_v_D[e] += p * fw_ref_load(do_NHD, (n * H + h) * D + e, t);
                    }
                }
            }
            for (int64_t e = 0; e < D; e++) {
                fw_ref_store(dk, j * dkv_stride + kv_head * D + e, t, in.scale * sum_D[e]);
                fw_ref_store(dv, j * dkv_stride + kv_head * D + e, t, sum_v_D[e]);
            }
        }
    }
    fw_free(sum_D);
    return FW_OK;
}
