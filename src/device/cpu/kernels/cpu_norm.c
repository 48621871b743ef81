/* RMS norm and rotary positions, row by row. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_vec.h"

#include <math.h>

/* ---- rmsnorm ---- */

FW_INLINE void norm_row(const fw_cpu_rmsnorm_args *s, int64_t y, int64_t x, float *rstd_out, fw_dtype t) {
    const int64_t C = s->C, whole = C / FW_LANES * FW_LANES;
    fw_v sum[2] = {0};
    int64_t at = 0;
    for (; at + 2 * FW_LANES <= whole; at += 2 * FW_LANES) {
        const fw_v a = v_get(s->x, x + at, t), b = v_get(s->x, x + at + FW_LANES, t);
        sum[0] = v_fma(a, a, sum[0]);
        sum[1] = v_fma(b, b, sum[1]);
    }
    if (at < whole) {
        const fw_v a = v_get(s->x, x + at, t);
        sum[0] = v_fma(a, a, sum[0]);
    }
    if (whole < C) {
        fw_v value = v_get_some(s->x, x + whole, C - whole, t);
        sum[0] = v_fma(value, value, sum[0]);
    }
    const double mean = (double)v_sum(v_add(sum[0], sum[1])) / (double)C;
    const float rstd = (float)(1 / sqrt(mean + (double)s->eps));
    *rstd_out = rstd;
    const fw_v factor = v_set(rstd);
    for (int64_t c = 0; c < whole; c += FW_LANES) {
        fw_v xhat = v_round(v_mul(v_get(s->x, x + c, t), factor), t);
        v_put(s->y, y + c, v_mul(v_get(s->w, c, t), xhat), t);
    }
    if (whole < C) {
        const int64_t n = C - whole;
        fw_v xhat = v_round(v_mul(v_get_some(s->x, x + whole, n, t), factor), t);
        v_put_some(s->y, y + whole, v_mul(v_get_some(s->w, whole, n, t), xhat), n, t);
    }
}
FW_INLINE void norm_rows(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last, fw_dtype t) {
    for (int64_t n = first; n < last; n++)
        for (int64_t g = 0; g < s->G; g++)
            norm_row(s, n * s->y_stride + g * s->C, n * s->x_stride + g * s->C, &s->rstd[n * s->G + g], t);
}
void FW_CPU_FN(rmsnorm_forward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        norm_rows(s, first, last, FW_BF16);
    else
        norm_rows(s, first, last, FW_F32);
}

