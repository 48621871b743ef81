/* Attention for every head size, type and alignment, forward and backward, without storing scores: what the tensor core
 * kernels do not take. fp32 arithmetic throughout.
 *
 * One warp a row: a query and head for o and dq, a key and key/value head for dk and dv. It walks over 32 others at a time,
 * one a lane, for the products over D (the row is in shared memory), then adds up over the 32 with one column of the
 * result a lane (the 32 probabilities are in shared memory). Nobody waits for another warp.
 * Shared memory a warp: its rows of D fp32 (2 forward, 3 for dq, 4 for dk and dv) and 64 numbers. Bytes: every row reads all
 * its keys and values, from the caches; fine for odd shapes and for judging, not a path for speed. */
#include "device/cuda/kernels/cuda_attention.cuh"

namespace {

/* x . y over D: x in shared memory, y of the compute type; packed: y allows 16-byte reads. */
template <class T> __device__ __forceinline__ float dot(const float *x, const T *y, int D, bool packed) {
    float sum = 0.0f;
    if (packed) {
        for (int e = 0; e < D; e += Pack<T>::N) {
            const Pack<T> p = *(const Pack<T> *)(y + e);
            FW_UNROLL
            for (int i = 0; i < Pack<T>::N; i++) sum += x[e + i] * to_float(p.v[i]);
        }
    } else {
        for (int e = 0; e < D; e++) sum += x[e] * to_float(y[e]);
    }
    return sum;
}

struct packs {
    bool k, v, q, d_o; /* which tensors allow 16-byte reads of a head's row */
};

template <class T> __global__ void plain_forward(attention_call c, packs packed) {
    FW_DYNAMIC_SHARED(float, shared);
    const int lane = threadIdx.x % 32, D = (int)c.D;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= c.N * c.H) return;
    float *q = shared + threadIdx.x / 32 * (2 * D + 64), *o = q + D, *p = o + D;
    const int64_t n = row / c.H, h = row % c.H, head = h / (c.H / c.K) * D, last = c.q_offset + n;
    for (int e = lane; e < D; e += 32) {
        q[e] = to_float(((const T *)c.q)[n * c.q_stride + h * D + e]);
        o[e] = 0.0f;
    }
    __syncwarp();
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j_0 = c.first_N != NULL ? c.first_N[n] : 0; j_0 <= last; j_0 += 32) {
        float s = -INFINITY;
        if (j_0 + lane <= last) s = c.scale * dot(q, (const T *)c.k + (j_0 + lane) * c.k_stride + head, D, packed.k);
        const float most = fmaxf(top, warp_max(s)), fade = expf(top - most);
        top = most;
        p[lane] = j_0 + lane <= last ? expf(s - most) : 0.0f;
        sum = sum * fade + p[lane];
        __syncwarp();
        const int here = (int)min(last - j_0 + 1, (int64_t)32);
        for (int e = lane; e < D; e += 32) {
            float y = o[e] * fade;
            const T *v = (const T *)c.v + j_0 * c.v_stride + head + e;
            for (int j = 0; j < here; j++) y += p[j] * to_float(v[j * c.v_stride]);
            o[e] = y;
        }
        __syncwarp();
    }
    sum = warp_sum(sum);
    for (int e = lane; e < D; e += 32) ((T *)c.o)[row * D + e] = from_float<T>(o[e] / sum);
    if (c.lse != NULL && lane == 0) c.lse[row] = top + logf(sum);
}

template <class T> __global__ void plain_delta(attention_call c) {
    const int lane = threadIdx.x % 32;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= c.N * c.H) return;
    float sum = 0.0f;
    for (int64_t e = row * c.D + lane; e < (row + 1) * c.D; e += 32)
        sum += to_float(((const T *)c.d_o)[e]) * to_float(((const T *)c.o)[e]);
    sum = warp_sum(sum);
    if (lane == 0) c.delta_NH[row] = sum;
}

template <class T> __global__ void plain_queries(attention_call c, packs packed) {
    FW_DYNAMIC_SHARED(float, shared);
    const int lane = threadIdx.x % 32, D = (int)c.D;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= c.N * c.H) return;
    float *q = shared + threadIdx.x / 32 * (3 * D + 64), *d_o = q + D, *dq = d_o + D, *ds = dq + D;
    const int64_t n = row / c.H, h = row % c.H, head = h / (c.H / c.K) * D;
    for (int e = lane; e < D; e += 32) {
        q[e] = to_float(((const T *)c.q)[n * c.q_stride + h * D + e]);
        d_o[e] = to_float(((const T *)c.d_o)[row * D + e]);
        dq[e] = 0.0f;
    }
    __syncwarp();
    const float lse = c.lse[row], delta = c.delta_NH[row];
    for (int64_t j_0 = c.first_N != NULL ? c.first_N[n] : 0; j_0 <= n; j_0 += 32) {
        const int64_t j = j_0 + lane;
        if (j <= n) {
            const float p = expf(c.scale * dot(q, (const T *)c.k + j * c.k_stride + head, D, packed.k) - lse);
            ds[lane] = p * (dot(d_o, (const T *)c.v + j * c.v_stride + head, D, packed.v) - delta);
        }
        __syncwarp();
        const int here = (int)min(n - j_0 + 1, (int64_t)32);
        for (int e = lane; e < D; e += 32) {
            float y = dq[e];
            const T *k = (const T *)c.k + j_0 * c.k_stride + head + e;
            for (int i = 0; i < here; i++) y += ds[i] * to_float(k[i * c.k_stride]);
            dq[e] = y;
        }
        __syncwarp();
    }
    for (int e = lane; e < D; e += 32) ((T *)c.dq)[n * c.dq_stride + h * D + e] = from_float<T>(c.scale * dq[e]);
}

