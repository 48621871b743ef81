/* Cross entropy: the maximum, the sum of exponentials, then the gradient; a row stays in cache between them. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_vec.h"

#include <math.h>

enum { BLOCK = 64 * FW_LANES }; /* sums of this many are carried in fp32, then added in fp64 */

static float row_maximum(const float *x, int64_t V) {
    fw_v most[4];
    for (int j = 0; j < 4; j++) most[j] = v_set(-INFINITY);
    int64_t i = 0;
    for (; i + 4 * FW_LANES <= V; i += 4 * FW_LANES)
        FW_UNROLL for (int j = 0; j < 4; j++) most[j] = v_max(v_load(x + i + j * FW_LANES), most[j]);
    float maximum = v_largest(v_max(v_max(most[0], most[1]), v_max(most[2], most[3])));
    for (; i < V; i++) maximum = x[i] > maximum ? x[i] : maximum;
    return maximum;
}

static double row_sum(const float *x, int64_t V, float maximum) {
    const fw_v m = v_set(maximum);
    double total = 0;
    for (int64_t start = 0; start < V; start += BLOCK) {
        int64_t end = start + BLOCK < V ? start + BLOCK : V, i = start;
        fw_v sum[2] = {0};
        for (; i + 2 * FW_LANES <= end; i += 2 * FW_LANES)
            FW_UNROLL for (int j = 0; j < 2; j++) sum[j] = v_add(sum[j], v_exp(v_sub(v_load(x + i + j * FW_LANES), m)));
        for (; i < end; i += FW_LANES) {
            float lane[FW_LANES];
            int64_t n = end - i < FW_LANES ? end - i : FW_LANES;
            for (int64_t j = 0; j < FW_LANES; j++) lane[j] = j < n ? x[i + j] : -INFINITY;
            sum[0] = v_add(sum[0], v_exp(v_sub(v_load(lane), m)));
        }
        total += v_sum_wide(v_add(sum[0], sum[1]));
    }
    return total;
}

FW_INLINE void row_gradient(void *d, int64_t at, const float *x, int64_t V, float maximum, double sum, int64_t label,
                            float scale, fw_dtype t) {
    const fw_v m = v_set(maximum), factor = v_set((float)((double)scale / sum));
    const double target = (double)x[label] - (double)maximum; /* read first: d may be x */
    int64_t i = 0;
    for (; i + FW_LANES <= V; i += FW_LANES) v_put(d, at + i, v_mul(factor, v_exp(v_sub(v_load(x + i), m))), t);
    if (i < V) v_put_some(d, at + i, v_mul(factor, v_exp(v_sub(v_load_some(x + i, V - i), m))), V - i, t);
    const float value = (float)((double)scale * (exp(target) / sum - 1));
    if (t == FW_BF16)
        ((fw_bf16 *)d)[at + label] = fw_bf16_from_f32(value);
    else
        ((float *)d)[at + label] = value;
}

void FW_CPU_FN(cross_entropy)(const fw_cpu_cross_entropy_args *s, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; n++) {
        const float *x = s->logits + n * s->V;
        const int64_t label = s->label[n];
        const float maximum = row_maximum(x, s->V);
        const double sum = row_sum(x, s->V, maximum);
        s->loss[n] = (float)(log(sum) + ((double)maximum - (double)x[label]));
        if (s->dlogits == NULL) continue;
        if (s->t == FW_BF16)
            row_gradient(s->dlogits, n * s->V, x, s->V, maximum, sum, label, s->scale, FW_BF16);
        else
            row_gradient(s->dlogits, n * s->V, x, s->V, maximum, sum, label, s->scale, FW_F32);
    }
}
