/* Attention backward, head by head, with every score computed again:
 *   p = exp(scale q k^T - lse);  dv += p^T do;  dp = do v^T;  ds = p (dp - delta), delta = do . o
 *   dk += scale ds^T q;  dq += scale ds k
 * In one pass, for a tile of keys and each query head that shares them, over the blocks of queries that see
 * it: dk and dv of the tile are summed there and then, dq over the tiles in order. Where threads outnumber
 * heads, two passes (dk and dv by tiles of keys, dq by blocks of queries) do the same sums in the same order
 * at 7/5 of the work. All sums are fp32. Dao 2022 (FlashAttention). */
#include "device/cpu/kernels/cpu_attention_tiles.h"
#include "device/cpu/kernels/cpu_kernel_names.h"

/* One head, widened; sizes in rows: NP is N rounded up to whole tiles of both kinds. */
typedef struct head {
    int64_t N, NP, D, DP;
    float *q_rows, *q_panels, *do_rows, *do_panels, *k_rows, *k_turned, *v_turned, *dq_rows;
    float *s, *dp, *delta, *lse;
} head;

static int64_t padded_rows(int64_t N) { return up_to(N, 2 * Q_TILE); }
_Static_assert(2 * Q_TILE == K_TILE, "both kinds of tiles fit NP");

static size_t head_floats(int64_t NP, int64_t D, int64_t DP) {
    return (size_t)(NP * (4 * DP + 4 * D) + 4 * SLACK + 2 * Q_TILE * K_TILE + 2 * NP);
}

/* The head's memory, then dk and dv [NP][DP], summed over the query heads that share them. */
size_t FW_CPU_FN(attention_backward_scratch_n)(int64_t N, int64_t D) {
    const int64_t NP = padded_rows(N), DP = up_to(D, NR);
    return head_floats(NP, D, DP) + (size_t)(2 * NP * DP);
}

static void place_head(head *h, float *at) {
    const int64_t rows = h->NP * h->DP, turned = h->NP * h->D + SLACK;
    h->q_rows = at, at += rows;
    h->do_rows = at, at += rows;
    h->k_rows = at, at += rows;
    h->dq_rows = at, at += rows;
    h->q_panels = at, at += turned;
    h->do_panels = at, at += turned;
    h->k_turned = at, at += turned;
    h->v_turned = at, at += turned;
    h->s = at, at += Q_TILE * K_TILE;
    h->dp = at, at += Q_TILE * K_TILE;
    h->delta = at, at += h->NP;
    h->lse = at;
}

static void load_rows(head *h, float *rows, const void *x, int64_t at, int64_t stride, fw_dtype t) {
    widen_rows(rows, x, at, stride, h->N, h->D, h->DP, t);
    memset(rows + h->N * h->DP, 0, (size_t)((h->NP - h->N) * h->DP) * sizeof *rows);
}

static void load_kv(head *h, const fw_cpu_attention_args *a, int64_t kv) {
    load_rows(h, h->k_rows, a->v, kv * h->D, a->v_stride, a->t);
    turn_rows(h->v_turned, h->k_rows, h->NP, h->D, h->DP, NR);
    load_rows(h, h->k_rows, a->k, kv * h->D, a->k_stride, a->t);
    turn_rows(h->k_turned, h->k_rows, h->NP, h->D, h->DP, NR);
}

static void load_q(head *h, const fw_cpu_attention_args *a, int64_t q_head) {
    const int64_t o_stride = a->H * h->D;
    load_rows(h, h->dq_rows, a->o, q_head * h->D, o_stride, a->t); /* for delta only */
    load_rows(h, h->do_rows, a->d_o, q_head * h->D, o_stride, a->t);
    turn_rows(h->do_panels, h->do_rows, h->NP, h->D, h->DP, MR);
    for (int64_t n = 0; n < h->N; n++) {
        fw_v sum = v_zero();
        for (int64_t d = 0; d < h->DP; d += FW_LANES)
            sum = v_fma(v_load(h->do_rows + n * h->DP + d), v_load(h->dq_rows + n * h->DP + d), sum);
        h->delta[n] = v_sum(sum);
        h->lse[n] = a->lse[n * a->H + q_head];
    }
    load_rows(h, h->q_rows, a->q, q_head * h->D, a->q_stride, a->t);
    turn_rows(h->q_panels, h->q_rows, h->NP, h->D, h->DP, MR);
    memset(h->dq_rows, 0, (size_t)(h->NP * h->DP) * sizeof *h->dq_rows);
}

