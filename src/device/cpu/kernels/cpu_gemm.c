/* Matrix products, single-threaded: operands are widened to fp32 (exact for bf16) while they are packed into
 * panels, multiplied with fused multiply-adds, and rounded once when the last part of the sum is in.
 *
 * Loops, from outside: a chunk of columns whose B panels fit the cache that cores share; a block of rows;
 * parts of K, whose A block fits the second-level cache; a panel of B, which stays in the first-level cache;
 * panels of A. The block of C stays in the second-level cache in fp32 until the last part of K.
 * The order of every sum depends on K alone. After Goto, van de Geijn 2008; Van Zee, van de Geijn 2015 (BLIS). */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_micro.h"

/* Measured on Emerald Rapids, all shapes of SmolLM2 against each other in turn; smaller caches want smaller blocks. */
enum {
#if FW_WIDTH == 16
    KC = 592,      /* largest part of K */
    M_BLOCK = 360, /* rows of a block, a multiple of FW_MR: KC x M_BLOCK floats fit half a 2 MiB cache */
#else
    KC = 320,
    M_BLOCK = 180,
#endif
    N_CHUNK = 768,      /* columns of a chunk, at most; a multiple of FW_NR */
    B_FLOATS = 1 << 21, /* of a packed chunk, about */
    PREFETCH = 8,       /* rows of a B panel */
};
_Static_assert(M_BLOCK % FW_MR == 0 && N_CHUNK % FW_NR == 0, "blocks are made of register tiles");

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t chunk_columns(int64_t K) {
    int64_t n = B_FLOATS / (K > 0 ? K : 1) / FW_NR * FW_NR;
    return n < FW_NR ? FW_NR : n > N_CHUNK ? N_CHUNK : n;
}

size_t FW_CPU_FN(gemm_scratch_n)(int64_t K_max) {
    int64_t b = round_up(K_max * FW_NR, 16) > B_FLOATS ? round_up(K_max * FW_NR, 16) : B_FLOATS;
    return (size_t)(b + M_BLOCK * KC + M_BLOCK * N_CHUNK);
}

/* ---- packing ---- */

/* A[m..m+rows][k..k+parts] into panels of FW_MR rows: [r][KC] when k runs along memory, else [k][FW_MR]. */
FW_INLINE void pack_a(float *to, const fw_cpu_gemm_args *g, int64_t m, int64_t rows, int64_t k, int64_t k_n,
                      fw_dtype t) {
    for (int64_t r0 = 0; r0 < rows; r0 += FW_MR, to += FW_MR * KC) {
        int64_t here = least(FW_MR, rows - r0);
        if (g->a_k == 1) {
            for (int64_t r = 0; r < FW_MR; r++) {
                float *y = to + r * KC;
                if (r >= here) {
                    memset(y, 0, (size_t)k_n * sizeof *y);
                    continue;
                }
                int64_t x = (m + r0 + r) * g->a_row + k, i = 0;
                for (; i + FW_LANES <= k_n; i += FW_LANES) v_store(y + i, v_get(g->a, x + i, t));
                for (; i < k_n; i++) y[i] = s_get(g->a, x + i, t);
            }
        } else {
            for (int64_t i = 0; i < k_n; i++) {
                float *y = to + i * FW_MR;
                int64_t x = (k + i) * g->a_k + m + r0;
                if (here == FW_MR && m + r0 + FW_LANES <= g->M) { /* a full register may be read */
                    float lane[FW_LANES];
                    v_store(lane, v_get(g->a, x, t));
                    memcpy(y, lane, FW_MR * sizeof *y);
                    continue;
                }
                for (int64_t r = 0; r < FW_MR; r++) y[r] = r < here ? s_get(g->a, x + r, t) : 0;
            }
        }
    }
}

/* A square of FW_WIDTH x FW_WIDTH elements, rows `stride` apart, turned over into rows FW_NR apart. */
FW_INLINE void pack_square(float *to, const void *x, int64_t at, int64_t stride, fw_dtype t) {
    fw_vn a[FW_WIDTH];
    FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) {
        int64_t row = at + i * stride;
        a[i] = t == FW_F32 ? vn_load((const float *)x + row) : vn_load_bf16((const fw_bf16 *)x + row);
    }
    vn_turn(a);
    FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) vn_store(to + i * FW_NR, a[i]);
}

