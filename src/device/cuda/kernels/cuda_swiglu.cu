/* SwiGLU. h = silu(gate) * up, silu(x) = x sigmoid(x); a row of gu is [gate F | up F].
 *
 * One thread a pack of a row: 3 elements moved forward, 5 backward, for each of h. expf, not __expf: far from 0 the
 * latter's error grows with its argument, and memory sets the time all the same. */
#include "device/cuda/kernels/gpu.cuh"

namespace {

enum { BLOCK = 256 };

/* dh silu'(gate) up and dh silu(gate), silu' = s + gate s (1 - s). */
__device__ __forceinline__ void gradients(float dh, float gate, float up, float *dgate, float *dup) {
    const float s = 1.0f / (1.0f + expf(-gate));
    *dgate = dh * up * (s + gate * s * (1.0f - s));
    *dup = dh * gate * s;
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK) forward(T *h_NF, const T *gu_N2F, int64_t pack_n, int64_t F) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= pack_n) return;
    int64_t at;
    const T *gate_at = gu_N2F + divide(i * N, F, &at) * 2 * F + at;
    const Chunk<T, N> gate = load_chunk<N>(gate_at), up = load_chunk<N>(gate_at + F);
    Chunk<T, N> h;
    for (int k = 0; k < N; k++) {
        const float g = to_float(gate.v[k]);
        h.v[k] = from_float<T>(g / (1.0f + expf(-g)) * to_float(up.v[k]));
    }
    store_chunk(h_NF + i * N, h);
}

template <class T, int N>
__global__ void __launch_bounds__(BLOCK)
    backward(T *dgu_N2F, const T *dh_NF, const T *gu_N2F, int64_t pack_n, int64_t F) {
    const int64_t i = thread_of_grid<BLOCK>();
    if (i >= pack_n) return;
    int64_t at;
    const int64_t gate_at = divide(i * N, F, &at) * 2 * F + at;
    const Chunk<T, N> gate = load_chunk<N>(gu_N2F + gate_at), up = load_chunk<N>(gu_N2F + gate_at + F);
    const Chunk<T, N> dh = load_chunk<N>(dh_NF + i * N);
    Chunk<T, N> dgate, dup;
    for (int k = 0; k < N; k++) {
        float a, b;
        gradients(to_float(dh.v[k]), to_float(gate.v[k]), to_float(up.v[k]), &a, &b);
        dgate.v[k] = from_float<T>(a);
        dup.v[k] = from_float<T>(b);
    }
    store_chunk(dgu_N2F + gate_at, dgate);
    store_chunk(dgu_N2F + gate_at + F, dup);
}

template <class T> int launch_forward(const fw_cuda_launch *l, T *h, const T *gu, int64_t N, int64_t F) {
    enum { PACK = Pack<T>::N };
    if (is_packed<T>(h, F, F) && is_packed<T>(gu, F, F))
        FW_LAUNCH((forward<T, PACK>), (unsigned)blocks_of(N * F / PACK, BLOCK), BLOCK, 0, stream_of(l), h, gu,
                  N * F / PACK, F);
    else
        FW_LAUNCH((forward<T, 1>), (unsigned)blocks_of(N * F, BLOCK), BLOCK, 0, stream_of(l), h, gu, N * F, F);
    return launch_status();
}

template <class T>
int launch_backward(const fw_cuda_launch *l, T *dgu, const T *dh, const T *gu, int64_t N, int64_t F) {
    enum { PACK = Pack<T>::N };
    if (is_packed<T>(dgu, F, F) && is_packed<T>(dh, F, F) && is_packed<T>(gu, F, F))
        FW_LAUNCH((backward<T, PACK>), (unsigned)blocks_of(N * F / PACK, BLOCK), BLOCK, 0, stream_of(l), dgu, dh, gu,
                  N * F / PACK, F);
    else
        FW_LAUNCH((backward<T, 1>), (unsigned)blocks_of(N * F, BLOCK), BLOCK, 0, stream_of(l), dgu, dh, gu, N * F, F);
    return launch_status();
}

} // namespace

int fw_cuda_swiglu_forward(const fw_cuda_launch *l, void *h, const void *gu, int64_t N, int64_t F, fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return launch_forward<T>(l, (T *)h, (const T *)gu, N, F));
}

int fw_cuda_swiglu_backward(const fw_cuda_launch *l, void *dgu, const void *dh, const void *gu, int64_t N, int64_t F,
                            fw_dtype t) {
    if (N == 0) return 0;
    FW_BY_TYPE(t, return launch_backward<T>(l, (T *)dgu, (const T *)dh, (const T *)gu, N, F));
}