/* One register of a row: w dy, xhat, and dw's part, which is dy xhat. */
FW_INLINE void norm_back_sum(const fw_cpu_rmsnorm_args *s, int64_t dy, int64_t x, int64_t c, int64_t n, fw_v rstd,
                             fw_v *sum, float *dw, fw_dtype t) {
    const int whole = n == FW_LANES;
    fw_v d = whole ? v_get(s->dy, dy + c, t) : v_get_some(s->dy, dy + c, n, t);
    fw_v xhat = v_mul(whole ? v_get(s->x, x + c, t) : v_get_some(s->x, x + c, n, t), rstd);
    fw_v w = whole ? v_get(s->w, c, t) : v_get_some(s->w, c, n, t);
    fw_v part = v_mul(d, xhat);
    *sum = v_fma(w, part, *sum);
    if (whole)
        v_store(dw + c, v_add(v_load(dw + c), part));
    else
        v_store_some(dw + c, v_add(v_load_some(dw + c, n), part), n);
}
FW_INLINE void norm_back_write(const fw_cpu_rmsnorm_args *s, int64_t dx, int64_t dy, int64_t x, int64_t c, int64_t n,
                               fw_v rstd, fw_v mean, fw_dtype t) {
    const int whole = n == FW_LANES;
    fw_v d = whole ? v_get(s->dy, dy + c, t) : v_get_some(s->dy, dy + c, n, t);
    fw_v xhat = v_mul(whole ? v_get(s->x, x + c, t) : v_get_some(s->x, x + c, n, t), rstd);
    fw_v w = whole ? v_get(s->w, c, t) : v_get_some(s->w, c, n, t);
    fw_v value = v_mul(rstd, v_fnma(xhat, mean, v_mul(w, d)));
    if (s->dx_add != NULL)
        value = v_add(value, whole ? v_get(s->dx_add, dx + c, t) : v_get_some(s->dx_add, dx + c, n, t));
    if (whole)
        v_put(s->y, dx + c, value, t);
    else
        v_put_some(s->y, dx + c, value, n, t);
}
FW_INLINE void norm_back_rows(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last, float *dw, fw_dtype t) {
    const int64_t C = s->C, whole = C / FW_LANES * FW_LANES;
    memset(dw, 0, (size_t)C * sizeof *dw);
    for (int64_t n = first; n < last; n++) {
        for (int64_t g = 0; g < s->G; g++) {
            const int64_t dx = n * s->y_stride + g * C, dy = n * s->dy_stride + g * C, x = n * s->x_stride + g * C;
            const fw_v rstd = v_set(s->rstd[n * s->G + g]);
            fw_v sum = v_zero();
            for (int64_t c = 0; c < whole; c += FW_LANES) norm_back_sum(s, dy, x, c, FW_LANES, rstd, &sum, dw, t);
            if (whole < C) norm_back_sum(s, dy, x, whole, C - whole, rstd, &sum, dw, t);
            const fw_v mean = v_set(v_sum(sum) / (float)C);
            for (int64_t c = 0; c < whole; c += FW_LANES) norm_back_write(s, dx, dy, x, c, FW_LANES, rstd, mean, t);
            if (whole < C) norm_back_write(s, dx, dy, x, whole, C - whole, rstd, mean, t);
        }
    }
}
void FW_CPU_FN(rmsnorm_backward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last, float *dw_partial) {
    if (s->t == FW_BF16)
        norm_back_rows(s, first, last, dw_partial, FW_BF16);
    else
        norm_back_rows(s, first, last, dw_partial, FW_F32);
}

/* ---- rope ---- */

FW_INLINE void rotate(const fw_cpu_rope_args *s, int64_t x, const float *cosine, const float *sine, int64_t e,
                      int64_t n, fw_v sign, fw_dtype t) {
    const int64_t E = s->D / 2;
    const int whole = n == FW_LANES;
    fw_v a = whole ? v_get(s->x, x + e, t) : v_get_some(s->x, x + e, n, t);
    fw_v b = whole ? v_get(s->x, x + E + e, t) : v_get_some(s->x, x + E + e, n, t);
    fw_v c = whole ? v_load(cosine + e) : v_load_some(cosine + e, n);
    fw_v d = v_mul(whole ? v_load(sine + e) : v_load_some(sine + e, n), sign);
    fw_v a_new = v_fnma(b, d, v_mul(a, c)), b_new = v_fma(a, d, v_mul(b, c));
    if (whole) {
        v_put(s->x, x + e, a_new, t);
        v_put(s->x, x + E + e, b_new, t);
    } else {
        v_put_some(s->x, x + e, a_new, n, t);
        v_put_some(s->x, x + E + e, b_new, n, t);
    }
}
FW_INLINE void rope_rows(const fw_cpu_rope_args *s, int64_t first, int64_t last, fw_dtype t) {
    const int64_t E = s->D / 2, whole = E / FW_LANES * FW_LANES;
    const fw_v sign = v_set(s->direction < 0 ? -1.0f : 1.0f);
    for (int64_t n = first; n < last; n++) {
        const float *cosine = s->cos_PE + s->position[n] * E, *sine = s->sin_PE + s->position[n] * E;
        for (int64_t g = 0; g < s->G; g++) {
            const int64_t x = n * s->x_stride + g * s->D;
            for (int64_t e = 0; e < whole; e += FW_LANES) rotate(s, x, cosine, sine, e, FW_LANES, sign, t);
            if (whole < E) rotate(s, x, cosine, sine, whole, E - whole, sign, t);
        }
    }
}
void FW_CPU_FN(rope)(const fw_cpu_rope_args *s, int64_t first, int64_t last) {
    if (s->t == FW_BF16)
        rope_rows(s, first, last, FW_BF16);
    else
        rope_rows(s, first, last, FW_F32);
}
