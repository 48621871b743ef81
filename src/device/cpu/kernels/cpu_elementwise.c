/* Element by element: swiglu, add, scale, casts, AdamW; and the sums over columns and elements. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_over.h"

#include <math.h>

/* ---- swiglu ---- */

FW_INLINE fw_v sigmoid(fw_v x) { return v_div(v_set(1), v_add(v_set(1), v_exp(v_sub(v_zero(), x)))); }

FW_INLINE void swiglu_rows(void *h, const void *gu, int64_t F, fw_dtype t, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
#define FW_BODY(f, n)                                                                                                  \
    do {                                                                                                               \
        fw_v gate = get(gu, row * 2 * F + (f), (n), t), up = get(gu, row * 2 * F + F + (f), (n), t);                   \
        put(h, row *F + (f), v_mul(v_mul(gate, sigmoid(gate)), up), (n), t);                                           \
    } while (0)
        FW_OVER(0, F, FW_BODY);
#undef FW_BODY
    }
}
void FW_CPU_FN(swiglu_forward)(void *h, const void *gu, int64_t F, fw_dtype t, int64_t first, int64_t last) {
    if (t == FW_BF16)
        swiglu_rows(h, gu, F, FW_BF16, first, last);
    else
        swiglu_rows(h, gu, F, FW_F32, first, last);
}

/* d silu(x) / dx = s + x s (1 - s) with s = sigmoid(x). */
FW_INLINE void swiglu_back_rows(void *dgu, const void *dh, const void *gu, int64_t F, fw_dtype t, int64_t first,
                                int64_t last) {
    for (int64_t row = first; row < last; row++) {
#define FW_BODY(f, n)                                                                                                  \
    do {                                                                                                               \
        int64_t at_ = row * 2 * F + (f);                                                                               \
        fw_v gate = get(gu, at_, (n), t), up = get(gu, at_ + F, (n), t), d = get(dh, row * F + (f), (n), t);           \
        fw_v s = sigmoid(gate), silu = v_mul(gate, s);                                                                 \
        fw_v slope = v_fma(silu, v_sub(v_set(1), s), s);                                                               \
        put(dgu, at_, v_mul(v_mul(d, up), slope), (n), t);                                                             \
        put(dgu, at_ + F, v_mul(d, silu), (n), t);                                                                     \
    } while (0)
        FW_OVER(0, F, FW_BODY);
#undef FW_BODY
    }
}
void FW_CPU_FN(swiglu_backward)(void *dgu, const void *dh, const void *gu, int64_t F, fw_dtype t, int64_t first,
                                int64_t last) {
    if (t == FW_BF16)
        swiglu_back_rows(dgu, dh, gu, F, FW_BF16, first, last);
    else
        swiglu_back_rows(dgu, dh, gu, F, FW_F32, first, last);
}

/* ---- add, scale, cast ---- */

FW_INLINE void add_range(void *y, const void *a, const void *b, fw_dtype t, int64_t first, int64_t last) {
#define FW_BODY(at, n) put(y, (at), v_add(get(a, (at), (n), t), get(b, (at), (n), t)), (n), t)
    FW_OVER(first, last, FW_BODY);
#undef FW_BODY
}
void FW_CPU_FN(add)(void *y, const void *a, const void *b, fw_dtype t, int64_t first, int64_t last) {
    if (t == FW_BF16)
        add_range(y, a, b, FW_BF16, first, last);
    else
        add_range(y, a, b, FW_F32, first, last);
}

void FW_CPU_FN(scale)(float *x, float factor, int64_t first, int64_t last) {
    const fw_v f = v_set(factor);
#define FW_BODY(at, n) put(x, (at), v_mul(get(x, (at), (n), FW_F32), f), (n), FW_F32)
    FW_OVER(first, last, FW_BODY);
#undef FW_BODY
}

FW_INLINE void cast_range(void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t first, int64_t last) {
#define FW_BODY(at, n) put(y, (at), get(x, (at), (n), t_x), (n), t_y)
    FW_OVER(first, last, FW_BODY);
#undef FW_BODY
}
static float wide(const void *x, fw_dtype t, int64_t i) {
    return t == FW_F16 ? fw_f16_to_f32(((const fw_f16 *)x)[i]) : s_get(x, i, t);
}
void FW_CPU_FN(cast)(void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t first, int64_t last) {
    if (t_y == FW_F32 && t_x == FW_BF16)
        cast_range(y, FW_F32, x, FW_BF16, first, last);
    else if (t_y == FW_BF16 && t_x == FW_F32)
        cast_range(y, FW_BF16, x, FW_F32, first, last);
    else if (t_y == t_x)
        memcpy((char *)y + (size_t)first * fw_dtype_bytes(t_y), (const char *)x + (size_t)first * fw_dtype_bytes(t_y),
               (size_t)(last - first) * fw_dtype_bytes(t_y));
    else /* fp16 is for files only */
        for (int64_t i = first; i < last; i++) {
            float value = wide(x, t_x, i);
            if (t_y == FW_F32)
                ((float *)y)[i] = value;
            else if (t_y == FW_BF16)
                ((fw_bf16 *)y)[i] = fw_bf16_from_f32(value);
            else
                ((fw_f16 *)y)[i] = fw_f16_from_f32(value);
        }
}

/* ---- adamw ---- */

