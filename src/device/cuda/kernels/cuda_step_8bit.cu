/* AdamW and Lion with 8-bit state (device/device.h, step_8bit): a thread block to each block of 256 elements, a thread to an
 * element. The tables, 3 KiB, are in shared memory; a code is found in 8 halvings of the places. Of memory: 2 bytes read and 2
 * written for the state of an element, 12 for weight and gradient. What makes a code rounds where bitsandbytes rounds. */
#include "device/cuda/kernels/gpu.cuh"
#include "quant/dynamic_map.h"
#include "quant/dynamic_map.inc"
#include "device/step_options.h"

namespace {

enum { BLOCK = FW_DYNAMIC_BLOCK_N, WARPS = BLOCK / 32 };

__device__ const fw_dynamic_map maps[2] = {{{FW_DYNAMIC_UNSIGNED_VALUES}, {FW_DYNAMIC_UNSIGNED_PLACES}},
                                           {{FW_DYNAMIC_SIGNED_VALUES}, {FW_DYNAMIC_SIGNED_PLACES}}};

struct Constants {
    float beta1, rest1, beta2, rest2, epsilon, grad_scale, step_size, root_factor, decay, rate;
};

Constants constants_of(const fw_step_options *o) {
    const double b1 = o->beta1, b2 = o->beta2, rate = (double)o->learning_rate;
    Constants c;
    c.beta1 = (float)b1;
    c.rest1 = (float)(1 - b1);
    c.beta2 = (float)b2;
    c.rest2 = (float)(1 - b2);
    c.epsilon = o->epsilon;
    c.grad_scale = o->grad_scale;
    c.step_size = (float)(rate / (1 - pow(b1, (double)o->step)));
    c.root_factor = (float)(1 / sqrt(1 - pow(b2, (double)o->step)));
    c.decay = (float)(rate * (double)o->weight_decay);
    c.rate = o->learning_rate;
    return c;
}

/* Products that are not to become part of a sum. */
__device__ __forceinline__ float product(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return (float)((double)a * (double)b);
#endif
}

struct Shared {
    fw_dynamic_map map;
    float part[WARPS];
};

__device__ __forceinline__ uint8_t code_of(const Shared *s, int place) {
    int code = 0;
    for (int half = FW_DYNAMIC_CODES / 2; half > 0; half /= 2)
        if (s->map.first_place[code + half] <= place) code += half;
    return (uint8_t)code;
}

__device__ __forceinline__ void load_map(Shared *s, int is_signed) {
    const int i = (int)threadIdx.x;
    __syncthreads(); /* who still reads the one before */
    s->map.value[i] = maps[is_signed].value[i];
    s->map.first_place[i] = maps[is_signed].first_place[i];
    __syncthreads();
}

/* x is in the map's code from here on; all threads of the block take part. */
__device__ __forceinline__ void put(Shared *s, uint8_t *code, float *scale, float x, bool is_there) {
    float most = warp_max(is_there ? fabsf(x) : 0.0f);
    if (threadIdx.x % 32 == 0) s->part[threadIdx.x / 32] = most;
    __syncthreads();
    most = 0;
    for (int i = 0; i < WARPS; i++) most = fmaxf(most, s->part[i]);
    if (threadIdx.x == 0) *scale = most;
    if (is_there) *code = most == 0 ? 0 : code_of(s, fw_dynamic_place(product(x, 1.0f / most)));
    __syncthreads();
}

template <bool IS_LION>
__global__ void __launch_bounds__(BLOCK) step_blocks(float *w, uint8_t *code1, float *scale1, uint8_t *code2,
                                                     float *scale2, float *g, int64_t n, Constants c) {
    __shared__ Shared s;
    const int64_t block = (int64_t)blockIdx.x, i = block * BLOCK + (int64_t)threadIdx.x;
    const bool is_there = i < n;
    float v = 0, m = 0, gradient = 0, w_i = 0;
    if (is_there) {
        gradient = product(g[i], c.grad_scale);
        w_i = w[i];
        g[i] = 0;
    }
    if (!IS_LION) {
        load_map(&s, 0);
        if (is_there) v = product(s.map.value[code2[i]], scale2[block]);
        v = fmaf(product(c.rest2, gradient), gradient, product(v, c.beta2));
        put(&s, code2 + i, scale2 + block, v, is_there);
    }
    load_map(&s, 1);
    if (is_there) m = product(s.map.value[code1[i]], scale1[block]);
    if (IS_LION) {
        const float mixed = product(m, c.beta1) + product(c.rest1, gradient);
        w_i -= c.decay * w_i + (mixed > 0 ? c.rate : mixed < 0 ? -c.rate : 0.0f);
        m = fmaf(gradient, c.rest2, product(m, c.beta2));
    } else {
        m = fmaf(gradient, c.rest1, product(m, c.beta1));
        w_i -= c.decay * w_i + c.step_size * (m / (sqrtf(v) * c.root_factor + c.epsilon));
    }
    __syncthreads(); /* scale1 has been read by all */
    put(&s, code1 + i, scale1 + block, m, is_there);
    if (is_there) w[i] = w_i;
}

} // namespace

int fw_cuda_step_8bit(const fw_cuda_launch *l, float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2,
                      float *g, int64_t n, const fw_step_options *options) {
    if (n == 0) return 0;
    const unsigned block_n = (unsigned)blocks_of(n, BLOCK);
    const Constants c = constants_of(options);
    if (code2 == nullptr)
        FW_LAUNCH((step_blocks<true>), block_n, BLOCK, 0, stream_of(l), w, code1, scale1, code2, scale2, g, n, c);
    else
        FW_LAUNCH((step_blocks<false>), block_n, BLOCK, 0, stream_of(l), w, code1, scale1, code2, scale2, g, n, c);
    return launch_status();
}
