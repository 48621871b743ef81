/* Attention forward, tile by tile with a running softmax: for a block of queries and each tile of keys,
 *   s = scale q k^T;  m' = max(m, max s);  p = exp(s - m');  l = l exp(m - m') + sum p;  o = o exp(m - m') + p v
 * and at the end o / l, lse = m + log l. All in fp32. Tiles that no query of the block sees are skipped, which
 * with `first` makes packed documents cost only their own squares. Dao 2022 (FlashAttention), Milakov,
 * Gimelshein 2018. */
#include "device/cpu/kernels/cpu_attention_tiles.h"
#include "device/cpu/kernels/cpu_kernel_names.h"

#include <math.h>

enum { FEW = 4 }; /* up to so many queries (decoding), keys are read in place */

static int64_t first_key(const fw_cpu_attention_args *s, int64_t n) { return s->first == NULL ? 0 : s->first[n]; }

int64_t FW_CPU_FN(attention_jobs)(const fw_cpu_attention_args *s) {
    return s->N <= FEW ? s->K : s->K * ((s->N + Q_TILE - 1) / Q_TILE);
}

size_t FW_CPU_FN(attention_forward_scratch_n)(int64_t keys_n, int64_t H, int64_t D) {
    const int64_t DP = up_to(D, NR), keys = up_to(keys_n, K_TILE);
    const int64_t blocks = keys * D + keys * DP + Q_TILE * (2 * DP + D + K_TILE + 4 * FW_LANES);
    const int64_t few = FEW * H * (2 * up_to(D, FW_LANES) + K_TILE + 2 * FW_LANES);
    return (size_t)larger(blocks, few);
}

/* ---- blocks of queries ---- */

typedef struct block {
    int64_t n0, rows, D, DP;
    float *turned_k, *v_rows; /* the whole head's */
    float *q_rows, *q_panels, *s, *o;
    float m[Q_TILE], l[Q_TILE];
} block;

/* Softmax of one row of a tile, in place; returns the factor for what was summed before. Columns lo..hi count. */
FW_INLINE float softmax_row(float *s, int64_t lo, int64_t hi, float scale, float *m, float *l) {
    if (lo >= hi) {
        memset(s, 0, K_TILE * sizeof *s);
        return 1;
    }
    for (int64_t j = 0; j < lo; j++) s[j] = -INFINITY;
    for (int64_t j = hi; j < K_TILE; j++) s[j] = -INFINITY;
    fw_v x[K_TILE / FW_LANES], most = v_set(-INFINITY);
    FW_UNROLL for (int i = 0; i < K_TILE / FW_LANES; i++) {
        x[i] = v_mul(v_load(s + i * FW_LANES), v_set(scale));
        most = v_max(x[i], most);
    }
    const float highest = v_largest(most), new_m = highest > *m ? highest : *m;
    fw_v sum = v_zero();
    FW_UNROLL for (int i = 0; i < K_TILE / FW_LANES; i++) {
        fw_v p = v_exp(v_sub(x[i], v_set(new_m)));
        v_store(s + i * FW_LANES, p);
        sum = v_add(sum, p);
    }
    const float factor = new_m == *m ? 1 : expf(*m - new_m);
    *l = *l * factor + v_sum(sum);
    *m = new_m;
    return factor;
}

static void attend_tile(const fw_cpu_attention_args *a, block *b, int64_t j0) {
    const int64_t rows = up_to(b->rows, MR);
    product_over_d(b->s, b->q_panels, b->turned_k + j0 * b->D, rows, b->D);
    int64_t keys = 0;
    for (int64_t i = 0; i < rows; i++) {
        float *s = b->s + i * K_TILE;
        if (i >= b->rows) {
            memset(s, 0, K_TILE * sizeof *s);
            continue;
        }
        const int64_t n = b->n0 + i;
        const int64_t lo = larger(first_key(a, n) - j0, 0), hi = smaller(a->q_offset + n + 1 - j0, K_TILE);
        const float factor = softmax_row(s, lo, hi, a->scale, &b->m[i], &b->l[i]);
        if (factor != 1) {
            const fw_v f = v_set(factor);
            for (int64_t d = 0; d < b->DP; d += FW_LANES) {
                float *o = b->o + i * b->DP + d;
                v_store(o, v_mul(v_load(o), f));
            }
        }
        keys = larger(keys, hi);
    }
    product_over_keys(b->o, b->s, b->v_rows + j0 * b->DP, rows, keys, b->DP);
}

FW_INLINE void write_row(void *o, int64_t at, const float *row, float factor, int64_t D, fw_dtype t) {
    const fw_v f = v_set(factor);
    int64_t d = 0;
    for (; d + FW_LANES <= D; d += FW_LANES) v_put(o, at + d, v_mul(v_load(row + d), f), t);
    if (d < D) v_put_some(o, at + d, v_mul(v_load_some(row + d, D - d), f), D - d, t);
}

static void attend_block(const fw_cpu_attention_args *a, block *b, int64_t h) {
    const int64_t first = first_key(a, b->n0), last = a->q_offset + b->n0 + b->rows;
    widen_rows(b->q_rows, a->q, b->n0 * a->q_stride + h * b->D, a->q_stride, b->rows, b->D, b->DP, a->t);
    turn_rows(b->q_panels, b->q_rows, b->rows, b->D, b->DP, MR);
    memset(b->o, 0, (size_t)(Q_TILE * b->DP) * sizeof *b->o);
    for (int i = 0; i < Q_TILE; i++) b->m[i] = -INFINITY, b->l[i] = 0;
    for (int64_t j0 = first / K_TILE * K_TILE; j0 < last; j0 += K_TILE) attend_tile(a, b, j0);
    for (int64_t i = 0; i < b->rows; i++) {
        const int64_t row = (b->n0 + i) * a->H + h;
        if (a->t == FW_BF16)
            write_row(a->o, row * b->D, b->o + i * b->DP, 1 / b->l[i], b->D, FW_BF16);
        else
            write_row(a->o, row * b->D, b->o + i * b->DP, 1 / b->l[i], b->D, FW_F32);
        if (a->lse != NULL) a->lse[row] = b->m[i] + logf(b->l[i]);
    }
}