/* s becomes p, dp becomes ds; columns outside lo..hi become 0. */
FW_INLINE void gradient_row(float *s, float *dp, int64_t lo, int64_t hi, float scale, float lse, float delta) {
    if (lo >= hi) {
        memset(s, 0, K_TILE * sizeof *s);
        memset(dp, 0, K_TILE * sizeof *dp);
        return;
    }
    FW_UNROLL for (int j = 0; j < K_TILE; j += FW_LANES) {
        fw_v p = v_exp(v_sub(v_mul(v_load(s + j), v_set(scale)), v_set(lse)));
        v_store(s + j, p);
        v_store(dp + j, v_mul(p, v_sub(v_load(dp + j), v_set(delta))));
    }
    for (int64_t j = 0; j < lo; j++) s[j] = 0, dp[j] = 0;
    for (int64_t j = hi; j < K_TILE; j++) s[j] = 0, dp[j] = 0;
}

/* One block of queries and one tile of keys. */
FW_INLINE void backward_tile(const head *h, const fw_cpu_attention_args *a, int64_t n0, int64_t j0, float *dk_dv,
                             int want_kv, int want_q) {
    const int64_t rows = smaller(Q_TILE, h->N - n0), tile_rows = up_to(rows, MR);
    product_over_d(h->s, h->q_panels + n0 * h->D, h->k_turned + j0 * h->D, tile_rows, h->D);
    product_over_d(h->dp, h->do_panels + n0 * h->D, h->v_turned + j0 * h->D, tile_rows, h->D);
    int64_t keys = 0;
    for (int64_t i = 0; i < tile_rows; i++) {
        const int64_t n = n0 + i, first = i < rows && a->first != NULL ? a->first[n] : 0;
        const int64_t lo = larger(first - j0, 0), hi = i < rows ? smaller(n + 1 - j0, K_TILE) : 0;
        gradient_row(h->s + i * K_TILE, h->dp + i * K_TILE, lo, hi, a->scale, i < rows ? h->lse[n] : 0,
                     i < rows ? h->delta[n] : 0);
        keys = larger(keys, hi);
    }
    const int64_t tile_keys = up_to(keys, MR);
    if (want_kv) {
        float *dk = dk_dv + j0 * h->DP, *dv = dk + h->NP * h->DP;
        product_over_queries(dv, h->s, h->do_rows + n0 * h->DP, rows, tile_keys, h->DP);
        product_over_queries(dk, h->dp, h->q_rows + n0 * h->DP, rows, tile_keys, h->DP);
    }
    if (want_q) product_over_keys(h->dq_rows + n0 * h->DP, h->dp, h->k_rows + j0 * h->DP, tile_rows, keys, h->DP);
}

static void tile_both(const head *h, const fw_cpu_attention_args *a, int64_t n0, int64_t j0, float *dk_dv) {
    backward_tile(h, a, n0, j0, dk_dv, 1, 1);
}
static void tile_kv(const head *h, const fw_cpu_attention_args *a, int64_t n0, int64_t j0, float *dk_dv) {
    backward_tile(h, a, n0, j0, dk_dv, 1, 0);
}
static void tile_q(const head *h, const fw_cpu_attention_args *a, int64_t n0, int64_t j0, float *dk_dv) {
    backward_tile(h, a, n0, j0, dk_dv, 0, 1);
}

/* All blocks of queries that see the tile of keys at j0. */
static void tile_column(const head *h, const fw_cpu_attention_args *a, int64_t j0, float *dk_dv,
                        void (*tile)(const head *, const fw_cpu_attention_args *, int64_t, int64_t, float *)) {
    for (int64_t n0 = j0 / Q_TILE * Q_TILE; n0 < h->N; n0 += Q_TILE) {
        if (a->first != NULL && a->first[n0] >= j0 + K_TILE) break; /* first never decreases */
        tile(h, a, n0, j0, dk_dv);
    }
}

/* y[n][D] (type t) = factor * rows[n][DP] for n in first..last */
FW_INLINE void write_rows(void *y, int64_t at, int64_t stride, const float *rows, float factor, const head *h,
                          int64_t first, int64_t last, fw_dtype t) {
    const fw_v f = v_set(factor);
    for (int64_t n = first; n < smaller(last, h->N); n++) {
        const float *row = rows + n * h->DP;
        int64_t to = at + n * stride, d = 0;
        for (; d + FW_LANES <= h->D; d += FW_LANES) v_put(y, to + d, v_mul(v_load(row + d), f), t);
        if (d < h->D) v_put_some(y, to + d, v_mul(v_load_some(row + d, h->D - d), f), h->D - d, t);
    }
}
static void write_head(void *y, int64_t at, int64_t stride, const float *rows, float factor, const head *h,
                       int64_t first, int64_t last, fw_dtype t) {
    if (t == FW_BF16)
        write_rows(y, at, stride, rows, factor, h, first, last, FW_BF16);
    else
        write_rows(y, at, stride, rows, factor, h, first, last, FW_F32);
}
static void write_dkv(const fw_cpu_attention_args *a, const head *h, int64_t kv, const float *dk_dv, int64_t first,
                      int64_t last) {
    write_head(a->dk, kv * h->D, a->dkv_stride, dk_dv, a->scale, h, first, last, a->t);
    write_head(a->dv, kv * h->D, a->dkv_stride, dk_dv + h->NP * h->DP, 1, h, first, last, a->t);
}

