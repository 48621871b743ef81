/* How far a correct device may be from the judge, operation by operation.
 *
 * U = 2^-24 is fp32's rounding error. A result y of type t is off by the error of computing it in fp32, derived
 * below, plus half a distance between neighbours of type t, from the one rounding at the end. Errors are worst
 * cases but for two: a sum of n terms may be off by 4 sqrt(n) U times the sum of sizes instead of n U (Higham,
 * Mary 2019: roundings are as good as independent; 4 makes more improbable than 1 in 1000), and exp and log may be off
 * by 8 U, as fast vector forms are. FLOOR allows devices that flush subnormals (bf16 units do) in inputs and results.
 */
#include "support/op_bound.h"

double fw_op_sum_error(int64_t n, double size) { return sum_share(n) * size; }

double fw_op_half_ulp(fw_dtype t, double y) { return y == 0 ? 0 : ldexp(share_of(t), ilogb(fabs(y))); }

/* Equal bits: the bounds stay 0. */
#define EQUAL(name)                                                                                                    \
    BOUND(name) { (void)c, (void)judged; }
EQUAL(embedding_forward)
EQUAL(embedding_backward) /* one fp32 addition a row, in order */
EQUAL(add)
EQUAL(gather_rows)
EQUAL(scatter_rows)
EQUAL(scale)
EQUAL(cast)
EQUAL(unpack_4bit)
EQUAL(zero)
EQUAL(copy)

/* rstd: the sum of squares is off by sum_share(C), of which the root takes half; a division, a root and an addition.
 * y: xhat = x * rstd is rounded to t, multiplied by w, rounded to t again. */
BOUND(rmsnorm_forward) {
    BOUND_LOCALS;
    int at_y = s->in_place ? 2 : 0;
    int64_t row = s->G * s->C + s->gap, y_row = s->in_place ? row : row + s->gap;
    double share = sum_share(s->C) / 2 + 4 * U;
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t g = 0; g < s->G; g++) {
            set(&b[1], n * s->G + g, judged[1][n * s->G + g], share * judged[1][n * s->G + g]);
            for (int64_t i = 0; i < s->C; i++) {
                int64_t at = n * y_row + g * s->C + i;
                double y = judged[at_y][at], w = fabs(b[3].value[i]);
                double xhat = fabs(b[2].value[n * row + g * s->C + i]) * judged[1][n * s->G + g];
                double xhat_error = share * xhat + fw_op_half_ulp(c->t, xhat * (1 + share)) + FLOOR;
                set(&b[at_y], at, y, w * xhat_error + 2 * U * fabs(y));
            }
        }
    }
}

/* dx = add + rstd (w dy - xhat m), m the mean over the row of w dy xhat (each product a rounding). */
BOUND(rmsnorm_backward) {
    BOUND_LOCALS;
    int at_dx = s->in_place ? 2 : 0;
    int64_t row = s->G * s->C + s->gap;
    const double *dy = b[2].value, *x = b[4].value, *w = b[5].value, *rstd = b[6].value;
    const double *add = s->with_add == 2 ? b[0].value : s->with_add == 1 ? b[3].value : NULL;
    double dw_size[8192] = {0};
    FW_ASSERT(s->C <= 8192);
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t g = 0; g < s->G; g++) {
            int64_t at = n * row + g * s->C;
            double r = rstd[n * s->G + g], size = 0;
            for (int64_t i = 0; i < s->C; i++) {
                size += fabs(w[i] * dy[at + i] * x[at + i] * r) / (double)s->C;
                dw_size[i] += fabs(dy[at + i] * x[at + i] * r);
            }
            for (int64_t i = 0; i < s->C; i++) {
                double added = add != NULL ? fabs(add[at + i]) : 0;
                double error =
                    r * (4 * U * fabs(w[i] * dy[at + i]) + (sum_share(s->C) + 8 * U) * fabs(x[at + i] * r) * size);
                set(&b[at_dx], at + i, judged[at_dx][at + i], error + 2 * U * added + FLOOR * r * r);
            }
        }
    }
    for (int64_t i = 0; i < s->C; i++)
        set(&b[1], i, judged[1][i],
            fw_op_sum_error(s->N * s->G + 1, dw_size[i] + fabs(b[1].value[i])) + 2 * U * dw_size[i]);
}

