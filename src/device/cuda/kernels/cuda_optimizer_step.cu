/* Updates by rules of one element each (equations: device/device.h, optimizer_step; the rules: device/step_rule.h), in one
 * pass: each array that the rule has is read once and written once, 16 bytes a thread. */
#include "device/cuda/kernels/flat.cuh"
#include "device/step_rule.h"

namespace {

FW_STEP_DEFINE(step, float, sqrtf)

template <fw_step_rule RULE, bool HAS_M, bool IS_FIRST> struct Step {
    float *w, *m, *v, *g;
    step_constants c;

    template <int N> __device__ __forceinline__ void at(int64_t i) const {
        enum {
            HAS_V = RULE == FW_STEP_LAMB || RULE == FW_STEP_VECTOR,
            HAS_W = RULE != FW_STEP_VECTOR,
            WRITES_W = HAS_W && RULE != FW_STEP_LAMB
        };
        Chunk<float, N> w_i, m_i, v_i, g_i = load_chunk<N>(g + i);
        if (HAS_W) w_i = load_chunk<N>(w + i);
        if (HAS_M && !IS_FIRST) m_i = load_chunk<N>(m + i);
        if (HAS_V && !IS_FIRST) v_i = load_chunk<N>(v + i);
        for (int k = 0; k < N; k++) {
            if (IS_FIRST) m_i.v[k] = v_i.v[k] = 0;
            step(&c, RULE, HAS_M, IS_FIRST, &w_i.v[k], &m_i.v[k], &v_i.v[k], &g_i.v[k]);
        }
        if (WRITES_W) store_chunk(w + i, w_i);
        if (HAS_M) store_chunk(m + i, m_i);
        if (HAS_V) store_chunk(v + i, v_i);
        store_chunk(g + i, g_i);
    }
};

template <fw_step_rule RULE, bool HAS_M, bool IS_FIRST>
int launch(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, int64_t n, const fw_step_options *o) {
    enum { N = Pack<float>::N };
    const bool chunked = is_chunked<float, N>(w, 0, 0) && is_chunked<float, N>(m, 0, 0) &&
                         is_chunked<float, N>(v, 0, 0) && is_packed<float>(g, 0, 0);
    return launch_flat<N>(l, Step<RULE, HAS_M, IS_FIRST>{w, m, v, g, step_constants_of(o)}, n, chunked);
}

template <fw_step_rule RULE, bool HAS_M>
int launch_either(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, int64_t n,
                  const fw_step_options *o) {
    return o->step == 1 ? launch<RULE, HAS_M, true>(l, w, m, v, g, n, o)
                        : launch<RULE, HAS_M, false>(l, w, m, v, g, n, o);
}

} // namespace

int fw_cuda_optimizer_step(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, int64_t n,
                           const fw_step_options *o) {
    switch (o->rule) {
    case FW_STEP_SGD:
        return m == nullptr ? launch<FW_STEP_SGD, false, false>(l, w, m, v, g, n, o)
                            : launch_either<FW_STEP_SGD, true>(l, w, m, v, g, n, o);
    case FW_STEP_LION: return launch_either<FW_STEP_LION, true>(l, w, m, v, g, n, o);
    case FW_STEP_LAMB: return launch_either<FW_STEP_LAMB, true>(l, w, m, v, g, n, o);
    case FW_STEP_VECTOR: return launch_either<FW_STEP_VECTOR, false>(l, w, m, v, g, n, o);
    default: return launch<FW_STEP_ALONG, false, false>(l, w, m, v, g, n, o);
    }
}
