/* Attention, backward: the launcher. */
#include "device/cuda/kernels/cuda_attention.cuh"

int fw_cuda_attention_backward(const fw_cuda_launch *l, void *dq, int64_t dq_stride, void *dk, void *dv,
                               int64_t dkv_stride, const void *do_NHD, const void *o_NHD, const float *lse_NH,
                               const void *q, int64_t q_stride, const void *k, int64_t k_stride, const void *v,
                               int64_t v_stride, const int32_t *first_N, int64_t N, int64_t H, int64_t K, int64_t D,
                               float scale, fw_dtype t) {
    if (N == 0) return 0;
    attention_call c = {};
    c.q = q, c.k = k, c.v = v;
    c.q_stride = q_stride, c.k_stride = k_stride, c.v_stride = v_stride;
    c.first_N = first_N;
    c.N = N, c.H = H, c.K = K, c.D = D;
    c.scale = scale;
    c.o = (void *)o_NHD, c.lse = (float *)lse_NH, c.d_o = do_NHD;
    c.delta_NH = (float *)l->scratch;
    c.dq = dq, c.dk = dk, c.dv = dv;
    c.dq_stride = dq_stride, c.dkv_stride = dkv_stride;
    return attention_plain_backward(l, c, t);
}