/* B[k..k+k_n][n..n+FW_NR] into one panel [k][FW_NR]; columns past the end are zero. */
FW_INLINE void pack_b_panel(float *to, const fw_cpu_gemm_args *g, int64_t n, int64_t n_last, int64_t k, int64_t k_n,
                            fw_dtype t) {
    int64_t here = least(FW_NR, n_last - n);
    if (g->b_col == 1) {
        for (int64_t i = 0; i < k_n; i++) {
            float *y = to + i * FW_NR;
            int64_t x = (k + i) * g->b_k + n;
            if (here == FW_NR)
                for (int j = 0; j < FW_NR; j += FW_LANES) v_store(y + j, v_get(g->b, x + j, t));
            else
                for (int64_t j = 0; j < FW_NR; j++) y[j] = j < here ? s_get(g->b, x + j, t) : 0;
        }
        return;
    }
    int64_t i = 0;
    if (here == FW_NR)
        for (; i + FW_WIDTH <= k_n; i += FW_WIDTH)
            for (int64_t j = 0; j < FW_NR; j += FW_WIDTH)
                pack_square(to + i * FW_NR + j, g->b, (n + j) * g->b_col + k + i, g->b_col, t);
    for (; i < k_n; i++)
        for (int64_t j = 0; j < FW_NR; j++)
            to[i * FW_NR + j] = j < here ? s_get(g->b, (n + j) * g->b_col + k + i, t) : 0;
}

/* ---- one register tile ---- */

/* Where a tile's sums stand: in the block of C kept in fp32 ([FW_MR][FW_NR] a tile), or finished. */
typedef struct tile {
    float *kept;
    int has_before, is_last;
    int64_t m, n, rows, columns; /* place and true size of the tile in C */
} tile;

FW_INLINE void finish_tile(fw_vn *c, const fw_cpu_gemm_args *g, const tile *s, const float *bias) {
    if (s->has_before) {
        FW_UNROLL for (int r = 0; r < FW_MR; r++) {
            FW_UNROLL for (int j = 0; j < FW_NV; j++) c[r * FW_NV + j] += vn_load(s->kept + r * FW_NR + j * FW_WIDTH);
        }
    }
    if (s->is_last && g->factor != 1) {
        const fw_vn factor = vn_set(g->factor);
        FW_UNROLL for (int r = 0; r < FW_MR; r++) {
            FW_UNROLL for (int j = 0; j < FW_NV; j++) c[r * FW_NV + j] *= factor;
        }
    }
    if (s->is_last && bias != NULL) {
        FW_UNROLL for (int r = 0; r < FW_MR; r++) {
            FW_UNROLL for (int j = 0; j < FW_NV; j++) c[r * FW_NV + j] += vn_load(bias + j * FW_WIDTH);
        }
    }
    if (s->is_last && s->rows == FW_MR && s->columns == FW_NR) {
        int64_t at = s->m * g->c_row + s->n;
        if (g->t_c == FW_BF16) {
            fw_bf16 *y = (fw_bf16 *)g->c + at;
            FW_UNROLL for (int r = 0; r < FW_MR; r++) {
                FW_UNROLL for (int j = 0; j < FW_NV; j++) {
                    fw_bf16 *to = y + r * g->c_row + j * FW_WIDTH;
                    vn_store_bf16(to, g->add ? vn_load_bf16(to) + c[r * FW_NV + j] : c[r * FW_NV + j]);
                }
            }
        } else {
            float *y = (float *)g->c + at;
            FW_UNROLL for (int r = 0; r < FW_MR; r++) {
                FW_UNROLL for (int j = 0; j < FW_NV; j++) {
                    float *to = y + r * g->c_row + j * FW_WIDTH;
                    vn_store(to, g->add ? vn_load(to) + c[r * FW_NV + j] : c[r * FW_NV + j]);
                }
            }
        }
        return;
    }
    FW_UNROLL for (int r = 0; r < FW_MR; r++) {
        FW_UNROLL for (int j = 0; j < FW_NV; j++) vn_store(s->kept + r * FW_NR + j * FW_WIDTH, c[r * FW_NV + j]);
    }
    if (!s->is_last) return;
    for (int64_t r = 0; r < s->rows; r++) { /* a tile over the edge of C */
        for (int64_t j = 0; j < s->columns; j++) {
            int64_t at = (s->m + r) * g->c_row + s->n + j;
            float value = s->kept[r * FW_NR + j];
            if (g->add) value += s_get(g->c, at, g->t_c);
            if (g->t_c == FW_BF16)
                ((fw_bf16 *)g->c)[at] = fw_bf16_from_f32(value);
            else
                ((float *)g->c)[at] = value;
        }
    }
}

static void tile_along_k(const fw_cpu_gemm_args *g, const tile *s, const float *a, const float *b, int64_t k_n,
                         const float *bias) {
    fw_vn c[FW_MR * FW_NV];
    fw_micro(c, FW_MR, FW_NV, a, KC, 1, b, FW_NR, k_n, PREFETCH);
    finish_tile(c, g, s, bias);
}
static void tile_along_m(const fw_cpu_gemm_args *g, const tile *s, const float *a, const float *b, int64_t k_n,
                         const float *bias) {
    fw_vn c[FW_MR * FW_NV];
    fw_micro(c, FW_MR, FW_NV, a, 1, FW_MR, b, FW_NR, k_n, PREFETCH);
    finish_tile(c, g, s, bias);
}

/* ---- the loops ---- */