/* ---- the passes ---- */

static head place(const fw_cpu_attention_args *a, float *scratch, float **dk_dv) {
    head h = {.N = a->N, .NP = padded_rows(a->N), .D = a->D, .DP = up_to(a->D, NR)};
    place_head(&h, scratch);
    *dk_dv = scratch + head_floats(h.NP, h.D, h.DP);
    return h;
}

void FW_CPU_FN(attention_backward)(const fw_cpu_attention_args *a, int64_t first, int64_t last, float *scratch) {
    const int64_t G = a->H / a->K;
    float *dk_dv;
    head h = place(a, scratch, &dk_dv);
    for (int64_t kv = first; kv < last; kv++) {
        memset(dk_dv, 0, (size_t)(2 * h.NP * h.DP) * sizeof *dk_dv);
        load_kv(&h, a, kv);
        for (int64_t q_head = kv * G; q_head < (kv + 1) * G; q_head++) {
            load_q(&h, a, q_head);
            for (int64_t j0 = 0; j0 < h.N; j0 += K_TILE) tile_column(&h, a, j0, dk_dv, tile_both);
            write_head(a->dq, q_head * h.D, a->dq_stride, h.dq_rows, a->scale, &h, 0, h.N, a->t);
        }
        write_dkv(a, &h, kv, dk_dv, 0, h.N);
    }
}

int64_t FW_CPU_FN(attention_backward_kv_jobs)(const fw_cpu_attention_args *a) {
    return a->K * ((a->N + K_TILE - 1) / K_TILE);
}
void FW_CPU_FN(attention_backward_kv)(const fw_cpu_attention_args *a, int64_t first, int64_t last, float *scratch) {
    const int64_t G = a->H / a->K, tile_n = (a->N + K_TILE - 1) / K_TILE;
    float *dk_dv;
    head h = place(a, scratch, &dk_dv);
    for (int64_t kv = first / tile_n; kv * tile_n < last; kv++) {
        const int64_t begin = larger(first - kv * tile_n, 0), end = smaller(last - kv * tile_n, tile_n);
        memset(dk_dv, 0, (size_t)(2 * h.NP * h.DP) * sizeof *dk_dv);
        load_kv(&h, a, kv);
        for (int64_t q_head = kv * G; q_head < (kv + 1) * G; q_head++) {
            load_q(&h, a, q_head);
            for (int64_t i = begin; i < end; i++) tile_column(&h, a, alternate(i, tile_n) * K_TILE, dk_dv, tile_kv);
        }
        for (int64_t i = begin; i < end; i++) {
            const int64_t j0 = alternate(i, tile_n) * K_TILE;
            write_dkv(a, &h, kv, dk_dv, j0, j0 + K_TILE);
        }
    }
}

int64_t FW_CPU_FN(attention_backward_q_jobs)(const fw_cpu_attention_args *a) {
    return a->H * ((a->N + Q_TILE - 1) / Q_TILE);
}
void FW_CPU_FN(attention_backward_q)(const fw_cpu_attention_args *a, int64_t first, int64_t last, float *scratch) {
    const int64_t G = a->H / a->K, block_n = (a->N + Q_TILE - 1) / Q_TILE;
    float *dk_dv;
    head h = place(a, scratch, &dk_dv);
    for (int64_t job = first, loaded = -1; job < last; job++) {
        const int64_t q_head = job / block_n, n0 = alternate(job % block_n, block_n) * Q_TILE;
        if (q_head != loaded) {
            if (loaded < 0 || q_head / G != loaded / G) load_kv(&h, a, q_head / G);
            load_q(&h, a, loaded = q_head);
        }
        const int64_t from = a->first != NULL ? a->first[n0] / K_TILE * K_TILE : 0;
        for (int64_t j0 = from; j0 < smaller(n0 + Q_TILE, h.N); j0 += K_TILE) tile_q(&h, a, n0, j0, NULL);
        write_head(a->dq, q_head * h.D, a->dq_stride, h.dq_rows, a->scale, &h, n0, n0 + Q_TILE, a->t);
    }
}