static void attend_blocks(const fw_cpu_attention_args *a, int64_t first, int64_t last, float *scratch) {
    const int64_t keys_n = a->q_offset + a->N, keys = up_to(keys_n, K_TILE);
    const int64_t block_n = (a->N + Q_TILE - 1) / Q_TILE;
    block b = {.D = a->D, .DP = up_to(a->D, NR)};
    b.turned_k = scratch;
    b.v_rows = b.turned_k + keys * b.D;
    b.q_rows = b.v_rows + keys * b.DP;
    b.q_panels = b.q_rows + Q_TILE * b.DP;
    b.s = b.q_panels + Q_TILE * b.D + SLACK;
    b.o = b.s + Q_TILE * K_TILE;
    int64_t packed_head = -1;
    for (int64_t job = first; job < last; job++) {
        const int64_t kv = job / block_n, i = job % block_n;
        if (kv != packed_head) {
            widen_rows(b.v_rows, a->k, kv * b.D, a->k_stride, keys_n, b.D, b.DP, a->t);
            memset(b.turned_k, 0, (size_t)(keys * b.D) * sizeof *b.turned_k);
            turn_rows(b.turned_k, b.v_rows, keys_n, b.D, b.DP, NR);
            widen_rows(b.v_rows, a->v, kv * b.D, a->v_stride, keys_n, b.D, b.DP, a->t);
            memset(b.v_rows + keys_n * b.DP, 0, (size_t)((keys - keys_n) * b.DP) * sizeof *b.v_rows);
            packed_head = kv;
        }
        b.n0 = alternate(i, block_n) * Q_TILE;
        b.rows = smaller(Q_TILE, a->N - b.n0);
        for (int64_t h = kv * (a->H / a->K); h < (kv + 1) * (a->H / a->K); h++) attend_block(a, &b, h);
    }
}

/* ---- few queries ---- */

/* One key/value head: keys and values are read once for all queries and heads (rows r = n * G + g). */
FW_INLINE void attend_few(const fw_cpu_attention_args *a, int64_t kv, float *scratch, fw_dtype t) {
    const int64_t D = a->D, DL = up_to(D, FW_LANES), G = a->H / a->K, R = a->N * G;
    float *q = scratch, *o = q + R * DL, *s = o + R * DL, *m = s + R * K_TILE, *l = m + R;
    for (int64_t r = 0; r < R; r++) {
        widen_row(q + r * DL, a->q, r / G * a->q_stride + (kv * G + r % G) * D, D, DL, t);
        m[r] = -INFINITY, l[r] = 0;
    }
    memset(o, 0, (size_t)(R * DL) * sizeof *o);
    for (int64_t j0 = first_key(a, 0) / K_TILE * K_TILE; j0 < a->q_offset + a->N; j0 += K_TILE) {
        const int64_t keys = smaller(K_TILE, a->q_offset + a->N - j0);
        for (int64_t j = 0; j < keys; j++) {
            const int64_t key = (j0 + j) * a->k_stride + kv * D;
            for (int64_t r = 0; r < R; r++) {
                fw_v sum = v_zero();
                for (int64_t d = 0; d < D; d += FW_LANES) {
                    fw_v k = d + FW_LANES <= D ? v_get(a->k, key + d, t) : v_get_some(a->k, key + d, D - d, t);
                    sum = v_fma(v_load(q + r * DL + d), k, sum);
                }
                s[r * K_TILE + j] = v_sum(sum);
            }
        }
        for (int64_t r = 0; r < R; r++) {
            const int64_t n = r / G, lo = larger(first_key(a, n) - j0, 0);
            const int64_t hi = smaller(a->q_offset + n + 1 - j0, K_TILE);
            const fw_v factor = v_set(softmax_row(s + r * K_TILE, lo, hi, a->scale, &m[r], &l[r]));
            for (int64_t d = 0; d < DL; d += FW_LANES) v_store(o + r * DL + d, v_mul(v_load(o + r * DL + d), factor));
        }
        for (int64_t j = 0; j < keys; j++) {
            const int64_t value = (j0 + j) * a->v_stride + kv * D;
            for (int64_t d = 0; d < D; d += FW_LANES) {
                fw_v v = d + FW_LANES <= D ? v_get(a->v, value + d, t) : v_get_some(a->v, value + d, D - d, t);
                for (int64_t r = 0; r < R; r++) {
                    float *to = o + r * DL + d;
                    v_store(to, v_fma(v, v_set(s[r * K_TILE + j]), v_load(to)));
                }
            }
        }
    }
    for (int64_t r = 0; r < R; r++) {
        const int64_t row = r / G * a->H + kv * G + r % G;
        write_row(a->o, row * D, o + r * DL, 1 / l[r], D, t);
        if (a->lse != NULL) a->lse[row] = m[r] + logf(l[r]);
    }
}

void FW_CPU_FN(attention_forward)(const fw_cpu_attention_args *a, int64_t first, int64_t last, float *scratch) {
    if (a->N > FEW) {
        attend_blocks(a, first, last, scratch);
        return;
    }
    for (int64_t kv = first; kv < last; kv++) {
        if (a->t == FW_BF16)
            attend_few(a, kv, scratch, FW_BF16);
        else
            attend_few(a, kv, scratch, FW_F32);
    }
}
