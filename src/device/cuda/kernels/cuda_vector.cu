/* y = a + b, x = x * factor, y = x in another type. Each element is read once and written once (flat.cuh). */
#include "device/cuda/kernels/flat.cuh"

namespace {

template <class T> struct Add {
    T *y;
    const T *a, *b; /* y may be one of them */

    template <int N> __device__ __forceinline__ void at(int64_t i) const {
        const Chunk<T, N> a_i = load_chunk<N>(a + i), b_i = load_chunk<N>(b + i);
        Chunk<T, N> y_i;
        for (int k = 0; k < N; k++) y_i.v[k] = from_float<T>(to_float(a_i.v[k]) + to_float(b_i.v[k]));
        store_chunk(y + i, y_i);
    }
};

struct Scale {
    float *x;
    float factor;

    template <int N> __device__ __forceinline__ void at(int64_t i) const {
        Chunk<float, N> x_i = load_chunk<N>(x + i);
        for (int k = 0; k < N; k++) x_i.v[k] *= factor;
        store_chunk(x + i, x_i);
    }
};

template <class To, class T> struct Cast {
    To *y;
    const T *x;

    template <int N> __device__ __forceinline__ void at(int64_t i) const {
        const Chunk<T, N> x_i = load_chunk<N>(x + i);
        Chunk<To, N> y_i;
        for (int k = 0; k < N; k++) y_i.v[k] = from_float<To>(to_float(x_i.v[k]));
        store_chunk(y + i, y_i);
    }
};

template <class To, class T> int launch_cast(const fw_cuda_launch *l, To *y, const T *x, int64_t n) {
    /* 8 elements where one side has two bytes each: 16 of them in one access there, in two on a side of four bytes */
    enum { N = 16 / (sizeof(To) < sizeof(T) ? sizeof(To) : sizeof(T)) };
    return launch_flat<N>(l, Cast<To, T>{y, x}, n, is_chunked<To, N>(y, 0, 0) && is_chunked<T, N>(x, 0, 0));
}

template <class T> int cast_from(const fw_cuda_launch *l, void *y, fw_dtype t_y, const T *x, int64_t n) {
    if (t_y == FW_F32) return launch_cast(l, (float *)y, x, n);
    if (t_y == FW_BF16) return launch_cast(l, (bf16 *)y, x, n);
    return launch_cast(l, (f16 *)y, x, n);
}

} // namespace

int fw_cuda_add(const fw_cuda_launch *l, void *y, const void *a, const void *b, int64_t n, fw_dtype t) {
    const bool packed = is_packed<float>(y, 0, 0) && is_packed<float>(a, 0, 0) && is_packed<float>(b, 0, 0);
    FW_BY_TYPE(t, return launch_flat<Pack<T>::N>(l, (Add<T>{(T *)y, (const T *)a, (const T *)b}), n, packed));
}

int fw_cuda_scale(const fw_cuda_launch *l, float *x, int64_t n, float factor) {
    return launch_flat<Pack<float>::N>(l, Scale{x, factor}, n, is_packed<float>(x, 0, 0));
}

int fw_cuda_cast(const fw_cuda_launch *l, void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t n) {
    if (t_x == FW_F32) return cast_from(l, y, t_y, (const float *)x, n);
    if (t_x == FW_BF16) return cast_from(l, y, t_y, (const bf16 *)x, n);
    return cast_from(l, y, t_y, (const f16 *)x, n);
}