void FW_CPU_FN(gemm)(const fw_cpu_gemm_args *g, int64_t m_first, int64_t m_last, int64_t n_first, int64_t n_last,
                     float *scratch) {
    const int64_t K = g->K, part_n = K > KC ? (K + KC - 1) / KC : 1;
    const int64_t part = K <= 0 ? 1 : part_n == 1 ? K : round_up((K + part_n - 1) / part_n, FW_LANES);
    const int64_t chunk = chunk_columns(K);
    float *kept = scratch, *a_block = kept + M_BLOCK * N_CHUNK, *b_chunk = a_block + M_BLOCK * KC;
    for (int64_t n0 = n_first; n0 < n_last; n0 += chunk) {
        const int64_t n1 = least(n0 + chunk, n_last);
        for (int64_t k = 0, i = 0; k < K; k += part) { /* B panels: [part][panel][k][FW_NR] */
            int64_t k_n = least(part, K - k);
            for (int64_t n = n0; n < n1; n += FW_NR, i += k_n * FW_NR) {
                if (g->t == FW_BF16)
                    pack_b_panel(b_chunk + i, g, n, n1, k, k_n, FW_BF16);
                else
                    pack_b_panel(b_chunk + i, g, n, n1, k, k_n, FW_F32);
            }
        }
        for (int64_t m0 = m_first; m0 < m_last; m0 += M_BLOCK) {
            const int64_t m1 = least(m0 + M_BLOCK, m_last);
            const float *b_panel = b_chunk;
            for (int64_t k = 0; k < K || k == 0; k += part) {
                int64_t k_n = least(part, K - k);
                if (g->t == FW_BF16)
                    pack_a(a_block, g, m0, m1 - m0, k, k_n, FW_BF16);
                else
                    pack_a(a_block, g, m0, m1 - m0, k, k_n, FW_F32);
                float *c_kept = kept;
                for (int64_t n = n0; n < n1; n += FW_NR, b_panel += k_n * FW_NR) {
                    float bias[FW_NR];
                    const int has_bias = g->bias != NULL && k + part >= K;
                    if (has_bias)
                        for (int64_t j = 0; j < FW_NR; j++) bias[j] = n + j < n1 ? s_get(g->bias, n + j, g->t) : 0;
                    for (int64_t m = m0; m < m1; m += FW_MR, c_kept += FW_MR * FW_NR) {
                        const tile s = {c_kept, k > 0, k + part >= K, m, n, least(FW_MR, m1 - m), least(FW_NR, n1 - n)};
                        const float *a = a_block + (m - m0) * KC;
                        if (g->a_k == 1)
                            tile_along_k(g, &s, a, b_panel, k_n, has_bias ? bias : NULL);
                        else
                            tile_along_m(g, &s, a, b_panel, k_n, has_bias ? bias : NULL);
                    }
                }
            }
        }
    }
}

/* ---- few rows ---- */

/* y = x b^T for a handful of rows: the weights are read once, where they are; four columns at a time. */
FW_INLINE void gemv_columns(const fw_cpu_gemm_args *g, int64_t n, int columns, const float *x_MK, fw_dtype t) {
    for (int64_t m = 0; m < g->M; m++) {
        const float *x = x_MK + m * g->K;
        fw_v sum[4] = {0};
        int64_t k = 0;
        for (; k + FW_LANES <= g->K; k += FW_LANES) {
            fw_v value = v_load(x + k);
            FW_UNROLL for (int j = 0; j < columns; j++) sum[j] =
                v_fma(value, v_get(g->b, (n + j) * g->b_col + k, t), sum[j]);
        }
        for (int j = 0; j < columns; j++) {
            if (k < g->K)
                sum[j] =
                    v_fma(v_load_some(x + k, g->K - k), v_get_some(g->b, (n + j) * g->b_col + k, g->K - k, t), sum[j]);
            float y = v_sum(sum[j]) + (g->bias == NULL ? 0 : s_get(g->bias, n + j, t));
            if (g->t_c == FW_BF16)
                ((fw_bf16 *)g->c)[m * g->c_row + n + j] = fw_bf16_from_f32(y);
            else
                ((float *)g->c)[m * g->c_row + n + j] = y;
        }
    }
}
FW_INLINE void gemv_range(const fw_cpu_gemm_args *g, int64_t n, int64_t n_last, const float *x_MK, fw_dtype t) {
    for (; n + 4 <= n_last; n += 4) gemv_columns(g, n, 4, x_MK, t);
    for (; n < n_last; n++) gemv_columns(g, n, 1, x_MK, t);
}

void FW_CPU_FN(gemv)(const fw_cpu_gemm_args *g, int64_t n_first, int64_t n_last, float *scratch) {
    for (int64_t m = 0; m < g->M; m++)
        for (int64_t k = 0; k < g->K; k++) scratch[m * g->K + k] = s_get(g->a, m * g->a_row + k, g->t);
    if (g->t == FW_BF16)
        gemv_range(g, n_first, n_last, scratch, FW_BF16);
    else
        gemv_range(g, n_first, n_last, scratch, FW_F32);
}