/* Two products and a sum. */
BOUND(rope) {
    BOUND_LOCALS;
    int64_t row = s->G * s->D + s->gap, E = s->D / 2;
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t i = 0; i < s->G * s->D; i++) {
            int64_t e = i % s->D, other = e < E ? i + E : i - E, table = (int64_t)b[3].value[n] * E + e % E;
            double size = fabs(b[0].value[n * row + i] * b[1].value[table]) +
                          fabs(b[0].value[n * row + other] * b[2].value[table]);
            set(&b[0], n * row + i, judged[0][n * row + i], 3 * U * size);
        }
    }
}

/* y[r][c] = start + sum over k < n of a[r][k] b[k][c]; strides of a and b by row and by k, by k and by column. */
static void bound_product(fw_op_buffer *y, const double *judged, const double *start, int64_t start_row,
                          const double *a, int64_t a_row, int64_t a_k, const double *b, int64_t b_k, int64_t b_column,
                          int64_t rows, int64_t columns, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < columns; i++) {
            double size = 0, flushed = 0;
            for (int64_t k = 0; k < n; k++) {
                double from_a = fabs(a[r * a_row + k * a_k]), from_b = fabs(b[k * b_k + i * b_column]);
                size += from_a * from_b;
                flushed += from_a + from_b;
            }
            if (start != NULL) size += fabs(start[r * start_row + i]);
            set(y, r * columns + i, judged[r * columns + i], fw_op_sum_error(n + 1, size) + FLOOR * flushed);
        }
    }
}

BOUND(matmul_forward) {
    BOUND_LOCALS;
    bound_product(&b[0], judged[0], s->without ? NULL : b[3].value, 0, b[1].value, s->C, 1, b[2].value, 1, s->C, s->N,
                  s->O, s->C);
}
BOUND(matmul_backward_input) {
    BOUND_LOCALS;
    bound_product(&b[0], judged[0], NULL, 0, b[1].value, s->O, 1, b[2].value, s->C, 1, s->N, s->C, s->O);
}
BOUND(matmul_backward_weight) {
    BOUND_LOCALS;
    bound_product(&b[0], judged[0], b[0].value, s->C, b[1].value, 1, s->O, b[2].value, s->C, 1, s->O, s->C, s->N);
}
BOUND(bias_backward) {
    BOUND_LOCALS;
    for (int64_t o = 0; o < s->O; o++) {
        double size = fabs(b[0].value[o]);
        for (int64_t n = 0; n < s->N; n++) size += fabs(b[1].value[n * s->O + o]);
        set(&b[0], o, judged[0][o], fw_op_sum_error(s->N + 1, size));
    }
}

/* s = 1 / (1 + exp(-gate)) is off by EXP + 2 roundings at most, and nothing when it leaves fp32's range. */
static double silu_floor(double a, double g, double u) { return FLOOR * (1 + fabs(a)) * (1 + fabs(g)) * (1 + fabs(u)); }
BOUND(swiglu_forward) {
    BOUND_LOCALS;
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t f = 0; f < s->C; f++) {
            double h = judged[0][n * s->C + f], g = b[1].value[n * 2 * s->C + f],
                   u = b[1].value[n * 2 * s->C + s->C + f];
            set(&b[0], n * s->C + f, h, (EXP + 4) * U * fabs(h) + silu_floor(0, g, u));
        }
    }
}
/* dgate = dh up s (1 + g (1 - s)): 1 - s has an error of EXP + 3 roundings of numbers up to 1. */
BOUND(swiglu_backward) {
    BOUND_LOCALS;
    int at = s->in_place ? 2 : 0;
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t f = 0; f < s->C; f++) {
            int64_t gate = n * 2 * s->C + f, up = gate + s->C;
            double g = b[2].value[gate], u = b[2].value[up], dh = b[1].value[n * s->C + f], sigmoid = 1 / (1 + exp(-g));
            double size = fabs(dh * u) * sigmoid * (1 + fabs(g));
            set(&b[at], gate, judged[at][gate], (2 * EXP + 10) * U * size + silu_floor(dh, g, u));
            set(&b[at], up, judged[at][up], (EXP + 5) * U * fabs(judged[at][up]) + silu_floor(dh, g, u));
        }
    }
}

static double dot_size(const double *x, const double *y, int64_t n) {
    double size = 0;
    for (int64_t i = 0; i < n; i++) size += fabs(x[i] * y[i]);
    return size;
}
static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}
static int64_t first_key(const fw_op_case *c, int at, int64_t n) {
    return c->shape->packed ? (int64_t)c->buffer[at].value[n] : 0;
}

