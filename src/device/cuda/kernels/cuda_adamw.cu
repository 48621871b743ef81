/* AdamW (equation: device/device.h): moments, weights, their copy in the compute type and the zeroed gradient in one pass.
 *
 * One thread four elements: 16 bytes read and 16 + written for each is the least there is (w, m, v, g in, w, m, v, 0 out,
 * and the copy: 34 bytes with bf16; 26 in the first step, which reads no moments). Corrections of the moments are folded
 * into the constants: with s = sqrt(1 - b2^step), (m / c1) / (sqrt(v) / s + eps) = (s / c1) m / (sqrt(v) + s eps). */
#include "device/cuda/kernels/flat.cuh"

namespace {

struct Constants {
    float beta1, beta2, rest1, rest2; /* rest = 1 - beta */
    float rate, epsilon;              /* with the corrections */
    float decay;                      /* learning rate times weight decay */
    float grad_scale;
};

Constants constants_of(const fw_adamw_options *o) {
    const double correction1 = 1 - pow((double)o->beta1, (double)o->step);
    const double root2 = sqrt(1 - pow((double)o->beta2, (double)o->step));
    Constants c;
    c.beta1 = o->beta1;
    c.beta2 = o->beta2;
    c.rest1 = (float)(1 - (double)o->beta1);
    c.rest2 = (float)(1 - (double)o->beta2);
    c.rate = (float)((double)o->learning_rate * root2 / correction1);
    c.epsilon = (float)((double)o->epsilon * root2);
    c.decay = (float)((double)o->learning_rate * (double)o->weight_decay);
    c.grad_scale = o->grad_scale;
    return c;
}

template <class T, bool IS_FIRST> struct Update {
    float *w, *m, *v, *g;
    T *copy; /* may be NULL */
    Constants c;

    template <int N> __device__ __forceinline__ void at(int64_t i) const {
        Chunk<float, N> w_i = load_chunk<N>(w + i), m_i, v_i, zero;
        const Chunk<float, N> g_i = load_chunk<N>(g + i);
        if (!IS_FIRST) {
            m_i = load_chunk<N>(m + i);
            v_i = load_chunk<N>(v + i);
        }
        Chunk<T, N> copy_i;
        for (int k = 0; k < N; k++) {
            const float gradient = g_i.v[k] * c.grad_scale;
            const float mean = (IS_FIRST ? 0.0f : c.beta1 * m_i.v[k]) + c.rest1 * gradient;
            const float square = (IS_FIRST ? 0.0f : c.beta2 * v_i.v[k]) + c.rest2 * (gradient * gradient);
            const float step = c.rate * (mean / (sqrtf(square) + c.epsilon));
            w_i.v[k] -= c.decay * w_i.v[k] + step; /* small terms first, one rounding of w */
            m_i.v[k] = mean;
            v_i.v[k] = square;
            copy_i.v[k] = from_float<T>(w_i.v[k]);
            zero.v[k] = 0;
        }
        store_chunk(w + i, w_i);
        store_chunk(m + i, m_i);
        store_chunk(v + i, v_i);
        store_chunk(g + i, zero);
        if (copy != nullptr) store_chunk(copy + i, copy_i);
    }
};

template <class T, bool IS_FIRST>
int launch(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, T *copy, int64_t n,
           const fw_adamw_options *options) {
    enum { N = Pack<float>::N };
    const bool chunked = is_packed<float>(w, 0, 0) && is_packed<float>(m, 0, 0) && is_packed<float>(v, 0, 0) &&
                         is_packed<float>(g, 0, 0) && is_chunked<T, N>(copy, 0, 0);
    return launch_flat<N>(l, Update<T, IS_FIRST>{w, m, v, g, copy, constants_of(options)}, n, chunked);
}

} // namespace

int fw_cuda_adamw(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, void *w_compute, int64_t n,
                  const fw_adamw_options *options, fw_dtype t) {
    if (options->step == 1) FW_BY_TYPE(t, return (launch<T, true>(l, w, m, v, g, (T *)w_compute, n, options)));
    FW_BY_TYPE(t, return (launch<T, false>(l, w, m, v, g, (T *)w_compute, n, options)));
}