FW_INLINE fw_v root(fw_v x) {
    float lane[FW_LANES];
    v_store(lane, x);
    for (int i = 0; i < FW_LANES; i++) lane[i] = sqrtf(lane[i]);
    return v_load(lane);
}
FW_INLINE void adamw_range(const fw_cpu_adamw_args *s, fw_dtype t, int has_compute, int first_step, int64_t first,
                           int64_t last) {
    const fw_v b1 = v_set(s->beta1), b2 = v_set(s->beta2), c1 = v_set(1 - s->beta1), c2 = v_set(1 - s->beta2);
    const fw_v grad = v_set(s->grad_scale), step = v_set(s->step_size), root_factor = v_set(s->root_factor);
    const fw_v eps = v_set(s->epsilon), decay = v_set(s->decay);
#define FW_BODY(at, n)                                                                                                 \
    do {                                                                                                               \
        fw_v g = v_mul(get(s->g, (at), (n), FW_F32), grad);                                                            \
        fw_v old_m = first_step ? v_zero() : get(s->m, (at), (n), FW_F32);                                             \
        fw_v old_v = first_step ? v_zero() : get(s->v, (at), (n), FW_F32);                                             \
        fw_v m = v_fma(b1, old_m, v_mul(c1, g));                                                                       \
        fw_v v = v_fma(b2, old_v, v_mul(c2, v_mul(g, g)));                                                             \
        fw_v below = v_fma(root(v), root_factor, eps);                                                                 \
        fw_v w = get(s->w, (at), (n), FW_F32);                                                                         \
        w = v_sub(w, v_fma(decay, w, v_mul(step, v_div(m, below)))); /* small terms first, one rounding of w */        \
        put(s->m, (at), m, (n), FW_F32);                                                                               \
        put(s->v, (at), v, (n), FW_F32);                                                                               \
        put(s->w, (at), w, (n), FW_F32);                                                                               \
        put(s->g, (at), v_zero(), (n), FW_F32);                                                                        \
        if (has_compute) put(s->w_compute, (at), w, (n), t);                                                           \
    } while (0)
    FW_OVER(first, last, FW_BODY);
#undef FW_BODY
}
void FW_CPU_FN(adamw)(const fw_cpu_adamw_args *s, int64_t first, int64_t last) {
    const int has_compute = s->w_compute != NULL;
    if (s->first_step)
        adamw_range(s, has_compute ? s->t : FW_F32, has_compute, 1, first, last);
    else if (!has_compute)
        adamw_range(s, FW_F32, 0, 0, first, last);
    else if (s->t == FW_BF16)
        adamw_range(s, FW_BF16, 1, 0, first, last);
    else
        adamw_range(s, FW_F32, 1, 0, first, last);
}

/* ---- sums ---- */

/* Columns c..c + 16 strips, so that each row is read in long pieces. */
FW_INLINE void add_strips(float *db, const void *dy, int64_t N, int64_t stride, int64_t c, int strips, fw_dtype t) {
    fw_v sum[8] = {0};
    for (int64_t row = 0; row < N; row++)
        FW_UNROLL for (int j = 0; j < strips; j++) sum[j] =
            v_add(sum[j], v_get(dy, row * stride + c + j * FW_LANES, t));
    FW_UNROLL for (int j = 0; j < strips; j++) {
        float *to = db + c + j * FW_LANES;
        v_store(to, v_add(v_load(to), sum[j]));
    }
}
FW_INLINE void add_columns_range(float *db, const void *dy, int64_t N, int64_t stride, fw_dtype t, int64_t first,
                                 int64_t last) {
    int64_t c = first;
    for (; c + 8 * FW_LANES <= last; c += 8 * FW_LANES) add_strips(db, dy, N, stride, c, 8, t);
    for (; c + FW_LANES <= last; c += FW_LANES) add_strips(db, dy, N, stride, c, 1, t);
    for (; c < last; c++) {
        float sum = 0;
        for (int64_t row = 0; row < N; row++) sum += s_get(dy, row * stride + c, t);
        db[c] += sum;
    }
}
void FW_CPU_FN(add_columns)(float *db, const void *dy, int64_t N, int64_t stride, fw_dtype t, int64_t first,
                            int64_t last) {
    if (t == FW_BF16)
        add_columns_range(db, dy, N, stride, FW_BF16, first, last);
    else
        add_columns_range(db, dy, N, stride, FW_F32, first, last);
}

FW_INLINE void embedding_columns(float *dw, const void *dy, const int32_t *id, int64_t N, int64_t C, fw_dtype t,
                                 int64_t first, int64_t last) {
    for (int64_t row = 0; row < N; row++) {
        const int64_t to = id[row] * C, from = row * C;
#define FW_BODY(c, n) put(dw, to + (c), v_add(get(dw, to + (c), (n), FW_F32), get(dy, from + (c), (n), t)), (n), FW_F32)
        FW_OVER(first, last, FW_BODY);
#undef FW_BODY
    }
}
void FW_CPU_FN(embedding_backward)(float *dw, const void *dy, const int32_t *id, int64_t N, int64_t C, fw_dtype t,
                                   int64_t first, int64_t last) {
    if (t == FW_BF16)
        embedding_columns(dw, dy, id, N, C, FW_BF16, first, last);
    else
        embedding_columns(dw, dy, id, N, C, FW_F32, first, last);
}

/* Eight sums in turn, each in fp64. */
double FW_CPU_FN(sum_squares)(const float *x, int64_t n) {
    double sum[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) sum[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++) sum[0] += (double)x[i] * (double)x[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}