/* A score is a product of D terms, scaled (perhaps by log2(e) too). An error e of the score is one of expm1(e) of its
 * probability; the denominator may differ as much, and maxima come and go. In 16 bits a device may round the
 * probabilities to t before they meet v. */
BOUND(attention_forward) {
    BOUND_LOCALS;
    int64_t D = s->D, q_row = s->H * D + s->gap, kv_row = s->K * D + s->gap;
    double scale = (double)(1 / sqrtf((float)D));
    for (int64_t n = 0; n < s->N; n++) {
        int64_t first = first_key(c, 5, n), last = s->q_offset + n;
        for (int64_t h = 0; h < s->H; h++) {
            const double *q = &b[2].value[n * q_row + h * D];
            int64_t head = h / (s->H / s->K) * D;
            double score_error = 0, lse_or_max = -(double)INFINITY, denominator = 0, weighted[256] = {0};
            FW_ASSERT(D <= 256);
            for (int64_t j = first; j <= last; j++) {
                const double *k = &b[3].value[j * kv_row + head];
                score_error = fmax(score_error, (sum_share(D) + 4 * U) * scale * dot_size(q, k, D));
                lse_or_max = fmax(lse_or_max, scale * dot(q, k, D));
            }
            for (int64_t j = first; j <= last; j++) {
                double p = exp(scale * dot(q, &b[3].value[j * kv_row + head], D) - lse_or_max);
                denominator += p;
                for (int64_t e = 0; e < D; e++) weighted[e] += p * fabs(b[4].value[j * (kv_row + s->gap) + head + e]);
            }
            double share = expm1(2 * score_error) + 2 * sum_share(last - first + 1) + 2 * EXP * U +
                           (c->t == FW_F32 ? 0 : share_of(c->t));
            for (int64_t e = 0; e < D; e++) {
                int64_t at = (n * s->H + h) * D + e;
                set(&b[0], at, judged[0][at], share * weighted[e] / denominator);
            }
            if (s->without) continue;
            double lse = judged[1][n * s->H + h];
            set(&b[1], n * s->H + h, lse,
                score_error + sum_share(last - first + 1) + 2 * EXP * U + 2 * U * (fabs(lse) + fabs(lse_or_max)));
        }
    }
}

/* p = exp(score - lse), ds = p (do.v - do.o); both may be rounded to t before they meet do, k and q. dk and dv sum over
 * the queries and heads of a group. Errors of the sums are gathered in the bounds themselves, set() comes last. */
BOUND(attention_backward) {
    BOUND_LOCALS;
    int64_t D = s->D, q_row = s->H * D + s->gap, kv_row = s->K * D + s->gap, group = s->H / s->K;
    int64_t dq_row = fw_op_dq_row(s), dkv_row = fw_op_dkv_row(s);
    double scale = (double)(1 / sqrtf((float)D)), to_t = c->t == FW_F32 ? 0 : share_of(c->t);
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t h = 0; h < s->H; h++) {
            const double *q = &b[6].value[n * q_row + h * D], *d_o = &b[3].value[(n * s->H + h) * D];
            const double *o = &b[4].value[(n * s->H + h) * D];
            double lse = b[5].value[n * s->H + h], delta = dot(d_o, o, D),
                   delta_error = sum_share(D) * dot_size(d_o, o, D);
            for (int64_t j = first_key(c, 9, n); j <= n; j++) {
                int64_t at_kv = j * kv_row + h / group * D, at_dkv = j * dkv_row + h / group * D;
                const double *k = &b[7].value[at_kv], *v = &b[8].value[at_kv + j * s->gap];
                double score = scale * dot(q, k, D), p = exp(score - lse), dp = dot(d_o, v, D),
                       ds = fabs(p * (dp - delta));
                double p_error =
                    p * (expm1((sum_share(D) + 4 * U) * scale * dot_size(q, k, D) + 2 * U * fabs(lse)) + EXP * U);
                double ds_error = p * (sum_share(D) * dot_size(d_o, v, D) + delta_error) +
                                  (p_error + 3 * U * p) * (fabs(dp) + fabs(delta));
                double for_dq = ds_error + (to_t + sum_share(n + 1)) * ds;
                double for_dk = ds_error + (to_t + sum_share(s->N * group)) * ds;
                double for_dv = p_error + (to_t + sum_share(s->N * group)) * p;
                for (int64_t e = 0; e < D; e++) {
                    b[0].bound[n * dq_row + h * D + e] += scale * for_dq * fabs(k[e]);
                    b[1].bound[at_dkv + e] += scale * for_dk * fabs(q[e]);
                    b[2].bound[at_dkv + e] += for_dv * fabs(d_o[e]);
                }
            }
        }
    }
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t i = 0; i < s->H * D; i++)
            set(&b[0], n * dq_row + i, judged[0][n * dq_row + i], b[0].bound[n * dq_row + i]);
        for (int64_t i = 0; i < s->K * D; i++) {
            int64_t at = n * dkv_row + i;
            set(&b[1], at, judged[1][at], b[1].bound[at]);
            set(&b[2], at, judged[2][at], b[2].bound[at]);
        }
    }
}

