/* Attention, backward: delta = rowsum(do * o), then dq (cuda_attention_queries.cu) and dk, dv (cuda_attention_keys.cu) in
 * kernels of their own. Both compute probabilities again from lse; that is 7 products of size D for every query, head and key
 * instead of 5, and in exchange every sum has one owner and one order: equal calls give equal bits without atomics. */
#include "device/cuda/kernels/cuda_attention.cuh"

namespace {

/* Rows of D bf16, 8 elements a lane: 8 lanes a row for D = 64, else 16. Bytes: do and o once. */
template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    row_products(float *delta, const bf16 *d_o, const bf16 *o, int64_t row_n) {
    enum { LANES = D == 64 ? 8 : 16 };
    const int64_t row = ((int64_t)blockIdx.x * ATTENTION_THREADS + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    float sum = 0.0f;
    if (row < row_n && lane < D / 8) {
        const Pack<bf16> x = *(const Pack<bf16> *)(d_o + row * D + 8 * lane),
                         y = *(const Pack<bf16> *)(o + row * D + 8 * lane);
        FW_UNROLL
        for (int i = 0; i < 8; i++) sum += to_float(x.v[i]) * to_float(y.v[i]);
    }
    FW_UNROLL
    for (int bits = LANES / 2; bits > 0; bits /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
    if (row < row_n && lane == 0) delta[row] = sum;
}

template <int D> int launch_row_products(const fw_cuda_launch *l, const attention_call &c) {
    const int64_t threads = c.N * c.H * (D == 64 ? 8 : 16);
    FW_LAUNCH((row_products<D>), (unsigned)blocks_of(threads, ATTENTION_THREADS), ATTENTION_THREADS, 0, stream_of(l),
              c.delta_NH, (const bf16 *)c.d_o, (const bf16 *)c.o, c.N * c.H);
    return launch_status();
}

int launch_backward(const fw_cuda_launch *l, const attention_call &c) {
    int error = c.D == 64   ? launch_row_products<64>(l, c)
                : c.D == 96 ? launch_row_products<96>(l, c)
                            : launch_row_products<128>(l, c);
    if (error == 0) error = attention_queries(l, c);
    /* parts come after delta, 256-byte aligned */
    if (error == 0) error = attention_keys(l, c, c.delta_NH + blocks_of(c.N * c.H, 64) * 64);
    return error;
}

} // namespace

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
    const bool fast = t == FW_BF16 && (D == 64 || D == 96 || D == 128) && is_tiled(q, q_stride) &&
                      is_tiled(k, k_stride) && is_tiled(v, v_stride) && is_tiled(do_NHD, H * D) &&
                      is_tiled(o_NHD, H * D) && N < 1 << 21;
    return fast ? launch_backward(l, c) : attention_plain_backward(l, c, t);
}
