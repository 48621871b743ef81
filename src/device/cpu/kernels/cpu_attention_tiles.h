/* What attention forward and backward share: one head's rows widened to fp32 in the layouts that the
 * register tile reads, and products of small tiles.
 *
 * DP is D rounded up to NR, zeros above D. Layouts of a head:
 *   rows    [n][DP]                 B of products that sum over n; also rows of results
 *   panels  [n / MR][D][MR]     A of products that sum over D
 *   turned  [n / NR][D][NR]     B of products that sum over D
 * A tile of scores is [Q_TILE][K_TILE]: as A it is read along its rows (o, dq) or down its columns (dk, dv). */
#ifndef FW_DEVICE_CPU_KERNELS_ATTENTION_TILES_H
#define FW_DEVICE_CPU_KERNELS_ATTENTION_TILES_H

#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_micro.h"

/* The register tile: NR divides the common head sizes, 64 and 128. */
#if FW_WIDTH == 16
enum { MR = 12, NR = 32 }; /* 24 + 2 + 1 of 32 registers */
#else
enum { MR = FW_MR, NR = FW_NR };
#endif
enum { NV = NR / FW_WIDTH };

enum { Q_TILE = 48, K_TILE = 96 };
_Static_assert(Q_TILE % MR == 0 && K_TILE % MR == 0 && K_TILE % NR == 0, "tiles are made of register tiles");

FW_INLINE int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
FW_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
FW_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
/* Tiles in the order 0, last, 1, last - 1, ...: any stretch of causal tiles then costs about the same. */
FW_INLINE int64_t alternate(int64_t i, int64_t n) { return i % 2 == 0 ? i / 2 : n - 1 - i / 2; }

/* One row of a head at x[at..at + D], widened, zeros to `padded`. */
FW_INLINE void widen_row(float *to, const void *x, int64_t at, int64_t D, int64_t padded, fw_dtype t) {
    int64_t d = 0;
    for (; d + FW_LANES <= D; d += FW_LANES) v_store(to + d, v_get(x, at + d, t));
    for (; d < D; d++) to[d] = s_get(x, at + d, t);
    for (; d < padded; d++) to[d] = 0;
}
FW_INLINE void widen_rows(float *to, const void *x, int64_t at, int64_t stride, int64_t n, int64_t D, int64_t DP,
                          fw_dtype t) {
    for (int64_t i = 0; i < n; i++) {
        if (t == FW_BF16)
            widen_row(to + i * DP, x, at + i * stride, D, DP, FW_BF16);
        else
            widen_row(to + i * DP, x, at + i * stride, D, DP, FW_F32);
    }
}
enum { SLACK = FW_LANES }; /* floats after a `panels` array that turn_rows may touch */

/* rows [n][DP] -> panels of `unit` rows, [panel][D][unit]; rows past n are zero. Turned over in squares. Where
 * `unit` is no multiple of a register, the lanes that stick out are overwritten by what belongs there. */
FW_INLINE void turn_rows(float *to, const float *rows, int64_t n, int64_t D, int64_t DP, int unit) {
    for (int64_t i0 = 0; i0 < n; i0 += unit, to += D * unit) {
        for (int64_t d0 = 0; d0 < D; d0 += FW_WIDTH) {
            for (int u = (unit - 1) / FW_WIDTH * FW_WIDTH; u >= 0; u -= FW_WIDTH) {
                fw_vn a[FW_WIDTH];
                FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) {
                    a[i] = u + i < unit && i0 + u + i < n ? vn_load(rows + (i0 + u + i) * DP + d0) : (fw_vn){0};
                }
                vn_turn(a);
                if (d0 + FW_WIDTH <= D) {
                    FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) vn_store(to + (d0 + i) * unit + u, a[i]);
                } else {
                    FW_UNROLL for (int i = 0; i < FW_WIDTH; i++) {
                        if (d0 + i < D) vn_store(to + (d0 + i) * unit + u, a[i]);
                    }
                }
            }
        }
    }
}

/* s[Q_TILE][K_TILE] = A B^T over D: `panels` of the tile's queries, `turned` of its keys. */
FW_INLINE void product_over_d(float *s, const float *panels, const float *turned, int64_t rows, int64_t D) {
    for (int64_t j = 0; j < K_TILE; j += NR) {
        for (int64_t i = 0; i < rows; i += MR) {
            fw_vn c[MR * NV];
            fw_micro(c, MR, NV, panels + i * D, 1, MR, turned + j * D, NR, D, 0);
            FW_UNROLL for (int r = 0; r < MR; r++) {
                FW_UNROLL for (int v = 0; v < NV; v++) vn_store(s + (i + r) * K_TILE + j + v * FW_WIDTH, c[r * NV + v]);
            }
        }
    }
}

FW_INLINE void add_tile(float *y, int64_t DP, const fw_vn *c) {
    FW_UNROLL for (int r = 0; r < MR; r++) {
        FW_UNROLL for (int v = 0; v < NV; v++) {
            float *to = y + r * DP + v * FW_WIDTH;
            vn_store(to, vn_load(to) + c[r * NV + v]);
        }
    }
}
/* y[i][DP] += sum over keys of s[i][j] x[j][DP], for `rows` rows i (a multiple of MR) and `keys` keys. */
FW_INLINE void product_over_keys(float *y, const float *s, const float *x, int64_t rows, int64_t keys, int64_t DP) {
    for (int64_t d = 0; d < DP; d += NR) {
        for (int64_t i = 0; i < rows; i += MR) {
            fw_vn c[MR * NV];
            fw_micro(c, MR, NV, s + i * K_TILE, K_TILE, 1, x + d, DP, keys, 0);
            add_tile(y + i * DP + d, DP, c);
        }
    }
}
/* y[j][DP] += sum over queries of s[i][j] x[i][DP], for `keys` keys j (a multiple of MR) and `rows` rows i. */
FW_INLINE void product_over_queries(float *y, const float *s, const float *x, int64_t rows, int64_t keys, int64_t DP) {
    for (int64_t d = 0; d < DP; d += NR) {
        for (int64_t j = 0; j < keys; j += MR) {
            fw_vn c[MR * NV];
            fw_micro(c, MR, NV, s + j, 1, K_TILE, x + d, DP, rows, 0);
            add_tile(y + j * DP + d, DP, c);
        }
    }
}

#endif