/* exp(x - max) is off by EXP roundings and by the rounding of x - max; in the sum each counts with its probability. */
BOUND(cross_entropy) {
    BOUND_LOCALS;
    int64_t V = s->V;
    int at = b[1].n >= 0 ? 1 : 2;
    double scale = (double)(1 / 37.0f);
    for (int64_t n = 0; n < s->N; n++) {
        const double *x = &b[2].value[n * V];
        int64_t label = (int64_t)b[3].value[n];
        double maximum = -(double)INFINITY, sum = 0, distance = 0;
        for (int64_t v = 0; v < V; v++) maximum = fmax(maximum, x[v]);
        for (int64_t v = 0; v < V; v++) sum += exp(x[v] - maximum);
        for (int64_t v = 0; v < V; v++) distance += exp(x[v] - maximum) / sum * (maximum - x[v]);
        double sum_rel = sum_share(V) + EXP * U + U * distance;
        set(&b[0], n, judged[0][n], sum_rel + EXP * U * log(sum) + 2 * U * (fabs(maximum) + fabs(x[label]) + log(sum)));
        if (s->without) continue;
        for (int64_t v = 0; v < V; v++) {
            double p = exp(x[v] - maximum) / sum, error = p * (sum_rel + (EXP + 3 + maximum - x[v]) * U);
            if (v == label) error += U;
            /* when lse replaces max and sum, the exponent carries lse's rounding too */
            error += p * U * (fabs(maximum) + log(sum));
            set(&b[at], n * V + v, judged[at][n * V + v], scale * (error + 2 * U * fabs(p - (v == label))));
        }
    }
}

/* Moments: two products and a sum; w: the step's parts, then the subtraction. The judge rounds its fp32 results too.
 * g must be 0; the copy must be what w rounds to (test_ops_rounding asks for equality). */
BOUND(adamw) {
    BOUND_LOCALS;
    double b1 = (double)0.9f, b2 = (double)0.999f, rate = (double)1e-2f, decay = s->without ? 0 : (double)0.1f;
    double c1 = 1 - pow(b1, (double)s->step), c2 = 1 - pow(b2, (double)s->step);
    for (int64_t i = 0; i < s->C; i++) {
        double g = b[3].value[i] * (double)0.37f, w = b[0].value[i];
        double m = s->step == 1 ? 0 : b[1].value[i], v = s->step == 1 ? 0 : b[2].value[i]; /* taken as zero */
        double m_error = 3 * U * (b1 * fabs(m) + (1 - b1) * fabs(g)), v_share = 5 * U;
        double v_new = b2 * v + (1 - b2) * g * g, bottom = sqrt(v_new / c2) + 1e-8;
        double step = (b1 * m + (1 - b1) * g) / c1 / bottom;
        double step_error = m_error / c1 / bottom + fabs(step) * (v_share / 2 + 6 * U);
        double w_error = rate * (step_error + 3 * U * decay * fabs(w)) + 2 * U * fabs(w);
        set(&b[0], i, judged[0][i], w_error + fw_op_half_ulp(FW_F32, judged[0][i]));
        set(&b[1], i, judged[1][i], m_error + fw_op_half_ulp(FW_F32, judged[1][i]));
        set(&b[2], i, judged[2][i], v_share * v_new + fw_op_half_ulp(FW_F32, judged[2][i]));
        if (!s->without) set(&b[4], i, judged[4][i], w_error + 2 * fw_op_half_ulp(c->t, judged[4][i]));
    }
}

/* Squares are exact in fp64, the sum is carried in fp64. */
BOUND(sum_squares) {
    BOUND_LOCALS;
    b[0].bound[0] = (double)s->C * 0x1p-53 * judged[0][0];
}
