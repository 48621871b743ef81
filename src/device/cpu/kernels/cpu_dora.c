/* What adapters need beside products: dropout, and DoRA's row norms, column scales and the gradient of its magnitude. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_over.h"
#include "device/dropout.h"

#include <math.h>

/* ---- dropout ---- */

/* All ones in the lanes of channels at.. that are kept: fw_dropout_bits in each lane. */
FW_INLINE fw_vin kept(uint32_t at, uint64_t row, uint32_t threshold) {
    fw_vun x = {0};
    FW_UNROLL for (uint32_t i = 0; i < FW_WIDTH; i++) x[i] = i;
    x = (x + at) * 0x9e3779b9u + (uint32_t)row;
    x = (x ^ (x >> 16)) * 0x21f0aaadu;
    x ^= (uint32_t)(row >> 32);
    x = (x ^ (x >> 15)) * 0xd35a2d97u;
    x ^= x >> 15;
    return (fw_vin)(x >= threshold);
}

FW_INLINE void drop_row(const fw_cpu_dropout_args *s, int64_t n, fw_dtype t, int add) {
    const uint64_t row = fw_dropout_row(s->key[n], s->salt);
    const uint32_t threshold = fw_dropout_threshold(s->p);
    const fw_v scale = v_set(fw_dropout_scale(s->p));
#define FW_BODY(c, some)                                                                                               \
    do {                                                                                                               \
        fw_v x = v_mul(get(s->x, n * s->C + (c), (some), t), scale);                                                   \
        FW_EACH(i)                                                                                                     \
        x.p[i] = vn_select(kept((uint32_t)((c) + i * FW_WIDTH), row, threshold), x.p[i], vn_set(0));                   \
        if (add) x = v_add(get(s->y, n * s->C + (c), (some), t), x);                                                   \
        put(s->y, n * s->C + (c), x, (some), t);                                                                       \
    } while (0)
    FW_OVER(0, s->C, FW_BODY);
#undef FW_BODY
}
FW_INLINE void drop_rows(const fw_cpu_dropout_args *s, int64_t first, int64_t last, fw_dtype t) {
    for (int64_t n = first; n < last; n++) {
        if (s->add)
            drop_row(s, n, t, 1);
        else
            drop_row(s, n, t, 0);
    }
}
void FW_CPU_FN(dropout)(const fw_cpu_dropout_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        drop_rows(s, first, last, FW_BF16);
    else
        drop_rows(s, first, last, FW_F32);
}

/* ---- DoRA ---- */

enum { NORM_ROWS = 4 }; /* rows of W that share each reading of A */

/* Squares of W[o][i] + sum over r of (scale B[o][r]) A[r][i], added up by lanes; `rows` rows from o. */
FW_INLINE void norm_rows(const fw_cpu_dora_args *s, int64_t o, int rows, fw_dtype t) {
    fw_v sum[NORM_ROWS] = {0};
#define FW_BODY(at, some)                                                                                              \
    do {                                                                                                               \
        fw_v product[NORM_ROWS] = {0};                                                                                 \
        for (int64_t r = 0; r < s->R; r++) {                                                                           \
            const fw_v a = get(s->a, r * s->I + (at), (some), t);                                                      \
            FW_UNROLL for (int k = 0; k < rows; k++) product[k] =                                                      \
                v_fma(v_set(s_get(s->b, (o + k) * s->R + r, t)), a, product[k]);                                       \
        }                                                                                                              \
        FW_UNROLL for (int k = 0; k < rows; k++) {                                                                     \
            const fw_v w = v_fma(v_set(s->scale), product[k], get(s->w, (o + k) * s->I + (at), (some), t));            \
            sum[k] = v_fma(w, w, sum[k]);                                                                              \
        }                                                                                                              \
    } while (0)
    FW_OVER(0, s->I, FW_BODY);
#undef FW_BODY
    FW_UNROLL for (int k = 0; k < rows; k++) s->norm[o + k] = sqrtf(v_sum(sum[k]));
}
FW_INLINE void norm_range(const fw_cpu_dora_args *s, int64_t first, int64_t last, fw_dtype t) {
    int64_t o = first;
    for (; o + NORM_ROWS <= last; o += NORM_ROWS) norm_rows(s, o, NORM_ROWS, t);
    for (; o < last; o++) norm_rows(s, o, 1, t);
}
void FW_CPU_FN(dora_norm)(const fw_cpu_dora_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        norm_range(s, first, last, FW_BF16);
    else
        norm_range(s, first, last, FW_F32);
}

FW_INLINE void scale_row(const fw_cpu_dora_args *s, int64_t n, const float *scale, fw_dtype t) {
    const int64_t x_row = n * s->x_stride, y_row = n * s->y_stride;
    const fw_v keep = v_set(s->keep);
#define FW_BODY(o, some)                                                                                               \
    do {                                                                                                               \
        fw_v y = s->b == NULL ? v_zero() : get(s->b, (o), (some), t);                                                  \
        y = v_fma(get(s->x, x_row + (o), (some), t), get(scale, (o), (some), FW_F32), y);                              \
        if (s->keep != 0) y = v_fma(keep, get(s->y, y_row + (o), (some), t), y);                                       \
        put(s->y, y_row + (o), y, (some), t);                                                                          \
    } while (0)
    FW_OVER(0, s->O, FW_BODY);
#undef FW_BODY
}
void FW_CPU_FN(dora_scale)(const fw_cpu_dora_args *s, int64_t first, int64_t last, float *scratch) {
    for (int64_t o = 0; o < s->O; o++)
        scratch[o] = s->m == NULL ? s->factor : s->factor * (s_get(s->m, o, s->t) / s->norm[o]);
    for (int64_t n = first; n < last; n++) {
        if (s->t == FW_BF16)
            scale_row(s, n, scratch, FW_BF16);
        else
            scale_row(s, n, scratch, FW_F32);
    }
}

FW_INLINE void magnitude_columns(const fw_cpu_dora_args *s, int64_t first, int64_t last, fw_dtype t) {
#define FW_BODY(o, some)                                                                                               \
    do {                                                                                                               \
        fw_v sum = v_zero();                                                                                           \
        for (int64_t n = 0; n < s->N; n++)                                                                             \
            sum = v_fma(get(s->dy, n * s->dy_stride + (o), (some), t), get(s->x, n * s->x_stride + (o), (some), t),    \
                        sum);                                                                                          \
        sum = v_div(sum, get(s->norm, (o), (some), FW_F32));                                                           \
        put(s->dm, (o), v_add(get(s->dm, (o), (some), FW_F32), sum), (some), FW_F32);                                  \
    } while (0)
    FW_OVER(first, last, FW_BODY);
#undef FW_BODY
}
void FW_CPU_FN(dora_backward_m)(const fw_cpu_dora_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        magnitude_columns(s, first, last, FW_BF16);
    else
        magnitude_columns(s, first, last, FW_F32);
}