template <class T> __global__ void plain_keys(attention_call c, packs packed) {
    FW_DYNAMIC_SHARED(float, shared);
    const int lane = threadIdx.x % 32, D = (int)c.D;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= c.N * c.K) return;
    float *k = shared + threadIdx.x / 32 * (4 * D + 64), *v = k + D, *dk = v + D, *dv = dk + D, *p = dv + D,
          *ds = p + 32;
    const int64_t j = row / c.K, head = row % c.K, group = c.H / c.K;
    for (int e = lane; e < D; e += 32) {
        k[e] = to_float(((const T *)c.k)[j * c.k_stride + head * D + e]);
        v[e] = to_float(((const T *)c.v)[j * c.v_stride + head * D + e]);
        dk[e] = dv[e] = 0.0f;
    }
    __syncwarp();
    for (int64_t h = head * group; h < (head + 1) * group; h++) {
        for (int64_t n_0 = j; n_0 < c.N; n_0 += 32) {
            if (c.first_N != NULL && c.first_N[n_0] > j) break; /* starts do not decrease: no later query sees j */
            const int64_t n = n_0 + lane;
            p[lane] = ds[lane] = 0.0f;
            if (n < c.N && (c.first_N == NULL || c.first_N[n] <= j)) {
                const int64_t at = n * c.H + h;
                p[lane] = expf(c.scale * dot(k, (const T *)c.q + n * c.q_stride + h * D, D, packed.q) - c.lse[at]);
                ds[lane] = p[lane] * (dot(v, (const T *)c.d_o + at * D, D, packed.d_o) - c.delta_NH[at]);
            }
            __syncwarp();
            const int here = (int)min(c.N - n_0, (int64_t)32);
            for (int e = lane; e < D; e += 32) {
                const T *q = (const T *)c.q + n_0 * c.q_stride + h * D + e,
                        *d_o = (const T *)c.d_o + (n_0 * c.H + h) * D + e;
                float y = dk[e], z = dv[e];
                for (int i = 0; i < here; i++) {
                    y += ds[i] * to_float(q[i * c.q_stride]);
                    z += p[i] * to_float(d_o[i * c.H * D]);
                }
                dk[e] = y;
                dv[e] = z;
            }
            __syncwarp();
        }
    }
    for (int e = lane; e < D; e += 32) {
        ((T *)c.dk)[j * c.dkv_stride + head * D + e] = from_float<T>(c.scale * dk[e]);
        ((T *)c.dv)[j * c.dkv_stride + head * D + e] = from_float<T>(dv[e]);
    }
}

/* Warps of a block, so that its shared memory stays within 48 KB; a single warp takes what it needs. */
int warps_for(size_t bytes_per_warp) {
    int warps = 4;
    while (warps > 1 && warps * bytes_per_warp > 48 * 1024) warps /= 2;
    return warps;
}

#define LAUNCH_WARPS(kernel, rows, arrays, ...)                                                                        \
    do {                                                                                                               \
        const size_t each = ((arrays) * (size_t)c.D + 64) * sizeof(float);                                             \
        const int warps = warps_for(each), refused = allow_shared(kernel, warps * each);                               \
        if (refused != 0) return refused;                                                                              \
        FW_LAUNCH((kernel), (unsigned)blocks_of(rows, warps), 32 * warps, warps * each, stream_of(l), __VA_ARGS__);    \
        const int error = launch_status();                                                                             \
        if (error != 0) return error;                                                                                  \
    } while (0)

template <class T> packs packs_of(const attention_call &c) {
    packs packed;
    packed.q = is_packed<T>(c.q, c.D, c.q_stride);
    packed.k = is_packed<T>(c.k, c.D, c.k_stride);
    packed.v = is_packed<T>(c.v, c.D, c.v_stride);
    packed.d_o = is_packed<T>(c.d_o, c.D, c.D);
    return packed;
}

template <class T> int launch_forward(const fw_cuda_launch *l, const attention_call &c) {
    LAUNCH_WARPS(plain_forward<T>, c.N * c.H, 2, c, packs_of<T>(c));
    return 0;
}

template <class T> int launch_backward(const fw_cuda_launch *l, const attention_call &c) {
    const packs packed = packs_of<T>(c);
    FW_LAUNCH((plain_delta<T>), (unsigned)blocks_of(c.N * c.H, 4), 128, 0, stream_of(l), c);
    LAUNCH_WARPS(plain_queries<T>, c.N * c.H, 3, c, packed);
    LAUNCH_WARPS(plain_keys<T>, c.N * c.K, 4, c, packed);
    return 0;
}

} // namespace

int attention_plain_forward(const fw_cuda_launch *l, const attention_call &c, fw_dtype t) {
    FW_BY_TYPE(t, return launch_forward<T>(l, c));
}

int attention_plain_backward(const fw_cuda_launch *l, const attention_call &c, fw_dtype t) {
    FW_BY_TYPE(t, return launch_backward<T>(l, c));
}
